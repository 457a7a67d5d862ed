"""Scores a trained model, or translations that exist already.

    python -m t2t_repro.evaluate --model_dir=... [--split=test]
    python -m t2t_repro.evaluate --model_dir=... --source=a.en --reference=a.de
    python -m t2t_repro.evaluate --translations=mine.de --reference=a.de

Every score is printed with what it is; sacreBLEU's with its signature. Those of a split of the data
are also written to the model directory, for the report.
"""

import errno
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags, logging

from t2t_repro import command_line
from t2t_repro.errors import UserError, printable
from t2t_repro.quiet_start import import_tensorflow
from t2t_repro.text_lines import check_output, read_input, write_output

if TYPE_CHECKING:
    from t2t_repro.data.prepared import PreparedData
    from t2t_repro.data.subword_model import SubwordModel, SubwordPair

FLAGS = flags.FLAGS

_NOT_OURS_TO_WRITE = {errno.EACCES, errno.EPERM, errno.EROFS}


def main() -> None:
    """Runs the evaluation on its flags."""
    _check_flags()
    sources, references = _read_files()
    import_tensorflow()
    from t2t_repro import experiment
    from t2t_repro.analysis.run_record import Evaluation
    from t2t_repro.data.prepared import open_data
    from t2t_repro.evaluation.perplexity import HeldOutLoss
    from t2t_repro.training.model_directory import ModelDirectory

    perplexity = None
    if FLAGS.translations:
        experiment.configure_experiment(None, FLAGS.gin_param)
        translations = sources
    else:
        directory = ModelDirectory(FLAGS.model_dir)
        checkpoint = command_line.find_checkpoint()
        translator = command_line.load_translator(checkpoint)
        if not FLAGS.source:
            data_dir = Path(FLAGS.data_dir or Path(FLAGS.model_dir).parent / "data")
            data = open_data(data_dir)
            _check_same_subwords(data, translator.subwords)
            sources, references = data.text(FLAGS.split)
            perplexity = HeldOutLoss(translator.model, data.store(FLAGS.split)).perplexity()
            print(f"{FLAGS.split} perplexity per subword {perplexity:.3f}")
        translations = [found[0].text for found in translator.translate(sources)]
    scores = experiment.evaluate(translations, references)
    for score in scores:
        print(printable(str(score)))
    if FLAGS.output:
        write_output(iter(translations), FLAGS.output)
    if perplexity is not None:
        evaluation = Evaluation(checkpoint, perplexity, scores)
        try:
            directory.write_scores(FLAGS.split, evaluation.as_dict())
        except OSError as error:
            if error.errno not in _NOT_OURS_TO_WRITE:
                raise
            reason = f"{directory.path} cannot be written to ({error.strerror})"
            logging.warning("the report will lack these scores: %s", reason)


def _check_flags() -> None:
    if bool(FLAGS.translations) == bool(FLAGS.model_dir):
        raise UserError(
            "expected either --model_dir, or --translations and --reference: see --help."
        )
    if (FLAGS.source or FLAGS.translations) and not FLAGS.reference:
        raise UserError("--reference is missing: give the file with the reference translations.")
    if FLAGS.reference and not (FLAGS.source or FLAGS.translations):
        raise UserError("--reference alone says nothing: give --source or --translations too.")
    check_output(FLAGS.output)


def _read_files() -> tuple[list[str], list[str]]:
    """The lines to translate, or the translations, and the reference; none where a split is.

    They are counted before anything is loaded and translated, which takes long.
    """
    if not FLAGS.reference:
        return [], []
    flag = "translations" if FLAGS.translations else "source"
    lines = read_input(FLAGS[flag].value, flag)
    references = read_input(FLAGS.reference, "reference")
    if len(lines) != len(references):
        raise UserError(
            f"--{flag}={FLAGS[flag].value} has {len(lines)} lines, --reference={FLAGS.reference} "
            f"has {len(references)}: expected files in which line n belongs to line n."
        )
    return lines, references


def _check_same_subwords(data: "PreparedData", of_model: "SubwordPair[SubwordModel]") -> None:
    if data.subwords.contents() != of_model.contents():
        raise UserError(
            f"{data.directory} has other subwords than the model was trained with, "
            f"{of_model.target.model_path}: give the --data_dir of the training run, or --source "
            "and --reference."
        )


def cli() -> None:
    """Defines the flags, reads the command line, and evaluates."""
    command_line.define_trained_model(is_required=False)
    command_line.define_path("data_dir", None, "Of the run; <model_dir>/../data by default.")
    flags.DEFINE_string("split", "test", "Which split of the data is translated and scored.")
    command_line.define_path("source", None, "A file to translate, in place of a split.")
    command_line.define_path("reference", None, "A file with the reference translations.")
    command_line.define_path("translations", None, "A file of translations to score as they are.")
    command_line.define_path("output", None, "Where the translations are written, if anywhere.")
    command_line.run(main)


if __name__ == "__main__":
    cli()
