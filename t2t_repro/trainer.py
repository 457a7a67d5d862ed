"""Trains a model: `python -m t2t_repro.trainer --gin_file=gin/base_ende.gin`.

Prepares what is missing (download, cleaning, subwords, token stores), then trains; started again,
it goes on where it stopped.
"""

from pathlib import Path

from absl import flags

from t2t_repro import command_line

FLAGS = flags.FLAGS


def main() -> None:
    """Runs the trainer on its flags."""
    from t2t_repro import experiment

    experiment.configure_experiment(FLAGS.gin_file, FLAGS.gin_param)
    model_dir = FLAGS.model_dir or experiment.default_directory(FLAGS.gin_file, "model")
    data_dir = FLAGS.data_dir or experiment.default_directory(FLAGS.gin_file, "data")
    experiment.train(Path(model_dir), Path(data_dir))


if __name__ == "__main__":
    command_line.define_experiment()
    flags.DEFINE_string("model_dir", None, "For the model; runs/<experiment>/model by default.")
    command_line.run(main)
