"""Draws learning curves of one or more runs into one small PNG, from TensorBoard's event files.

    python scripts/draw_curves.py --output=docs/tensorboard.png runs/quickstart/model
    python scripts/draw_curves.py --output=curves.png --charts train/nll dev/bleu \
        --by updates hours --runs ours runs/seed_*/model --runs fairseq fairseq.jsonl

Every path given alone is a line of its own. Those of one --runs are one thing tried several times,
such as seeds: thin lines in one colour, and a thick one, their mean as far as all of them go. The
loss of a batch jumps with its sentences' lengths: there the thick line is a running mean.

Hours are those since the run began, by the clock, dev evaluations included. Pauses of a run that
was interrupted are taken out: the time from one report to the next, where it is over five times its
median (that of updates and that of dev evaluations apart), counts as the median.

A file of JSON lines stands for runs of another toolkit, hours null where they are not known:

    {"run": "seed 1", "tag": "dev/bleu", "step": 500, "hours": 0.25, "value": 13.6}

Needs matplotlib: pip install -e '.[plots]'.
"""

import argparse
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from t2t_repro.analysis.attention_plots import check_matplotlib
from t2t_repro.errors import UserError
from t2t_repro.training.event_files import read_events
from t2t_repro.training.model_directory import ModelDirectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHARTS = (
    "train/loss",
    "train/nll",
    "dev/nll",
    "dev/bleu",
    "train/learning_rate",
    "train/real_tokens_per_second",
)
LOGARITHMIC = {"train/loss", "train/nll"}
AXES = {"updates": "step", "hours": "hours"}
COLUMNS = 3

PAUSE = 5.0
"""How many times the median an interval between reports has to last to be a pause."""

FEW = 12
"""Fewer points than that are marked."""

SMOOTHED = 15
"""A running mean takes that part of a line, half of it on either side."""

LETTERS = 50
"""Of the legend, that fit under one panel."""

COLOURS = 64
"""Of the PNG: enough for ten lines and their shades, and a third of the bytes."""


class Point(NamedTuple):
    """A scalar that was reported: after how many updates and hours, and its value."""

    step: int
    hours: float | None
    value: float


Curves = dict[str, list[Point]]
"""A run's scalars: by their tag, in the order of the updates."""


class Group(NamedTuple):
    """What the legend calls by one name: one run, or one thing tried several times."""

    name: str
    runs: list[Curves]


def read_run(path: Path) -> dict[str, Curves]:
    """Reads a model directory, or a file of JSON lines, which may hold several runs.

    Returns:
        curves, by the name of the run; "" for a model directory.

    Raises:
        UserError: there is nothing of the kind.
    """
    runs = _read_lines(path) if path.is_file() else {"": read_curves(path)}
    if not any(runs.values()):
        raise UserError(f"{path} has no curves: give a model directory, or a file of JSON lines.")
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


def groups_of(paths: Sequence[Path], named: Sequence[Sequence[str]]) -> list[Group]:
    """Reads what is to be drawn: every path alone, and under a name those given with it."""
    groups = []
    for label, path in zip(_labels(paths), paths, strict=True):
        for run, curves in read_run(path).items():
            groups.append(Group(run or label, [curves]))
    for name, *together in named:
        runs = [curves for path in together for curves in read_run(Path(path)).values()]
        groups.append(Group(name if len(runs) == 1 else f"{name} ({len(runs)} runs)", runs))
    return groups


def _labels(paths: Sequence[Path]) -> list[str]:
    """Names paths by what not all of them have; one path by its last folder but `model`."""
    parts = [[part for part in path.absolute().parts if part != "model"] for path in paths]
    if len(parts) < 2:
        return [one[-1] for one in parts]
    common = set(parts[0]).intersection(*parts[1:])
    return ["/".join(part for part in one if part not in common) for one in parts]


def draw(groups: Sequence[Group], charts: Sequence[str], axes: Sequence[str]) -> "Figure":
    """Draws every chart over every axis, a row of panels after the other."""
    from matplotlib.figure import Figure

    columns = min(len(charts), COLUMNS)
    rows = math.ceil(len(charts) / columns) * len(axes)
    figure = Figure(figsize=(4 * columns, 2.75 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for axis in axes:
        for chart in charts:
            _draw_panel(next(panels), groups, chart, axis)
        for _ in range(-len(charts) % columns):
            next(panels).set_axis_off()
    if len(groups) > 1:
        lines = [figure.axes[0].plot([], [], **_style(n))[0] for n in range(len(groups))]
        names = [group.name for group in groups]
        fitting = int(LETTERS * columns / (max(map(len, names)) + 8))
        figure.legend(lines, names, loc="outside lower center", ncols=max(fitting, 1), fontsize=9)
    return figure


def _draw_panel(panel: Any, groups: Sequence[Group], chart: str, axis: str) -> None:
    for number, group in enumerate(groups):
        drawn = [_line(run.get(chart, ()), axis) for run in group.runs]
        lines = [line for line in drawn if len(line)]
        has_mean = len(lines) > 1 or chart in LOGARITHMIC
        for line in lines:
            thin = {"linewidth": 0.6, "alpha": 0.4} if has_mean else {}
            marker = "." if len(line) < FEW else None
            panel.plot(*line.T, **_style(number) | {"marker": marker} | thin)
        if lines and has_mean:
            panel.plot(*_mean(lines, is_smoothed=chart in LOGARITHMIC), **_style(number))
    panel.set_title(chart, fontsize=10)
    if chart in LOGARITHMIC:
        _make_logarithmic(panel)
    panel.set_xlim(left=0)
    panel.set_xlabel(axis, fontsize=9)
    panel.tick_params(labelsize=8)
    panel.grid(alpha=0.3)


def _make_logarithmic(panel: Any) -> None:
    """With plain numbers at the ticks."""
    from matplotlib.ticker import LogLocator, NullFormatter

    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    panel.yaxis.set_major_formatter("{x:g}")
    panel.yaxis.set_minor_formatter(NullFormatter())


def _line(points: Sequence[Point], axis: str) -> np.ndarray:
    """[points, 2]: x and y, of those points that have both."""
    pairs = [(getattr(point, AXES[axis]), point.value) for point in points]
    return np.array([pair for pair in pairs if None not in pair], float)


def _mean(lines: Sequence[np.ndarray], is_smoothed: bool) -> tuple[np.ndarray, np.ndarray]:
    """The mean of lines where all have values, at the places of the first."""
    first, last = max(line[0, 0] for line in lines), min(line[-1, 0] for line in lines)
    places = lines[0][:, 0]
    places = places[(places >= first) & (places <= last)]
    mean = np.mean([np.interp(places, *line.T) for line in lines], axis=0)
    return places, _running_mean(mean) if is_smoothed else mean


def _running_mean(values: np.ndarray) -> np.ndarray:
    """Geometric, for an axis of logarithms; of as many on either side, fewer at the ends."""
    reach = len(values) // SMOOTHED // 2
    sides = [min(reach, n, len(values) - 1 - n) for n in range(len(values))]
    logs = np.log(values)
    return np.exp([logs[n - side : n + side + 1].mean() for n, side in enumerate(sides)])


def _style(number: int) -> dict[str, Any]:
    """Ten colours; then the same, dashed."""
    return {"color": f"C{number % 10}", "linestyle": "-" if number < 10 else "--", "linewidth": 1.5}


def save(figure: "Figure", path: Path) -> None:
    """Writes a PNG of few colours."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas = FigureCanvasAgg(figure)
    figure.set_dpi(80)
    canvas.draw()
    pixels = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    pixels.quantize(COLOURS).save(path, optimize=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads, draws and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, help="model directories, or JSON lines")
    parser.add_argument("--output", type=Path, required=True, help="the PNG file to write")
    parser.add_argument(
        "--runs",
        nargs="+",
        action="append",
        default=[],
        metavar=("NAME", "PATH"),
        help="several runs under one name",
    )
    parser.add_argument("--charts", nargs="+", default=CHARTS, help="tags as in TensorBoard")
    parser.add_argument("--by", nargs="+", choices=AXES, default=["updates"])
    given = parser.parse_args(arguments)
    if not given.paths and not given.runs:
        parser.error("nothing to draw: give model directories, or --runs NAME PATH ...")
    try:
        check_matplotlib()
        groups = groups_of(given.paths, given.runs)
        for chart in given.charts:
            known = {tag for group in groups for run in group.runs for tag in run}
            if chart not in known:
                raise UserError(
                    f"no run has {chart!r}: --charts may be {', '.join(sorted(known))}."
                )
        save(draw(groups, given.charts, given.by), given.output)
    except UserError as error:
        parser.exit(2, f"error: {error}\n")


if __name__ == "__main__":
    main()
