"""Trains a model: `python -m t2t_repro.trainer --gin_file=gin/base_ende.gin`.

Prepares what is missing (download, cleaning, subwords, token stores), then trains; started again,
it goes on where it stopped. SIGTERM (or Ctrl-C) makes it write a checkpoint after the update under
way, or in place of a dev evaluation, and exit with 143 (130); a second one ends it at once.

Several processes, on one machine or many, train together where TF_CONFIG or Slurm's `srun` says so:
each is given the same command, the first prepares the data and writes model and log. They wait for
each other for find_workers.limit_minutes. If one is lost, the others exit with 143 within seconds;
started again, as many as there are, they go on.

The log's `loss` is what is minimised: cross-entropy with label smoothing, less the entropy of the
smoothing itself, so that 0 is the least. So it may lie below `nll`, the cross-entropy without label
smoothing, in nats a target token; perplexity is e^nll.

`--replay=<model_dir>/nonfinite/step-<n>.npz` runs a batch again whose loss or gradient could not be
used: prints the loss, the gradient norm of every variable, and what first was not finite.
"""

from pathlib import Path

from absl import flags

from t2t_repro.command_line.flags import (
    default_directory,
    define_allow_import,
    define_experiment,
    define_path,
)
from t2t_repro.command_line.program import run
from t2t_repro.training.cluster import is_first
from t2t_repro.training.signals import ended_by_signals
from t2t_repro.training.xla_cache import keep_programs

FLAGS = flags.FLAGS


def main() -> None:
    """Runs the trainer on its flags."""
    if FLAGS.replay:
        from t2t_repro import experiment

        experiment.replay_batch(Path(FLAGS.replay), FLAGS.allow_import)
        return
    model_dir = Path(FLAGS.model_dir or default_directory("model"))
    data_dir = Path(FLAGS.data_dir or default_directory("data"))
    # As it is imported, TensorFlow reads what this sets.
    keep_programs(model_dir, FLAGS.xla_cache_dir, is_first())
    from t2t_repro import experiment

    experiment.configure_experiment(
        FLAGS.gin_file, FLAGS.gin_param, needed=experiment.TRAINING_ROOTS
    )
    experiment.train(model_dir, data_dir)


def cli() -> None:
    """Defines the flags, reads the command line, and trains."""
    define_experiment(is_required=False)
    define_path("replay", None, "A batch to run again, in place of training.")
    define_allow_import()
    flags.register_multi_flags_validator(
        ["gin_file", "replay"],
        lambda given: bool(given["gin_file"]) != bool(given["replay"]),
        "expected --gin_file, or --replay alone",
    )
    define_path("model_dir", None, "For the model; runs/<experiment>/model by default.")
    define_path(
        "xla_cache_dir",
        None,
        "Where XLA keeps compiled programs for the next start, '' for nowhere; by default "
        "~/.cache/t2t_repro on a CPU, nowhere on a GPU.",
    )
    with ended_by_signals():
        run(main)


if __name__ == "__main__":
    cli()
