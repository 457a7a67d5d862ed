"""Scores a trained model, or existing translations, and compares systems.

    python -m t2t_repro.evaluate --model_dir=... [--split=test] [--confidence]
    python -m t2t_repro.evaluate --model_dir=... --source=a.en --reference=a.de
    python -m t2t_repro.evaluate --translations=mine.de --reference=a.de [--reference=b.de]
    python -m t2t_repro.evaluate --translations=mine.de --baseline=theirs.de --reference=a.de

Every score is printed with its name, sacreBLEU's with its signature. Those of a model on a split of
its data are also written to the model directory. With a baseline, sacreBLEU tests whether
differences are significant.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags, logging

from t2t_repro import experiment
from t2t_repro.command_line import flags as shared
from t2t_repro.command_line.program import run
from t2t_repro.command_line.text_lines import check_output, one_line, read_input, write_output
from t2t_repro.config.checks import check_bound
from t2t_repro.config.gin_files import configure, import_modules
from t2t_repro.data.line_files import check_line_counts
from t2t_repro.data.prepared import PreparedData, open_data
from t2t_repro.errors import UserError
from t2t_repro.evaluation import significance
from t2t_repro.evaluation.scores import EvaluationSettings, Score
from t2t_repro.evaluation.significance import System
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.records import write_scores

if TYPE_CHECKING:
    from t2t_repro.decoding.translator import Translator

FLAGS = flags.FLAGS

# Python's text of a function or object, with its address in memory.
_ADDRESS = r"<(?:function )?([\w.]+)(?: object)? at 0x\w+>"


def main() -> None:
    """Scores the systems that the flags name, prints the scores, and saves those of a split."""
    _check_flags()
    sources = read_input(FLAGS.source, "source") if FLAGS.source else []
    references = _read_references()
    checkpoint = shared.find_checkpoint() if FLAGS.model_dir else None
    # Without --source, the model translates a split of its data.
    data = _open_data_of_model() if checkpoint and not FLAGS.source else None
    if data:
        sources, references = data.text(FLAGS.split)
    systems = _read_systems(sources, references)
    # The system of the model follows the baseline.
    model_index = 1 if FLAGS.baseline else 0
    if checkpoint:
        translator = shared.load_translator(checkpoint, others=experiment.EVALUATION)
        systems.insert(model_index, _translate(translator, checkpoint, sources, data))
    else:
        _bind_metrics()
    if not (metrics := EvaluationSettings().metrics):
        raise UserError("evaluate.metrics is empty, expected one metric at least, such as @bleu.")
    texts = [system.translations for system in systems]
    # [systems][metrics]
    scores = [[metric(lines, references, sources) for metric in metrics] for lines in texts]
    _print_scores(_with_estimates(systems, scores))
    # Only a single model, on a split of its data, has a perplexity.
    if checkpoint and (perplexity := systems[model_index].perplexity) is not None:
        _save_scores(translator, checkpoint, perplexity, scores[model_index])


def _check_flags() -> None:
    """Checks that the flags name something to score and its references, and checks --output.

    Raises:
        UserError: a system or its references are missing, references are given for a split, or
            --output cannot be written.
    """
    # A split of the model's data has its own references: --reference is refused there.
    needs_reference = bool(FLAGS.source or not FLAGS.model_dir)
    # --output is for the model's translations.
    has_system = FLAGS.model_dir or (FLAGS.translations and not FLAGS.output)
    # One message for both mistakes: it lists what can be given together.
    if not has_system or needs_reference != bool(FLAGS.reference):
        model = "--model_dir for a split of its data; or --model_dir, --source and --reference"
        raise UserError(f"expected {model}; or --translations and --reference, without --output.")
    check_output()


def _open_data_of_model() -> PreparedData:
    """Opens --data_dir; by default the folder "data" beside --model_dir."""
    beside = Path(FLAGS.model_dir).absolute().parent
    return open_data(Path(FLAGS.data_dir or beside / "data"))


def _bind_metrics() -> None:
    """Binds the metrics where no model is loaded: only --gin_param and --import name them."""
    # FLAGS.import would be a syntax error.
    import_modules(getattr(FLAGS, "import"))
    # None: no gin file.
    check_bound(configure(None, FLAGS.gin_param, [EvaluationSettings]), [EvaluationSettings])


def _read_references() -> Sequence[str | tuple[str, ...]]:
    """Reads the files of --reference.

    Returns:
        for each sentence its reference; or a tuple, if there are several files or columns. Empty
        without --reference.

    Raises:
        UserError: a file cannot be read, or the numbers of columns or of lines differ.
    """
    # The columns of all files, each with an entry for every line. Plain text is one column.
    columns: list[Sequence[str]] = []
    counts = {}
    for path in FLAGS.reference:
        name = f"--reference={path}"
        # Not the last suffix alone: a.tsv.gz is a table, too.
        is_table = ".tsv" in Path(path.lower()).suffixes
        rows = [line.split("\t") if is_table else [line] for line in read_input(path, "reference")]
        if wrong := [number for number, row in enumerate(rows, 1) if len(row) != len(rows[0])]:
            raise UserError(f"{name}, line {wrong[0]}: expected {len(rows[0])} columns, as line 1.")
        counts[name] = len(rows)
        # From rows to columns; below, from columns to a tuple for each line.
        columns += zip(*rows, strict=True)
    check_line_counts(counts)
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def _read_systems(sources: Sequence[str], references: Sequence[object]) -> list[System]:
    """Reads --baseline, if given, and then each --translations.

    Raises:
        UserError: a file cannot be read, or has another number of lines than the references.
    """
    paths = [("baseline", FLAGS.baseline)] if FLAGS.baseline else []
    paths += [("translations", path) for path in FLAGS.translations]
    systems = [System(path, read_input(path, flag)) for flag, path in paths]
    counts = {f"--source={FLAGS.source}": len(sources)} if FLAGS.source else {}
    counts |= {system.name: len(system.translations) for system in systems}
    check_line_counts(counts | {"the reference": len(references)})
    return systems


def _translate(
    translator: "Translator", checkpoint: str, sources: Sequence[str], data: PreparedData | None
) -> System:
    """Translates the sources, writes --output if given, and returns the model as a system.

    `data` are the prepared data whose split the sources are; None for the file of --source, of
    which no perplexity is computed.
    """
    # First: other subwords in the data are an error, which is raised before the long translation.
    perplexity = _perplexity(translator, data) if data else None
    translations = [best.text for best, *_ in translator.translate(sources)]
    if FLAGS.output:
        # Before they are scored: a metric of the user's own may fail.
        write_output(map(one_line, translations), FLAGS.output)
    name = " + ".join([f"{FLAGS.model_dir} ({checkpoint})", *FLAGS.ensemble])
    return System(name, translations, perplexity)


def _perplexity(translator: "Translator", data: PreparedData) -> float | None:
    """Computes the perplexity per subword of a single model on --split; None for an ensemble.

    Raises:
        UserError: the data have other subwords than the model.
    """
    from t2t_repro.evaluation.perplexity import HeldOutLoss

    if data.subwords.contents() != translator.subwords.contents():
        problem = f"{data.directory} has other subwords than {FLAGS.model_dir}"
        raise UserError(f"{problem}: give the run's --data_dir, or --source and --reference.")
    if FLAGS.ensemble:
        return None
    return HeldOutLoss(translator.model, data.store(FLAGS.split)).perplexity()


def _with_estimates(systems: Sequence[System], scores: Sequence[Sequence[Score]]) -> list[System]:
    """Returns the systems with their scores, and with intervals and p-values if flags ask for them.

    `scores` are [systems][metrics].
    """
    if FLAGS.seed:
        # sacreBLEU reads it there.
        os.environ["SACREBLEU_SEED"] = str(FLAGS.seed)
    # From [systems][metrics] to [metrics][systems], and back.
    by_metric = [_estimates(metric_scores) for metric_scores in zip(*scores, strict=True)]
    by_system = zip(*by_metric, strict=True)
    return [system._replace(estimates=row) for system, row in zip(systems, by_system, strict=True)]


def _estimates(scores: Sequence[Score]) -> list[significance.Estimate]:
    """Estimates intervals and p-values by one metric, as flags ask for: an estimate a system."""
    test = FLAGS.significance if FLAGS.baseline or FLAGS.confidence else None
    # Without a baseline each system is sampled by itself.
    groups: list[Sequence[Score]] = [scores] if FLAGS.baseline else [[score] for score in scores]
    lists = [significance.compare(group, test, FLAGS.samples, FLAGS.confidence) for group in groups]
    return [estimate for estimates in lists for estimate in estimates]


def _print_scores(systems: Sequence[System]) -> None:
    """Prints the systems' scores in the style of --format.

    By default a single system has a line for each score, and several are a table. Above is the
    perplexity, if there is one; JSON has it inside.
    """
    if FLAGS.format == "json":
        lines = significance.as_json(systems, bool(FLAGS.baseline))
    else:
        perplexities = [system.perplexity for system in systems if system.perplexity is not None]
        lines = [f"{FLAGS.split} perplexity per subword {value:.3f}" for value in perplexities]
        if FLAGS.format or len(systems) > 1:
            lines += significance.as_markdown(systems, bool(FLAGS.baseline))
        else:
            lines += significance.as_lines(systems[0])
    write_output(lines, None)


def _save_scores(
    translator: "Translator", checkpoint: str, perplexity: float, scores: Sequence[Score]
) -> None:
    """Writes a split's scores to the model directory; logs a warning if that is impossible."""
    evaluation = {
        "checkpoint": checkpoint,
        "perplexity": perplexity,
        "scores": [score.as_dict() for score in scores],
        # Such as BeamSearch(beam_size=4, ..., penalty=wu_penalty).
        "search": re.sub(_ADDRESS, r"\1", repr(translator.settings.search)),
    }
    try:
        write_scores(ModelDirectory(FLAGS.model_dir).scores, FLAGS.split, evaluation)
    except OSError as error:
        logging.warning("the scores are not saved in %s: %s", FLAGS.model_dir, error.strerror)


def cli() -> None:
    """Defines the flags, reads the command line, and evaluates."""
    shared.define_trained_model(is_required=False)
    shared.define_glossary()
    shared.define_ensemble()
    shared.define_path("data_dir", "Of the run; <model_dir>/../data by default.")
    flags.DEFINE_string("split", "test", "The split of the data that is translated and scored.")
    shared.define_path("source", "A file to translate, instead of a split.")
    several = "Can be given several times; the columns of a .tsv file are references too."
    shared.define_paths("reference", f"A file with the reference translations. {several}")
    shared.define_paths("translations", "A file of translations to score as they are.")
    shared.define_path("baseline", "A file of translations to compare all others with.")
    flags.DEFINE_bool("confidence", False, "Add 95 % intervals by bootstrap, as sacreBLEU does.")
    tests = ["bootstrap", "randomisation"]
    flags.DEFINE_enum("significance", "bootstrap", tests, "The paired test, of --baseline.")
    flags.DEFINE_integer("samples", None, "Of the test; sacreBLEU's by default.", lower_bound=2)
    flags.DEFINE_integer("seed", None, "Of the samples; sacreBLEU's by default.", lower_bound=1)
    styles = ["markdown", "json"]
    flags.DEFINE_enum("format", None, styles, "By default markdown for several systems.")
    shared.define_path("output", "Where a model's translations are written.")
    run(main)


if __name__ == "__main__":
    cli()
