"""What the measurements of Table 1's layers say: exponents, crossings, a table and a plot."""

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import table_1
from t2t_repro.model.kernels.blocked_attention import keys_of_query
from t2t_repro.model.masks import reach_of

LAYERS = ("self-attention", "restricted", "recurrent", "convolutional", "separable")
COLOURS = dict(zip(LAYERS, ("C0", "C1", "C2", "C3", "C4"), strict=True))
DEFAULTS = {"n": 512, "d": 256, "k": 3, "r": 64}
SWEEPS = {
    "n": (64, 128, 256, 512, 1024, 2048, 4096),
    "d": (64, 128, 256, 512, 1024),
    "k": (3, 5, 9, 17, 33),
    "r": (16, 32, 64, 128, 256, 512),
}
LENGTH_FOR_R = 2048
"""What a neighbourhood saves shows on long sequences only."""
CONCERNED = {
    "n": LAYERS,
    "d": LAYERS,
    "k": ("convolutional", "separable"),
    "r": ("restricted", "self-attention"),
}
"""Which layers a size changes; self-attention beside r, for what restriction should save."""

TABLE_1: dict[str, dict[str, str]] = {
    "self-attention": {"n": "2", "d": "1"},
    "restricted": {"n": "1", "d": "1", "r": "1"},
    "recurrent": {"n": "1", "d": "2"},
    "convolutional": {"n": "1", "d": "2", "k": "1"},
    "separable": {"n": "1", "d": "1 … 2", "k": "0 … 1"},
}
"""The exponents of Table 1's formulas."""

FITTED = 3
"""An exponent is fitted to so many measurements, the largest: small ones are overhead."""

Points = Sequence[tuple[float, float]]


def sizes(swept: str, value: int) -> dict[str, int]:
    """All sizes of the measurement at one value of a sweep."""
    fixed = DEFAULTS | {"n": LENGTH_FOR_R} if swept == "r" else DEFAULTS
    return fixed | {swept: value}


def multiplications(layer: str, n: int, d: int, k: int, r: int) -> float:
    """What the real layer multiplies, forward, lower terms of Table 1 included.

    Those are attention's four projections, of which the table says nothing, the keys of a block
    that a mask hides, and the LSTM's four gates.
    """
    return {
        "self-attention": 2 * n * n * d + 4 * n * d**2,
        "restricted": 2 * n * keys_of_query(reach_of(r), n) * d + 4 * n * d**2,
        "recurrent": 8 * n * d**2,
        "convolutional": k * n * d**2,
        "separable": k * n * d + n * d**2,
    }[layer]


def series(results: list[dict[str, Any]], swept: str, layer: str, what: str) -> Points:
    """(value of the swept size, measurement), in order."""
    found = [r for r in results if r["swept"] == swept and r["layer"] == layer]
    return sorted((r[swept], r[what]) for r in found)


def counted(points: Points, swept: str, layer: str) -> Points:
    """The same sizes with the layer's multiplications."""
    return [(x, multiplications(layer, **sizes(swept, int(x)))) for x, _ in points]


def exponent(points: Points) -> float:
    """The slope of a line through the largest points on logarithmic axes.

    It is 2 where doubling the size quadruples the cost; not a number below two points above zero
    (memory less than what had been allocated already).
    """
    largest = [(math.log(x), math.log(y)) for x, y in points[-FITTED:] if y > 0]
    if len(largest) < 2:
        return math.nan
    xs, ys = zip(*largest, strict=True)
    return float(np.polyfit(xs, ys, 1)[0])


def crossing(ours: Points, other: Points) -> tuple[float, float] | None:
    """Where `ours` begins to cost more for good: (size, cost) between two measurements, or None.

    Between them the costs are taken as straight lines on logarithmic axes.
    """
    there = dict(other)
    both = [(x, y, there[x]) for x, y in ours if x in there and min(y, there[x]) > 0]
    found = None
    for (x, y, z), (x2, y2, z2) in itertools.pairwise(both):
        if y <= z and y2 > z2:
            share = math.log(z / y) / (math.log(z / y) + math.log(y2 / z2))
            found = x * (x2 / x) ** share, y * (y2 / y) ** share
        elif y > z and y2 <= z2:
            found = None
    return found


def report(results: list[dict[str, Any]]) -> str:
    """Table 1, the exponents beside its own, and the crossings, as Markdown."""
    parts = [table_1.as_markdown(**DEFAULTS), _exponents(results), _crossings(results)]
    return "\n\n".join(parts) + "\n"


def _exponents(results: list[dict[str, Any]]) -> str:
    kinds = ("Table 1", "counted", "time", "memory")
    heads = [f"{size}^: {kind}" for size in SWEEPS for kind in kinds]
    lines = [
        f"Exponents, fitted to the {FITTED} largest sizes. Counted: the real layer's "
        "multiplications, attention's projections (n · d²) among them.",
        "",
        f"| layer | {' | '.join(heads)} |",
        "|---" * (len(heads) + 1) + "|",
    ]
    for layer in LAYERS:
        cells = [layer]
        for size in SWEEPS:
            if size not in TABLE_1[layer]:
                cells += ["–"] * len(kinds)
                continue
            time = series(results, size, layer, "seconds")
            memory = series(results, size, layer, "megabytes")
            slopes = [exponent(x) for x in (counted(time, size, layer), time, memory)]
            cells += [TABLE_1[layer][size], *("–" if s != s else f"{s:.2f}" for s in slopes)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _crossings(results: list[dict[str, Any]]) -> str:
    d, k, r = (DEFAULTS[size] for size in ("d", "k", "r"))
    predicted = {"restricted": r, "recurrent": d, "convolutional": k * d, "separable": k + d}
    lines = [
        f"Self-attention costs more than another layer from which n on (d = {d}, k = {k}, "
        f"r = {r}):",
        "",
        "| than | Table 1 | counted | time | memory |",
        "|---|---|---|---|---|",
    ]
    for layer in LAYERS[1:]:
        cells = [f"{predicted[layer]}"]
        times = [series(results, "n", name, "seconds") for name in (LAYERS[0], layer)]
        memories = [series(results, "n", name, "megabytes") for name in (LAYERS[0], layer)]
        counts = [
            counted(points, "n", name)
            for points, name in zip(times, (LAYERS[0], layer), strict=True)
        ]
        for ours, other in (counts, times, memories):
            cells.append(_from(crossing(ours, other), ours, other))
        lines.append(f"| {layer} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _from(found: tuple[float, float] | None, ours: Points, other: Points) -> str:
    if found:
        return f"{found[0]:.0f}"
    always = ours[-1][1] > other[-1][1]
    return f"below {ours[0][0]:g}" if always else f"above {ours[-1][0]:g}"


def plot(results: list[dict[str, Any]], path: Path) -> None:
    """Draws seconds and memory against each size, and where self-attention's line is crossed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, rows = pyplot.subplots(2, len(SWEEPS), figsize=(4.5 * len(SWEEPS), 8), squeeze=False)
    for axes, what in zip(rows, ("seconds", "megabytes"), strict=True):
        for axis, swept in zip(axes, SWEEPS, strict=True):
            lines = {layer: series(results, swept, layer, what) for layer in CONCERNED[swept]}
            _draw(axis, swept, what, lines)
    figure.suptitle("Layers of Table 1, forward and backward; circles: self-attention's crossings")
    rows[0][0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def _draw(axis: Any, swept: str, what: str, lines: Mapping[str, Points]) -> None:
    for layer, measured in lines.items():
        points = [(x, y) for x, y in measured if y > 0]
        axis.plot(*zip(*points, strict=True), marker=".", label=layer, color=COLOURS[layer])
        if swept == "n" and (found := crossing(lines[LAYERS[0]], measured)):
            axis.plot(*found, marker="o", markersize=10, fillstyle="none", color="black")
            axis.annotate(f"n = {found[0]:.0f}", found, (5, -12), textcoords="offset points")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    fixed = ", ".join(f"{s} = {v}" for s, v in sizes(swept, 0).items() if s != swept)
    axis.set_xlabel(f"{swept}   ({fixed})", fontsize=8)
    axis.set_ylabel(what)
    axis.grid(alpha=0.3)
