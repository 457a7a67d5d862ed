"""Runs of Table 3's rows as CSV: for programs, and to go on with on another machine."""

import csv
import io
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from t2t_repro.analysis.run_record import Evaluation, Run
from t2t_repro.analysis.seeds import SINGLE, is_seed
from t2t_repro.analysis.table_3 import TABLE_3
from t2t_repro.analysis.table_3_runs import PERPLEXITY, Runs, dev_bleu
from t2t_repro.errors import UserError
from t2t_repro.evaluation.paper_bleu import PAPER_BLEU
from t2t_repro.evaluation.scores import Score
from t2t_repro.files import read_at_most

MAX_BYTES = 2**20
"""Of a file: 60 runs have 7 kB."""


class _Figure(NamedTuple):
    """A column: what is written of a run, and how it is read."""

    written: Callable[[Run], Any]
    read: Callable[[str], Any]


def _number(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text!r} is no number")
    return number


_PUBLISHED = ("steps", "perplexity", "bleu", "millions")
_MEASURED = {
    "steps": _Figure(lambda run: run.steps, int),
    "perplexity": _Figure(PERPLEXITY.measured, _number),
    "bleu": _Figure(dev_bleu, _number),
    "parameters": _Figure(lambda run: run.parameters, int),
    "training_operations": _Figure(lambda run: run.operations, _number),
    "tokens_per_second": _Figure(lambda run: run.tokens_per_second, _number),
    "checkpoint": _Figure(lambda run: run.dev and run.dev.checkpoint, str),
}
_HEADER = (
    *("group", "name"),
    *(f"paper_{name}" for name in _PUBLISHED),
    "seed",
    *(f"our_{name}" for name in _MEASURED),
)


def as_csv(runs: Runs) -> str:
    """Writes every run with every figure in full; a row without runs has one line."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_HEADER)
    for row in TABLE_3:
        published = [getattr(row, name) for name in _PUBLISHED]
        of_row = runs.get(row.name, {})
        for seed, run in of_row.items():
            figures = (figure.written(run) for figure in _MEASURED.values())
            writer.writerow([row.group, row.name, *published, seed, *figures])
        if not of_row:
            writer.writerow([row.group, row.name, *published, "", *("" for _ in _MEASURED)])
    return file.getvalue()


def read_csv(path: Path) -> dict[str, dict[str, Run]]:
    """Reads the runs that `as_csv` has written.

    Of what `evaluate` found, the table's own figures are there: perplexity and paper_bleu on dev.

    Raises:
        UserError: the file cannot be read, or holds something else.
    """
    try:
        text = read_at_most(path, MAX_BYTES).decode("utf-8")
        lines = list(csv.reader(io.StringIO(text), strict=True))
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(
            f"{path} cannot be read ({error}), expected a table_3.csv that report wrote."
        ) from error
    if not lines or tuple(lines[0]) != _HEADER:
        raise UserError(
            f"{path} begins with {','.join(lines[0] if lines else [])[:80]!r}, expected the header "
            "of a table_3.csv that report wrote with this version."
        )
    runs: dict[str, dict[str, Run]] = {}
    for number, line in enumerate(lines[1:], 2):
        try:
            _add(runs, dict(zip(_HEADER, line, strict=True)))
        except ValueError as error:
            raise UserError(
                f"{path}, line {number}: {error}; expected a run of a row of Table 3, as report "
                "writes it."
            ) from error
    return runs


def _add(runs: dict[str, dict[str, Run]], line: Mapping[str, str]) -> None:
    """Adds a line's run to those of its row, if the line has one."""
    name, seed = line["name"], line["seed"]
    if name not in {row.name for row in TABLE_3}:
        raise ValueError(f"there is no row {name!r}")
    if not seed:
        return
    if seed != SINGLE and not is_seed(seed):
        raise ValueError(f"the seed is {seed!r}")
    of_row = runs.setdefault(name, {})
    if seed in of_row:
        raise ValueError(f"{seed} of {name} is there twice")
    of_row[seed] = _run(line)


def _run(line: Mapping[str, str]) -> Run:
    found: dict[str, Any] = {
        name: figure.read(text) if (text := line[f"our_{name}"]) else None
        for name, figure in _MEASURED.items()
    }
    for name in ("steps", "parameters", "training_operations"):
        if found[name] is None:
            raise ValueError(f"our_{name} is empty")
    dev = None
    if found["perplexity"] is not None:
        if found["perplexity"] < 1:
            raise ValueError(f"a perplexity of {found['perplexity']}, expected 1 at least")
        scores = [] if found["bleu"] is None else [Score(PAPER_BLEU, found["bleu"])]
        dev = Evaluation(found["checkpoint"] or "", found["perplexity"], scores)
    return Run(
        steps=found["steps"],
        parameters=found["parameters"],
        operations=found["training_operations"],
        tokens_per_second=found["tokens_per_second"],
        dev=dev,
        test=None,
    )
