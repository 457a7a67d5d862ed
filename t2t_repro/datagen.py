"""Prepares the data of an experiment: `python -m t2t_repro.datagen --gin_file=gin/base_ende.gin`.

Download, cleaning, subwords, token stores; the trainer does the same where it is missing.
"""

from absl import flags, logging

from t2t_repro.command_line.flags import check_experiment, data_directory, define_experiment
from t2t_repro.command_line.program import import_tensorflow, run

FLAGS = flags.FLAGS


def main() -> None:
    """Runs the preparation on its flags."""
    check_experiment()
    import_tensorflow()
    from t2t_repro import experiment

    data_dir = data_directory()
    experiment.configure_experiment(FLAGS.gin_file, FLAGS.gin_param, ["prepare"], data_dir)
    data = experiment.prepare_data(data_dir)
    sizes = dict.fromkeys(data.subwords.each(lambda model: model.size))
    logging.info("data: %s subwords, in %s", " and ".join(map(str, sizes)), data.directory)


def cli() -> None:
    """Defines the flags, reads the command line, and prepares the data."""
    define_experiment()
    run(main)


if __name__ == "__main__":
    cli()
