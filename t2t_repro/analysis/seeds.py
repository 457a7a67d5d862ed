"""Runs of one experiment that differ in their seed alone: their scores, with mean and spread.

A single run lies in <experiment>/model; several in <experiment>/seed_1/model, seed_2/model, ...
"""

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from t2t_repro.analysis.run_record import Evaluation, read_evaluations
from t2t_repro.config.gin_files import differing_bindings, read_bindings
from t2t_repro.errors import UserError
from t2t_repro.runs.model_directory import ModelDirectory

PERPLEXITY = "perplexity"
_SEED = "train.seed"
_FOLDER = re.compile(r"seed_\d+")
SINGLE = "model"
"""The name of a run that is alone."""

T = TypeVar("T")


class Sample(NamedTuple):
    """A figure, measured once a seed.

    Attributes:
        values: of every seed, at least one.
    """

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Of the values."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation, with n − 1; None of a single value.

        Infinite where a value is not finite: the perplexity of a run that diverged.
        """
        if len(self.values) < 2:
            return None
        if not all(map(math.isfinite, self.values)):
            return math.inf
        return statistics.stdev(self.values)

    def __str__(self) -> str:
        spread = "" if self.deviation is None else f" ± {self.deviation:.2f}"
        return f"{self.mean:.2f}{spread}"


def model_directories(experiment: Path) -> dict[str, Path]:
    """Finds the runs of an experiment.

    Args:
        experiment: the folder with its runs.

    Returns:
        their model directories, in the order of the seeds, by the name of their folder:
        "seed_1", ...; a single run's by "model". Nothing where there is none.

    Raises:
        UserError: the folder holds a single run and runs of several seeds, of which the former
            may be a second time.
    """
    folders = [path for path in experiment.glob("seed_*/model") if is_seed(_name(path))]
    found = by_seed({_name(path): path for path in folders})
    single = experiment / SINGLE
    if not single.exists():
        return found
    if found:
        raise UserError(
            f"{experiment} holds both {single.name} and {', '.join(found)}, expected one or the "
            f"other: move {single} to a folder seed_<n> of its own, or delete it."
        )
    return {single.name: single}


def _name(model_dir: Path) -> str:
    return model_dir.parent.name


def by_seed(runs: Mapping[str, T]) -> dict[str, T]:
    """Sorts what there is of each run, by its name: "model", or "seed_1", "seed_2", ..."""
    return {name: runs[name] for name in sorted(runs, key=_number)}


def _number(name: str) -> int:
    return int(name.removeprefix("seed_")) if is_seed(name) else 0


def is_seed(name: str) -> bool:
    """Whether a folder of this name holds a run of one of several seeds."""
    return _FOLDER.fullmatch(name) is not None


def other_differences(directories: Sequence[Path]) -> list[str]:
    """Says in what runs differ besides their seed: then their spread is not that of a seed.

    Args:
        directories: model directories of one experiment.

    Returns:
        a text for each directory that differs from the first, or has the same seed as another.

    Raises:
        UserError: a configuration cannot be read.
    """
    files = {path: ModelDirectory(path).config_gin for path in directories}
    texts = {path: read_bindings(file) for path, file in files.items() if file.exists()}
    found = []
    for number, (path, text) in enumerate(texts.items()):
        (first, of_first), *_ = texts.items()
        others = differing_bindings(of_first, text)
        settings = [one for one in others if not one.startswith(f"{_SEED} ")]
        if settings:
            found.append(f"{path} is not {first} with another seed: {settings[0]}")
        elif any(not differing_bindings(before, text) for before in [*texts.values()][:number]):
            found.append(f"{path} has the seed of a run before it")
    return found


def score_tables(experiment: Path) -> list[str]:
    """Writes the scores of every split that was evaluated: a row a score, a column a seed.

    Args:
        experiment: the folder with its runs, see `model_directories`.

    Returns:
        lines of Markdown.

    Raises:
        UserError: no run has been evaluated, or a file of one is damaged.
    """
    directories = model_directories(experiment)
    runs = {name: read_evaluations(path) for name, path in directories.items()}
    splits = sorted({split for evaluations in runs.values() for split in evaluations})
    if not splits:
        raise UserError(
            f"--runs={experiment} holds no run that was evaluated, expected folders such as "
            f"{experiment / 'seed_1' / 'model'}: train one there, then run evaluate."
        )
    lines = ["±: sample standard deviation over the seeds. It says nothing of other sentences."]
    for split in splits:
        of_split = {name: found[split] for name, found in runs.items() if split in found}
        lines += ["", *_table(split, of_split)]
    return lines


def _table(split: str, runs: Mapping[str, Evaluation]) -> list[str]:
    """A split's scores, and below how each was computed and of which checkpoints."""
    figures: dict[str, dict[str, float]] = {}
    signatures = {}
    for name, evaluation in runs.items():
        figures.setdefault(PERPLEXITY, {})[name] = evaluation.perplexity
        for score in evaluation.scores:
            figures.setdefault(score.name, {})[name] = score.value
            signatures[score.name] = score.signature
    lines = [
        f"| {split} | mean | runs | {' | '.join(runs)} |",
        f"|---|---:|---:|{'---:|' * len(runs)}",
    ]
    for figure, by_run in figures.items():
        each = [f"{by_run[name]:.2f}" if name in by_run else "–" for name in runs]
        mean = Sample(tuple(by_run.values()))
        lines.append(f"| {figure} | {mean} | {len(by_run)} | {' | '.join(each)} |")
    lines += ["", f"- of {', '.join(f'{name}: {run.checkpoint}' for name, run in runs.items())}"]
    return lines + [f"- {name}: `{text}`" for name, text in signatures.items() if text]
