"""The paper's Table 3, "Variations on the Transformer architecture", beside runs of its rows."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from runs import Evaluation, Run, Sample, model_directories, read_run
from t2t_repro.errors import UserError
from t2t_repro.evaluation.paper_bleu import PAPER_BLEU

Runs = Mapping[str, Mapping[str, Run]]
"""Runs by the name of their row, then by seed ("seed_1", ...; "model" for a run without a seed)."""


class Row(NamedTuple):
    """A row of Table 3. BLEU and perplexity are of newstest2013, without averaged checkpoints.

    Attributes:
        group: "base", "A" ... "E" or "big".
        change: what differs from base, in the table's own symbols.
        name: of the gin file, and of the folder below runs/.
        perplexity: per subword of the paper's vocabulary.
        bleu: tokenised, compounds split; see `paper_bleu`.
        millions: of parameters.
        steps: updates.
    """

    group: str
    change: str
    name: str
    perplexity: float
    bleu: float
    millions: int = 65
    steps: int = 100_000


BASE = "base_ende"
"""The name of the row that the others are variations of."""

TABLE_3 = (
    Row("base", "", BASE, 4.92, 25.8),
    Row("A", "h = 1, d_k = d_v = 512", "a_1_head", 5.29, 24.9),
    Row("A", "h = 4, d_k = d_v = 128", "a_4_heads", 5.00, 25.5),
    Row("A", "h = 16, d_k = d_v = 32", "a_16_heads", 4.91, 25.8),
    Row("A", "h = 32, d_k = d_v = 16", "a_32_heads", 5.01, 25.4),
    Row("B", "d_k = 16", "b_d_k_16", 5.16, 25.1, 58),
    Row("B", "d_k = 32", "b_d_k_32", 5.01, 25.4, 60),
    Row("C", "N = 2", "c_2_layers", 6.11, 23.7, 36),
    Row("C", "N = 4", "c_4_layers", 5.19, 25.3, 50),
    Row("C", "N = 8", "c_8_layers", 4.88, 25.5, 80),
    Row("C", "d_model = 256, d_k = d_v = 32", "c_d_model_256", 5.75, 24.5, 28),
    Row("C", "d_model = 1024, d_k = d_v = 128", "c_d_model_1024", 4.66, 26.0, 168),
    Row("C", "d_ff = 1024", "c_d_ff_1024", 5.12, 25.4, 53),
    Row("C", "d_ff = 4096", "c_d_ff_4096", 4.75, 26.2, 90),
    Row("D", "dropout 0.0", "d_dropout_0_0", 5.77, 24.6),
    Row("D", "dropout 0.2", "d_dropout_0_2", 4.95, 25.5),
    Row("D", "label smoothing 0.0", "d_label_smoothing_0_0", 4.67, 25.3),
    Row("D", "label smoothing 0.2", "d_label_smoothing_0_2", 5.47, 25.7),
    Row("E", "learned positions in place of sinusoids", "e_learned_positions", 4.92, 25.7),
    Row("big", "d_model = 1024, d_ff = 4096, h = 16, dropout 0.3, 300,000 steps",
        "big_ende", 4.33, 26.4, 213, 300_000),
)  # fmt: skip
"""In the paper's order."""


class Measure(NamedTuple):
    """A measure of quality on the dev split.

    Attributes:
        name: as it is called.
        digits: after the point, of differences.
        published: of a row.
        measured: of an evaluation; None if it lacks it.
    """

    name: str
    digits: int
    published: Callable[[Row], float]
    measured: Callable[[Evaluation], float | None]


BLEU = Measure("BLEU", 2, lambda row: row.bleu, lambda found: found.paper_bleu)
PERPLEXITY = Measure("perplexity", 2, lambda row: row.perplexity, lambda found: found.perplexity)
LOG_PERPLEXITY = Measure(
    "ln perplexity",
    3,
    lambda row: math.log(row.perplexity),
    lambda found: math.log(found.perplexity),
)


def sample(runs: Mapping[str, Run], measure: Measure) -> Sample | None:
    """Returns what was measured of a row's runs on dev, or None."""
    found = (measure.measured(run.evaluations["dev"]) for run in runs.values() if _has_dev(run))
    values = tuple(value for value in found if value is not None)
    return Sample(values) if values else None


def samples(runs: Runs, measure: Measure) -> dict[str, Sample]:
    """Returns the samples of all rows that have one."""
    return {name: found for name, of_row in runs.items() if (found := sample(of_row, measure))}


def read_runs(folder: Path, earlier: Runs) -> dict[str, dict[str, Run]]:
    """Reads the runs of all rows below a folder: <folder>/<row>/model or <row>/seed_<n>/model.

    Args:
        folder: with a folder for each row.
        earlier: runs of another machine; they count where the folder has none of that row and seed.

    Raises:
        UserError: there is none.
    """
    runs = {}
    for row in TABLE_3:
        directories = model_directories(folder / row.name)
        of_row = {name: run for name, path in directories.items() if (run := read_run(path))}
        if of_row := {**earlier.get(row.name, {}), **of_row}:
            runs[row.name] = of_row
    if not runs:
        raise UserError(
            f"--runs={folder} holds no run of Table 3, expected folders such as "
            f"{folder / TABLE_3[1].name / 'model'}: see scripts/reproduce_table3.sh."
        )
    return runs


def other_sizes(runs: Runs) -> Iterator[str]:
    """Yields a warning for each row whose runs do not have the paper's number of parameters."""
    for row in TABLE_3:
        for run in list(runs.get(row.name, {}).values())[:1]:
            if abs(run.parameters / 1e6 - row.millions) > row.millions / 10:
                yield (
                    f"{row.name} has {run.parameters / 1e6:.1f} million parameters, the paper's "
                    f"{row.millions}: compare the runs with each other, not with the paper"
                )


def as_markdown(runs: Runs) -> str:
    """Writes the table: published and measured figures side by side."""
    lines = [
        "In each pair of columns the first is the paper's. Perplexity is per subword and BLEU "
        "tokenised, both on the dev set; of several seeds mean ± sample standard deviation.",
        "",
        "| | row | steps | measured | perplexity | measured | BLEU | measured | parameters ×10⁶ "
        "| measured | training FLOPs | runs | checkpoint |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(_cells(row, runs.get(row.name, {})))} |" for row in TABLE_3]
    return "\n".join(lines) + "\n"


def _cells(row: Row, runs: Mapping[str, Run]) -> list[str]:
    operations = (f"{run.operations:.1e}".replace("e+", "e") for run in runs.values())
    return [
        *(row.group, row.change),
        *(f"{row.steps:,}", _distinct(f"{run.steps:,}" for run in runs.values())),
        *(f"{row.perplexity:.2f}", str(sample(runs, PERPLEXITY) or "–")),
        *(f"{row.bleu}", str(sample(runs, BLEU) or "–")),
        *(f"{row.millions}", _distinct(f"{run.parameters / 1e6:.1f}" for run in runs.values())),
        _distinct(operations),
        str(len(runs)),
        _distinct(run.evaluations["dev"].checkpoint for run in runs.values() if _has_dev(run)),
    ]


_COLUMNS = (
    *("group", "name", "paper_steps", "paper_perplexity", "paper_bleu", "paper_millions", "seed"),
    *("our_steps", "our_perplexity", "our_bleu", "our_parameters", "our_training_operations"),
    *("our_tokens_per_second", "our_checkpoint"),
)


def as_csv(runs: Runs) -> str:
    """Writes a line for each run with all digits; a row without runs has one line."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in TABLE_3:
        published = (row.group, row.name, row.steps, row.perplexity, row.bleu, row.millions)
        for seed, run in runs.get(row.name, {}).items() or [("", None)]:
            writer.writerow([*published, seed, *(_figures(run) if run else [""] * 7)])
    return file.getvalue()


def read_csv(path: Path) -> dict[str, dict[str, Run]]:
    """Reads the runs that `as_csv` wrote.

    Raises:
        UserError: the file cannot be read, or is not such a file.
    """
    runs: dict[str, dict[str, Run]] = {}
    try:
        for line in csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))):
            if line["seed"]:
                runs.setdefault(line["name"], {})[line["seed"]] = _run(line)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(
            f"{path} cannot be read ({error!r}), expected a table_3.csv that report.py wrote."
        ) from error
    return runs


def _figures(run: Run) -> list[Any]:
    dev = run.evaluations.get("dev")
    quality = [dev.perplexity, dev.paper_bleu] if dev else ["", ""]
    cost = [run.parameters, run.operations, run.tokens_per_second]
    return [run.steps, *quality, *cost, dev.checkpoint if dev else ""]


def _run(line: Mapping[str, str]) -> Run:
    speed, bleu = line["our_tokens_per_second"], line["our_bleu"]
    evaluations = {}
    if line["our_perplexity"]:
        scores = {PAPER_BLEU: float(bleu)} if bleu else {}
        perplexity = float(line["our_perplexity"])
        evaluations["dev"] = Evaluation(line["our_checkpoint"], perplexity, scores, {})
    return Run(
        int(line["our_steps"]),
        int(line["our_parameters"]),
        float(line["our_training_operations"]),
        float(speed) if speed else None,
        evaluations,
    )


def _has_dev(run: Run) -> bool:
    return "dev" in run.evaluations


def _distinct(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(texts)) or "–"
