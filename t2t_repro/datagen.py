"""Prepares the data of an experiment: `python -m t2t_repro.datagen --gin_file=gin/base_ende.gin`.

Download, cleaning, subwords, token stores; the trainer does the same where it is missing.
"""

from os.path import expanduser

from absl import logging

from t2t_repro.command_line.flags import FLAGS, define_experiment, run_directory
from t2t_repro.command_line.program import import_tensorflow, run
from t2t_repro.runs.model_directory import ModelDirectory


def main() -> None:
    """Prepares the data of the experiment in --gin_file, and logs their sizes and folder."""
    from t2t_repro import experiment
    from t2t_repro.data.preparation import Preparation, prepare_corpus

    data_dir = run_directory("data_dir")
    settings = experiment.read(FLAGS.gin_file, FLAGS.gin_param, data_dir, [Preparation])
    # Before TensorFlow is imported: mistakes in the corpus are reported soon.
    prepare_corpus(settings.preparation, data_dir)
    import_tensorflow()
    from t2t_repro.data.stages import prepare
    from t2t_repro.training.model_for_data import fit_to_data

    init_from = settings.train.init_from
    initial_model = ModelDirectory(expanduser(init_from)) if init_from else None
    # Fine-tuning uses the subwords of the initial model if the gin file binds none.
    data = prepare(fit_to_data(settings, initial_model).preparation, data_dir)
    # Each size once, in order: there is one where source and target share their subwords.
    sizes = dict.fromkeys(data.subwords.each(lambda model: model.size))
    logging.info("data: %s subwords, in %s", " and ".join(map(str, sizes)), data.directory)


def cli() -> None:
    """Defines the flags, reads the command line, and prepares the data."""
    define_experiment()
    run(main)


if __name__ == "__main__":
    cli()
