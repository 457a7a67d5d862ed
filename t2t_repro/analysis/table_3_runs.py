"""The runs of Table 3's rows, and what is measured of them."""

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from t2t_repro.analysis.run_record import Run, read_run
from t2t_repro.analysis.seeds import SINGLE, Sample, by_seed, model_directories, other_differences
from t2t_repro.analysis.table_3 import TABLE_3, Row
from t2t_repro.errors import UserError
from t2t_repro.evaluation.paper_bleu import PAPER_BLEU

Runs = Mapping[str, Mapping[str, Run]]
"""By the name of their row, for those that there are: its runs, by the name of their seed."""

_MOST_NAMED = 3


class Measure(NamedTuple):
    """Of how good a model is, on the dev split.

    Attributes:
        name: as people call it.
        digits: after the point, in which differences are written.
        published: of a row of the paper.
        measured: of a run; None where it has not been evaluated.
    """

    name: str
    digits: int
    published: Callable[[Row], float]
    measured: Callable[[Run], float | None]


def dev_bleu(run: Run) -> float | None:
    """BLEU on the dev split as the paper measured it, or None."""
    score = run.dev.score(PAPER_BLEU) if run.dev else None
    return score.value if score else None


BLEU = Measure("BLEU", 2, lambda row: row.bleu, dev_bleu)
PERPLEXITY = Measure(
    "perplexity", 2, lambda row: row.perplexity, lambda run: run.dev and run.dev.perplexity
)
LOG_PERPLEXITY = Measure(
    "ln perplexity",
    3,
    lambda row: math.log(row.perplexity),
    lambda run: math.log(run.dev.perplexity) if run.dev else None,
)
"""The loss without smoothing: what is a difference in it is a factor in perplexity."""


def sample(runs: Mapping[str, Run], measure: Measure) -> Sample | None:
    """Returns what was measured of a row's runs; None where there is nothing."""
    found = (measure.measured(run) for run in runs.values())
    values = tuple(value for value in found if value is not None)
    return Sample(values) if values else None


def samples(runs: Runs, measure: Measure) -> dict[str, Sample]:
    """Returns what was measured, by the names of the rows of which there is something."""
    return {name: found for name, of_row in runs.items() if (found := sample(of_row, measure))}


def read_runs(folder: Path, earlier: Runs | None = None) -> dict[str, dict[str, Run]]:
    """Reads the runs of Table 3's rows below a folder: <folder>/<row>/seed_<n>/model.

    Args:
        folder: with a folder for every row.
        earlier: runs that are known already; one of the same row and seed below the folder counts
            in their place.

    Raises:
        UserError: there is none, or a file of one is damaged, or a row has a single run beside runs
            of several seeds.
    """
    runs = {}
    for row in TABLE_3:
        directories = model_directories(folder / row.name)
        of_row = {name: run for name, path in directories.items() if (run := read_run(path))}
        of_row = {**(earlier or {}).get(row.name, {}), **of_row}
        if SINGLE in of_row and len(of_row) > 1:
            raise UserError(
                f"{row.name} has a run without a seed, and others with, of which the former may be "
                "a second time: leave one or the other out."
            )
        if of_row:
            runs[row.name] = by_seed(of_row)
    if not runs:
        raise UserError(
            f"--runs={folder} holds no run of Table 3, expected folders such as "
            f"{folder / TABLE_3[1].name / 'model'}, or {folder / TABLE_3[1].name / 'seed_1/model'} "
            "of several seeds: train one, see scripts/reproduce_table3.sh."
        )
    return runs


def doubts(folder: Path, runs: Runs) -> Iterator[str]:
    """Says what keeps runs from being compared: with the paper, or as seeds of one experiment."""
    if others := _other_sizes(runs):
        yield others
    for name in runs:
        yield from other_differences([*model_directories(folder / name).values()])


def _other_sizes(runs: Runs) -> str | None:
    """Says which runs have the name of a row, but not its number of parameters; None if none.

    They can be compared with each other, as those of a Table 3 in small, and not with the paper.
    """
    found = [
        f"{row.name} {millions:.1f} million in place of {row.millions}"
        for row in TABLE_3
        for run in runs.get(row.name, {}).values()
        if abs((millions := run.parameters / 1e6) - row.millions) > row.millions / 10
    ]
    if not found:
        return None
    count = sum(map(len, runs.values()))
    named = list(dict.fromkeys(found))
    named = named[:_MOST_NAMED] + ["..."] * (len(named) > _MOST_NAMED)
    return (
        f"{len(found)} of {count} runs are not the paper's models, by their parameters "
        f"({'; '.join(named)}): "
        "compare them with each other, not with the paper's columns"
    )
