"""Trains a model: `python -m t2t_repro.trainer --gin_file=gin/base_ende.gin`.

Prepares what is missing (download, cleaning, subwords, token stores), then trains; started again,
it goes on where it stopped. SIGTERM (or Ctrl-C) makes it write a checkpoint and exit with 143 (130)
within 10 seconds, after the update or dev evaluation under way or without it; a second one ends it
at once.

Several processes, on one machine or many, train together where TF_CONFIG or Slurm's `srun` says so:
each is given the same command, the first prepares the data and writes model and log. They wait for
each other for an hour at most. If one is lost, the others exit with 143 within seconds; started
again, as many as there are, they go on. A signal ends all of them after the same update.

The log's `loss` is what is minimised: cross-entropy with label smoothing, less the entropy of the
smoothing itself, so that 0 is the least. So it may lie below `nll`, the cross-entropy without label
smoothing, in nats a target token; perplexity is e^nll.
"""

from pathlib import Path

from absl import flags

from t2t_repro.command_line import flags as shared
from t2t_repro.command_line.program import import_tensorflow, run
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.training.signals import ended_by_signals

FLAGS = flags.FLAGS


def main() -> None:
    """Runs the trainer on its flags."""
    model_dir = Path(FLAGS.model_dir or shared.default_directory("model"))
    shared.check_experiment()
    if shared.is_alone() and model_dir.exists():
        with ModelDirectory(model_dir).held("trainer"):
            pass
    import_tensorflow()
    from t2t_repro import experiment

    settings = experiment.read(FLAGS.gin_file, FLAGS.gin_param, shared.data_directory())
    experiment.train(settings, model_dir, shared.data_directory())


def cli() -> None:
    """Defines the flags, reads the command line, and trains."""
    shared.define_experiment()
    shared.define_path("model_dir", None, "For the model; runs/<experiment>/model by default.")
    with ended_by_signals():
        run(main)


if __name__ == "__main__":
    cli()
