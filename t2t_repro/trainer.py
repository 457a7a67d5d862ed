"""Trains a model: `python -m t2t_repro.trainer --gin_file=gin/base_ende.gin`.

Prepares what is missing (download, cleaning, subwords, token stores), then trains; started again,
it goes on where it stopped. After SIGTERM (or Ctrl-C) it finishes the current update, writes a
checkpoint and exits with 143 (130); a dev evaluation is abandoned and made again. A second signal
ends it at once.

Several processes, on one machine or many, train together where TF_CONFIG or Slurm's `srun` says so:
each is given the same command, the first prepares the data and writes model and log. They wait for
each other for an hour at most. If one is lost, the others exit with 143 within half a minute;
started again, as many as there are, they go on. A signal ends all of them after the same update.

The log's `loss` is what is minimised: cross-entropy with label smoothing, shifted so that its
minimum is 0. It may lie below `nll`, the cross-entropy without label smoothing, in nats a target
token; perplexity is e^nll.
"""

import os

from absl.flags import FLAGS

from t2t_repro.command_line import flags as shared
from t2t_repro.command_line.program import import_tensorflow, run
from t2t_repro.training.signals import ended_by_signals


def main() -> None:
    """Trains the experiment in --gin_file, or goes on training it."""
    from t2t_repro import experiment
    from t2t_repro.data.preparation import prepare_corpus

    data_dir = shared.run_directory("data_dir")
    settings = experiment.read(FLAGS.gin_file, FLAGS.gin_param, data_dir)
    if not os.environ.get("TF_CONFIG") and os.environ.get("SLURM_STEP_NUM_TASKS", "1") == "1":
        # No other process trains with this one: mistakes in the corpus are reported at once.
        prepare_corpus(settings.preparation, data_dir)
    import_tensorflow()
    from t2t_repro.training.training_run import train

    train(settings, experiment.configuration, shared.run_directory("model_dir"), data_dir)


def cli() -> None:
    """Defines the flags, reads the command line, and trains."""
    shared.define_experiment()
    shared.define_path("model_dir", "For the model; runs/<experiment>/model by default.")
    with ended_by_signals():
        run(main)


if __name__ == "__main__":
    cli()
