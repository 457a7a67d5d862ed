"""Averages checkpoints: `python -m t2t_repro.average --model_dir=... --last=5`.

The paper averages the last 5 checkpoints of the base model and the last 20 of the big one
(section 6.1). The result goes to model_dir/averaged.
"""

from absl import flags, logging

from t2t_repro.command_line.flags import define_import, define_model_dir, named_modules
from t2t_repro.command_line.program import import_tensorflow, run
from t2t_repro.runs.model_directory import ModelDirectory

FLAGS = flags.FLAGS


def main() -> None:
    """Runs the averaging on its flags."""
    directory = ModelDirectory(FLAGS.model_dir)
    checkpoints = directory.last_checkpoints(FLAGS.last)
    import_tensorflow()
    from t2t_repro.config.gin_files import import_modules
    from t2t_repro.runs.weights import average_weights, save_weights

    import_modules(named_modules())
    model = directory.new_model(checkpoints[max(checkpoints)])
    with directory.held("average"):
        average_weights(model, checkpoints.values())
        save_weights(model, directory.averaged, max(checkpoints))
    first, last = min(checkpoints), max(checkpoints)
    logging.info(
        f"averaged {len(checkpoints)} checkpoints, steps {first} to {last}, into "
        f"{directory.averaged}"
    )


def cli() -> None:
    """Defines the flags, reads the command line, and averages."""
    define_model_dir()
    define_import()
    flags.DEFINE_integer("last", 5, "How many of the last checkpoints are averaged.")
    run(main)


if __name__ == "__main__":
    cli()
