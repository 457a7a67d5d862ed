"""Reads learning curves: of model directories, of JSON lines, and of fairseq's logs.

Hours are those since a run began, by the clock, dev evaluations included. Pauses of a run that was
interrupted are taken out: the time from one report to the next, where it is over five times its
median (that of updates and that of dev evaluations apart), counts as the median.
"""

import json
import math
import re
import statistics
from collections import defaultdict
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.training.event_files import read_events

# A line of fairseq's log, with --log-format=json.
_LOGGED = re.compile(r"^([\d-]+ [\d:]+) \| INFO \| (train_inner|valid) \| (\{.*\})$", re.MULTILINE)

_BEGUN = re.compile(r"^([\d-]+ [\d:]+) \| INFO ", re.MULTILINE)

_BITS = math.log(2.0)
"""Nats of a bit: fairseq's losses are in bits."""

# What fairseq calls what we call so, and what it is to be multiplied by.
_FAIRSEQ = {
    "train_inner": {"nll_loss": ("train/nll", _BITS), "lr": ("train/learning_rate", 1.0)},
    "valid": {"valid_nll_loss": ("dev/nll", _BITS)},
}


PAUSE = 5.0
"""How many times the median an interval between reports has to last to be a pause."""


class Point(NamedTuple):
    """A scalar that was reported: after how many updates and hours, and its value."""

    step: int
    hours: float | None
    value: float


Curves = dict[str, list[Point]]
"""A run's scalars: by their tag, in the order of the updates."""


def read_run(path: Path) -> dict[str, Curves]:
    """Reads a model directory, a log of fairseq's, or JSON lines, which may hold several runs.

    Returns:
        curves, by the name of the run; "" where it has none.

    Raises:
        UserError: there is nothing of the kind.
    """
    if not path.is_file():
        runs = {"": read_curves(path)}
    else:
        runs = _read_fairseq(path) if path.suffix == ".log" else _read_lines(path)
    if not any(runs.values()):
        raise UserError(
            f"{path} has no curves: give a model directory, a file of JSON lines, or a .log of "
            "fairseq's that was written with --log-format=json."
        )
    return runs


def read_curves(model_dir: Path) -> Curves:
    """Reads the scalars of a model directory, pauses of the run taken out of its hours."""
    events = [
        (event.step, event.wall_time, value)
        for path in sorted(ModelDirectory(model_dir).tensorboard.glob("events.out.tfevents.*"))
        for event in read_events(path)
        for value in event.summary.value
    ]
    # The first value of a report stands for all of it.
    moments: dict[tuple[int, str], float] = {}
    for step, time, value in events:
        moments.setdefault((step, _kind(value.tag)), time)
    hours = training_hours(moments)
    curves: Curves = defaultdict(list)
    for step, _, value in events:
        if value.metadata.plugin_data.plugin_name == "scalars":
            number = float(tf.make_ndarray(value.tensor))
            curves[value.tag].append(Point(step, hours[step, _kind(value.tag)], number))
    return {tag: sorted(points) for tag, points in curves.items()}


def training_hours(moments: dict[tuple[int, str], float]) -> dict[tuple[int, str], float]:
    """Turns the clock's seconds of reports, by step and kind, into hours without pauses."""
    reports = sorted(moments, key=lambda report: (report[0], moments[report]))
    lengths = defaultdict(list)
    for before, after in pairwise(reports):
        lengths[after[1]].append(moments[after] - moments[before])
    hours = dict.fromkeys(reports[:1], 0.0)
    for before, after in pairwise(reports):
        seconds, usual = moments[after] - moments[before], statistics.median(lengths[after[1]])
        # A clock that was put back says nothing either.
        is_pause = seconds > PAUSE * usual or seconds < 0
        hours[after] = hours[before] + (usual if is_pause else seconds) / 3600
    return hours


def _kind(tag: str) -> str:
    """Of updates, or of the dev set."""
    return tag.split("/")[0]


def _read_lines(path: Path) -> dict[str, Curves]:
    """Of what a file says twice, what it says last counts."""
    runs: dict[str, dict[str, dict[int, Point]]] = defaultdict(lambda: defaultdict(dict))
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            one = json.loads(line)
            point = Point(one["step"], one["hours"], float(one["value"]))
            runs[str(one["run"])][one["tag"]][point.step] = point
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f'line {number} of {path} is {line[:80]!r}, expected {{"run": "seed 1", "tag": '
                '"dev/bleu", "step": 500, "hours": 0.25, "value": 13.6}.'
            ) from error
    return {
        run: {tag: sorted(points.values()) for tag, points in curves.items()}
        for run, curves in runs.items()
    }


def _read_fairseq(path: Path) -> dict[str, Curves]:
    """Of updates that were made twice, those after a kill, the last time counts."""
    log = path.read_text(encoding="utf-8")
    begun = _BEGUN.search(log)
    moments = {(0, "begun"): _seconds(begun[1])} if begun else {}
    found: dict[tuple[int, str], float] = {}
    for clock, kind, content in _LOGGED.findall(log):
        row = json.loads(content)
        step = int(row["num_updates" if kind == "train_inner" else "valid_num_updates"])
        for name, (tag, factor) in _FAIRSEQ[kind].items():
            found[step, tag] = factor * float(row[name])
            moments[step, _kind(tag)] = _seconds(clock)
    hours = training_hours(moments)
    curves: Curves = defaultdict(list)
    for (step, tag), value in sorted(found.items()):
        curves[tag].append(Point(step, hours[step, _kind(tag)], value))
    return {"": dict(curves)}


def _seconds(clock: str) -> float:
    return datetime.fromisoformat(clock).timestamp()
