"""Draws learning curves of one or more runs into one small PNG, from TensorBoard's event files.

    python scripts/draw_curves.py --output=docs/tensorboard.png runs/quickstart/model
    python scripts/draw_curves.py --output=curves.png --charts train/nll dev/bleu \
        --by updates hours --runs ours runs/seed_*/model --runs fairseq seed_*/train.log

Every path given alone is a line of its own. Those of one --runs are one thing tried several times,
such as seeds: thin lines in one colour, and a thick one, their mean as far as all of them go. The
loss of a batch jumps with its sentences' lengths: there the thick line is a running mean.

`curve_files.py` says what hours are, in which pauses do not count. Runs of other toolkits: a log of
fairseq's (--log-format=json; its nll is a mean since the line before, ours that of one batch), or a
file of JSON lines, hours null where they are not known:

    {"run": "seed 1", "tag": "dev/bleu", "step": 500, "hours": 0.25, "value": 13.6}

Needs matplotlib: pip install -e '.[plots]'.
"""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from curve_files import Curves, Point, read_run
from t2t_repro.attention.pictures import check_matplotlib
from t2t_repro.errors import UserError
from t2t_repro.files import whole_file

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

FEW = 12
"""Fewer points than that are marked."""

SMOOTHED = 15
"""A running mean takes that part of a line, half of it on either side."""

LETTERS = 50
"""Of the legend, that fit under one panel."""

COLOURS = 64
"""Of the PNG: enough for ten lines and their shades, and a third of the bytes."""


class Group(NamedTuple):
    """What the legend calls by one name: one run, or one thing tried several times."""

    name: str
    runs: list[Curves]


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
    from matplotlib.lines import Line2D

    columns = min(len(charts), COLUMNS)
    rows = math.ceil(len(charts) / columns) * len(axes)
    figure = Figure(figsize=(4 * columns, 2.75 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for axis in axes:
        for chart in charts:
            _draw_panel(next(panels), groups, chart, axis)
        for _ in range(-len(charts) % columns):
            next(panels).set_axis_off()
    if sum(len(group.runs) for group in groups) > 1:
        lines = [Line2D([], [], **_style(n)) for n in range(len(groups))]
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
    with whole_file(path) as aside:
        pixels.quantize(COLOURS).save(aside, format="png", optimize=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads, draws and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "paths", nargs="*", type=Path, help="model directories, JSON lines, fairseq's .log"
    )
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
    for name, *together in given.runs:
        if not together:
            parser.error(f"--runs {name} names no run: give --runs NAME PATH ...")
    if not given.output.parent.is_dir():
        parser.error(f"--output: there is no folder {given.output.parent}")
    try:
        check_matplotlib()
        groups = groups_of(given.paths, given.runs)
        known = {tag for group in groups for run in group.runs for tag in run}
        for chart in given.charts:
            if chart not in known:
                raise UserError(
                    f"no run has {chart!r}: --charts may be {', '.join(sorted(known))}."
                )
        save(draw(groups, given.charts, given.by), given.output)
    except UserError as error:
        parser.exit(2, f"error: {error}\n")


if __name__ == "__main__":
    main()
