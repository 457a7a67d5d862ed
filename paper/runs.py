"""Training runs as files: cost and quality of one, mean and spread of several seeds.

One run lies in <experiment>/model; several seeds in <experiment>/seed_1/model, seed_2/model, ...
"""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
from tensorflow import make_ndarray

from operations import parameter_count, training_operations
from t2t_repro.errors import UserError
from t2t_repro.evaluation.paper_bleu import PAPER_BLEU
from t2t_repro.runs.checkpoint_folder import CheckpointFolder

_SPEED = "train/real_tokens_per_second"


class Evaluation(NamedTuple):
    """What `evaluate` wrote about a split, `scores/<split>.json`.

    Attributes:
        checkpoint: relative to the model directory, e.g. "averaged/step-100000".
        perplexity: per subword.
        scores: by the names of the metrics.
        signatures: how each was computed, where that was written.
    """

    checkpoint: str
    perplexity: float
    scores: dict[str, float]
    signatures: dict[str, str]

    @property
    def paper_bleu(self) -> float | None:
        """BLEU as the paper measured it, or None."""
        return self.scores.get(PAPER_BLEU)


class Run(NamedTuple):
    """A training run so far.

    Attributes:
        steps: updates.
        parameters: of the model.
        operations: of training, forward and backward, without padding.
        tokens_per_second: median over the run, real source and target tokens; None before the
            first report.
        evaluations: by split.
    """

    steps: int
    parameters: int
    operations: float
    tokens_per_second: float | None
    evaluations: dict[str, Evaluation]


class Sample(NamedTuple):
    """A figure, measured once a seed.

    Attributes:
        values: of every seed, at least one.
    """

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation (n − 1); None of one value, infinite if a run diverged."""
        if len(self.values) < 2:
            return None
        if not all(map(math.isfinite, self.values)):
            return math.inf
        return statistics.stdev(self.values)

    def __str__(self) -> str:
        spread = "" if self.deviation is None else f" ± {self.deviation:.2f}"
        return f"{self.mean:.2f}{spread}"


def read_run(model_dir: Path) -> Run | None:
    """Reads a model directory; returns None if it has no checkpoint.

    Raises:
        UserError: a file cannot be read.
    """
    steps = CheckpointFolder(model_dir / "checkpoints").steps()
    if not steps:
        return None
    sizes, epoch = _read(model_dir / "model.json"), _read(model_dir / "epoch.json")
    epochs = steps[-1] / epoch["batches"]
    operations = training_operations(
        sizes,
        epochs * epoch["source_tokens"],
        epochs * epoch["target_tokens"],
        epoch["target_tokens"] / epoch["sentences"],
    )
    evaluations = read_evaluations(model_dir)
    speed = _median_speed(model_dir / "tensorboard")
    return Run(steps[-1], parameter_count(sizes), operations, speed, evaluations)


def read_evaluations(model_dir: Path) -> dict[str, Evaluation]:
    """Reads the last evaluation of every split."""
    return {path.stem: _evaluation(path) for path in sorted(model_dir.glob("scores/*.json"))}


def model_directories(experiment: Path) -> dict[str, Path]:
    """Finds the runs of an experiment: "model", or "seed_1", "seed_2", ... in their order.

    A model directory is an experiment of one run.

    Raises:
        UserError: there is one without a seed beside others with.
    """
    seeds = sorted(experiment.glob("seed_*/model"), key=lambda path: (len(str(path)), path))
    found = {path.parent.name: path for path in seeds}
    single = experiment / "model"
    if single.exists():
        if found:
            raise UserError(
                f"{experiment} holds model and {', '.join(found)}, expected one or the other: "
                "move model into a folder seed_<n>."
            )
        found["model"] = single
    if not found and (experiment / "scores").is_dir():
        found[experiment.name] = experiment
    return found


def score_tables(folder: Path) -> list[str]:
    """Writes the scores of every evaluated split as Markdown: a row a score, a column a seed.

    Args:
        folder: of an experiment, or of several.

    Raises:
        UserError: no run was evaluated.
    """
    lines = ["±: sample standard deviation over the seeds."]
    others = [path for path in sorted(folder.glob("*")) if path.is_dir()]
    for experiment in [folder] if model_directories(folder) else others:
        found = model_directories(experiment)
        runs = {name: read_evaluations(path) for name, path in found.items()}
        splits = sorted({split for of_run in runs.values() for split in of_run})
        title = "" if experiment == folder else f"{experiment.name}: "
        for split in splits:
            of_split = {name: run[split] for name, run in runs.items() if split in run}
            lines += ["", *_table(f"{title}{split}", of_split)]
    if len(lines) == 1:
        raise UserError(
            f"--runs={folder} holds no run that was evaluated, expected folders such as "
            f"{folder / 'model'} or {folder / 'seed_1' / 'model'}: score one with evaluate."
        )
    return lines


def _table(split: str, runs: Mapping[str, Evaluation]) -> list[str]:
    figures: dict[str, dict[str, float]] = {}
    for name, found in runs.items():
        for figure, value in {"perplexity": found.perplexity, **found.scores}.items():
            figures.setdefault(figure, {})[name] = value
    lines = [
        f"| {split} | mean | runs | {' | '.join(runs)} |",
        f"|---|---:|---:|{'---:|' * len(runs)}",
    ]
    for figure, values in figures.items():
        each = [f"{values[name]:.2f}" if name in values else "–" for name in runs]
        mean = Sample(tuple(values.values()))
        lines.append(f"| {figure} | {mean} | {len(values)} | {' | '.join(each)} |")
    signatures = {name: text for run in runs.values() for name, text in run.signatures.items()}
    checkpoints = ", ".join(f"{name}: {run.checkpoint}" for name, run in runs.items())
    return [
        *lines,
        "",
        f"- of {checkpoints}",
        *(f"- {n}: `{text}`" for n, text in signatures.items()),
    ]


def _evaluation(path: Path) -> Evaluation:
    found = _read(path)
    scores: Sequence[Mapping[str, Any]] = found["scores"]
    return Evaluation(
        found["checkpoint"],
        found["perplexity"],
        {score["name"]: score["value"] for score in scores},
        {score["name"]: text for score in scores if (text := score.get("signature"))},
    )


def _median_speed(tensorboard: Path) -> float | None:
    """Returns the median of the logged speeds: a pause does not count as slow training."""
    events = EventAccumulator(str(tensorboard), size_guidance={"tensors": 0}).Reload()
    if _SPEED not in events.Tags()["tensors"]:
        return None
    return statistics.median(float(make_ndarray(e.tensor_proto)) for e in events.Tensors(_SPEED))


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}).") from error
