"""Scores a trained model, or translations that exist already, and compares systems.

    python -m t2t_repro.evaluate --model_dir=... [--split=test] [--confidence]
    python -m t2t_repro.evaluate --model_dir=... --source=a.en --reference=a.de
    python -m t2t_repro.evaluate --translations=mine.de --reference=a.de
    python -m t2t_repro.evaluate --translations=mine.de --baseline=theirs.de --reference=a.de

Every score is printed with what it is; sacreBLEU's with its signature. Those of a model on a split
of the data are also written to the model directory, for the report. With a baseline, sacreBLEU
tells how likely a difference as great as the one found is by chance.
"""

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from absl import flags, logging

from t2t_repro.command_line.flags import (
    define_ensemble,
    define_trained_model,
    find_checkpoint,
    load_translator,
)
from t2t_repro.command_line.path_flags import define_path, define_paths
from t2t_repro.command_line.program import run
from t2t_repro.command_line.quiet_start import import_tensorflow
from t2t_repro.command_line.text_lines import check_output, one_line, read_input, write_output
from t2t_repro.errors import UserError, printable

if TYPE_CHECKING:
    from t2t_repro.data.prepared import PreparedData
    from t2t_repro.evaluation.scores import Score
    from t2t_repro.evaluation.significance import Estimate
    from t2t_repro.text.subword_model import SubwordPair

FLAGS = flags.FLAGS

_NOT_OURS_TO_WRITE = {errno.EACCES, errno.EPERM, errno.EROFS}


class _System(NamedTuple):
    """Translations, and whose they are.

    Attributes:
        name: of their file, or of the model.
        translations: a line each.
        checkpoint: of a model, relative to its directory.
        perplexity: of a single model on a split of the data.
        search: of a model, how it found them.
    """

    name: str
    translations: Sequence[str]
    checkpoint: str = ""
    perplexity: float | None = None
    search: str = ""


def main() -> None:
    """Runs the evaluation on its flags."""
    _check_flags()
    references: Sequence[str] | None = None
    if FLAGS.reference:
        references = read_input(FLAGS.reference, "reference")
    sources = _read("source", FLAGS.source, references) if FLAGS.source else None
    baseline = [_read_system("baseline", FLAGS.baseline, references)] if FLAGS.baseline else []
    others = [_read_system("translations", path, references) for path in FLAGS.translations]
    import_tensorflow()
    from t2t_repro import experiment

    if FLAGS.model_dir:
        model, references = _translate(sources, references, [*baseline, *others])
        others.insert(0, model)
        write_failed = _write(model.translations)
    else:
        write_failed = None
        experiment.configure_experiment(None, FLAGS.gin_param)
    systems = [*baseline, *others]
    scores = [experiment.evaluate(system.translations, references or []) for system in systems]
    _print(systems, _estimates(scores))
    if (perplexity := others[0].perplexity) is not None:
        _keep(others[0], perplexity, scores[len(baseline)])
    if write_failed:
        raise write_failed


def _check_flags() -> None:
    if not FLAGS.model_dir and not FLAGS.translations:
        raise UserError(
            "expected either --model_dir, or --translations and --reference: see --help."
        )
    if (FLAGS.source or not FLAGS.model_dir) and not FLAGS.reference:
        raise UserError("--reference is missing: give the file with the reference translations.")
    for flag in ("source", "output", "ensemble"):
        if FLAGS[flag].value and not FLAGS.model_dir:
            raise UserError(f"--{flag} is for a model: give --model_dir too.")
    if FLAGS.reference and FLAGS.model_dir and not FLAGS.source:
        raise UserError("--reference alone says nothing to a model: give --source too.")
    for flag in ("significance", "samples", "seed"):
        needed = ("baseline",) if flag == "significance" else ("baseline", "confidence")
        if FLAGS[flag].value is not None and not any(FLAGS[other].value for other in needed):
            raise UserError(f"--{flag} says nothing alone: give --{' or --'.join(needed)} too.")
    check_output(FLAGS.output)


def _write(translations: Sequence[str]) -> UserError | None:
    """Writes them before they are scored, since a metric may be a user's.

    Returns:
        an error that kept them from being written: the scores are printed all the same.
    """
    if FLAGS.output:
        try:
            write_output(map(one_line, translations), FLAGS.output)
        except UserError as error:
            return error
    return None


def _read_system(flag: str, path: str, references: Sequence[str] | None) -> _System:
    return _System(path, _read(flag, path, references))


def _read(flag: str, path: str, references: Sequence[str] | None) -> list[str]:
    """Reads lines; they are counted before anything is loaded and translated, which takes long."""
    lines = read_input(path, flag)
    if references is not None and len(lines) != len(references):
        raise UserError(
            f"--{flag}={path} has {len(lines)} lines, --reference={FLAGS.reference} "
            f"has {len(references)}: expected files in which line n belongs to line n."
        )
    return lines


def _translate(
    sources: Sequence[str] | None, references: Sequence[str] | None, others: Sequence[_System]
) -> tuple[_System, Sequence[str]]:
    """Translates a file or a split of the data; the references are those given, or the split's."""
    from t2t_repro.data.prepared import open_data
    from t2t_repro.decoding.search import described
    from t2t_repro.evaluation.perplexity import HeldOutLoss

    checkpoint = find_checkpoint()
    translator = load_translator(checkpoint, ensemble=FLAGS.ensemble)
    perplexity = None
    if sources is None or references is None:
        data_dir = Path(FLAGS.data_dir or Path(FLAGS.model_dir).parent / "data")
        data = open_data(data_dir)
        _check_same_subwords(data, translator.subwords)
        sources, references = data.text(FLAGS.split)
        for other in others:
            if len(other.translations) != len(references):
                raise UserError(
                    f"{other.name} has {len(other.translations)} lines, {FLAGS.split} of "
                    f"{data_dir} has {len(references)}: expected translations of that split."
                )
        if FLAGS.ensemble:
            logging.info("the perplexity of an ensemble is not computed")
        else:
            perplexity = HeldOutLoss(translator.model, data.store(FLAGS.split)).perplexity()
    translations = [found[0].text for found in translator.translate(sources)]
    name = " + ".join([f"{FLAGS.model_dir} ({checkpoint})", *FLAGS.ensemble])
    search = described(translator.settings.search)
    return _System(name, translations, checkpoint, perplexity, search), references


def _estimates(scores: "Sequence[Sequence[Score]]") -> "Sequence[Sequence[Estimate]]":
    """Computes the intervals and p-values that are asked for, of every system and metric."""
    from t2t_repro.evaluation.significance import Estimate, Resampling

    resampling = Resampling(FLAGS.significance or "bootstrap", FLAGS.samples, FLAGS.seed)
    if FLAGS.baseline:
        by_metric = [
            resampling.compare(of_metric, FLAGS.confidence)
            for of_metric in zip(*scores, strict=True)
        ]
        return list(zip(*by_metric, strict=True))
    estimate = resampling.estimate if FLAGS.confidence else Estimate
    return [[estimate(score) for score in of_system] for of_system in scores]


def _print(systems: Sequence[_System], estimates: "Sequence[Sequence[Estimate]]") -> None:
    """Prints a table of several systems, or the scores of one."""
    from t2t_repro.evaluation.score_table import Row, as_json, as_markdown, line

    rows = [
        Row(system.name, of_system, system.perplexity)
        for system, of_system in zip(systems, estimates, strict=True)
    ]
    has_baseline = bool(FLAGS.baseline)
    if FLAGS.format == "json":
        write_output(iter([as_json(rows, has_baseline)]), None)
        return
    lines = [
        f"{FLAGS.split} perplexity per subword {row.perplexity:.3f}"
        for row in rows
        if row.perplexity is not None
    ]
    if FLAGS.format == "markdown" or len(rows) > 1:
        lines += as_markdown(rows, has_baseline)
    else:
        lines += map(line, rows[0].estimates)
    write_output(map(printable, lines), None)


def _keep(model: _System, perplexity: float, scores: "list[Score]") -> None:
    """Writes the scores of a split to the model directory, where that can be written to."""
    from t2t_repro.analysis.run_record import Evaluation
    from t2t_repro.runs.model_directory import ModelDirectory

    directory = ModelDirectory(FLAGS.model_dir)
    evaluation = Evaluation(model.checkpoint, perplexity, scores, model.search)
    try:
        directory.write_scores(FLAGS.split, evaluation.as_dict())
    except OSError as error:
        if error.errno not in _NOT_OURS_TO_WRITE:
            raise
        reason = f"{directory.path} cannot be written to ({error.strerror})"
        logging.warning("the report will lack these scores: %s", reason)


def _check_same_subwords(data: "PreparedData", of_model: "SubwordPair") -> None:
    if data.subwords.contents() != of_model.contents():
        raise UserError(
            f"{data.directory} has other subwords than the model was trained with, "
            f"{of_model.target.model_path}: give the --data_dir of the training run, or --source "
            "and --reference."
        )


def cli() -> None:
    """Defines the flags, reads the command line, and evaluates."""
    define_trained_model(is_required=False)
    define_ensemble()
    define_path("data_dir", None, "Of the run; <model_dir>/../data by default.")
    flags.DEFINE_string("split", "test", "Which split of the data is translated and scored.")
    define_path("source", None, "A file to translate, in place of a split.")
    define_path("reference", None, "A file with the reference translations.")
    define_paths("translations", "A file of translations to score as they are.")
    define_path("baseline", None, "A file of translations to compare all others with.")
    flags.DEFINE_bool("confidence", False, "Add 95 % intervals by bootstrap, as sacreBLEU does.")
    flags.DEFINE_enum(
        "significance",
        None,
        ["bootstrap", "randomisation"],
        "The paired test against the baseline; bootstrap resampling by default.",
    )
    flags.DEFINE_integer(
        "samples",
        None,
        "How many samples are drawn; 1,000 by default, 10,000 for randomisation.",
        lower_bound=2,
    )
    flags.DEFINE_integer(
        "seed",
        None,
        "Of the samples; that of SACREBLEU_SEED by default, or 12345.",
        lower_bound=1,
    )
    flags.DEFINE_enum(
        "format",
        None,
        ["markdown", "json"],
        "A table by default where there are several systems, else a line a metric.",
    )
    define_path("output", None, "Where a model's translations are written, if so.")
    run(main)


if __name__ == "__main__":
    cli()
