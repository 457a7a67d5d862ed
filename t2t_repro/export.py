"""Makes a servable: `python -m t2t_repro.export --model_dir=... --export_dir=...`.

The servable translates without t2t_repro: text in, text out, with the beam and the limits of the
training run's configuration, on which --gin_param puts others. Every call writes a new version.
"""

from pathlib import Path

from absl import flags, logging

from t2t_repro import command_line

FLAGS = flags.FLAGS


def main() -> None:
    """Runs the export on its flags."""
    command_line.check_model_name()
    _EXPORTS[FLAGS.format]()


def _export_saved_model() -> None:
    from t2t_repro import experiment
    from t2t_repro.serving.saved_model import next_version, write_saved_model
    from t2t_repro.serving.servable import Servable
    from t2t_repro.serving.stored_weights import PRECISIONS

    export_dir = Path(FLAGS.export_dir)
    version = next_version(export_dir, FLAGS.version)
    translator = experiment.load_translator(
        Path(FLAGS.model_dir), FLAGS.gin_param, FLAGS.checkpoint, PRECISIONS[FLAGS.weights]
    )
    servable = Servable(translator, FLAGS.weights)
    written = write_saved_model(servable, export_dir, version, FLAGS.model_name)
    logging.info("exported %s weights as version %d: %s", FLAGS.weights, version, written)


_EXPORTS = {"saved_model": _export_saved_model}


if __name__ == "__main__":
    command_line.define_model_dir()
    flags.DEFINE_string("export_dir", None, "Where the versions are written.", required=True)
    flags.DEFINE_string("checkpoint", None, "averaged, best, latest or checkpoints/step-<n>.")
    flags.DEFINE_enum("format", "saved_model", list(_EXPORTS), "For which engine.")
    flags.DEFINE_enum(
        "weights", "float32", ["float32", "bfloat16", "int8"], "How weights are stored."
    )
    flags.DEFINE_integer("version", None, "Its number; one more than the largest by default.")
    flags.DEFINE_string("model_name", "translate", "The model's name, as clients will give it.")
    command_line.run(main)
