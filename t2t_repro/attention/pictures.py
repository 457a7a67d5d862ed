"""Attention maps as pictures, drawn with matplotlib."""

import importlib.util
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from t2t_repro.attention.maps import AttentionMap
from t2t_repro.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Lengths are in inches.
CELL = 0.12
"""Size of a cell: fits letters of 6.5 points."""
_SMALLEST_NAMED_CELL = 0.075
_MARGIN = 0.35
_TITLE = 0.3
_SMALLEST_PANEL = 1.2
_DOTS_PER_INCH = 120

_POINTS = 54
"""Size of a cell's letters in points, by the cell's size: three quarters of it."""

_LETTER = 0.47
"""Width of a letter, by the cell's size."""

_LONGEST_LABEL = 16
_MOST_COLUMNS = 4


def check_matplotlib() -> None:
    """Checks that matplotlib is installed.

    Raises:
        UserError: it is not.
    """
    if not importlib.util.find_spec("matplotlib"):
        raise UserError("matplotlib is not installed: pip install '.[plots]' in the checkout.")


def layer_picture(attention: AttentionMap, layer: int) -> bytes:
    """Draws all heads of one layer, counted from 0; returns a PNG file."""
    weights = attention.weights[layer]
    heads = [f"head {head + 1}" for head in range(len(weights))]
    title = f"{attention.title}, layer {layer + 1}"
    figure = draw(attention, weights, heads, min(len(heads), _MOST_COLUMNS), title, CELL)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=_DOTS_PER_INCH)
    return file.getvalue()


def draw(
    attention: AttentionMap,
    panels: NDArray[np.float32],
    names: Sequence[str],
    columns: int,
    title: str,
    cell: float,
) -> "Figure":
    """Draws panels; outer ones are labelled with subwords.

    Args:
        attention: whose panels they are.
        panels: [panels, query_length, key_length].
        names: of the panels.
        columns: of panels.
        title: of the whole.
        cell: size of a weight's square, in inches; small ones have no labels.
    """
    from matplotlib.figure import Figure

    rows = -(-len(panels) // columns)
    queries, keys = ([_shorten(x) for x in side] for side in (attention.queries, attention.keys))
    width, height = (max(len(side) * cell, _SMALLEST_PANEL) for side in (keys, queries))
    if cell < _SMALLEST_NAMED_CELL:
        queries, keys = [""], [""]
    left, below = (_MARGIN + max(map(len, side)) * _LETTER * cell for side in (queries, keys))
    total = (
        left + columns * (width + _MARGIN) + _MARGIN,
        below + rows * (height + _TITLE) + _TITLE,
    )
    # pyplot would keep every figure in memory.
    figure = Figure(figsize=total)
    figure.suptitle(
        f"{title}: each row ({attention.query_name}) attends to the columns ({attention.key_name})",
        x=_MARGIN / total[0], y=1 - 0.5 * _TITLE / total[1], ha="left", va="center", fontsize=9,
    )  # fmt: skip
    for number, (panel, name) in enumerate(zip(panels, names, strict=True)):
        row, column = divmod(number, columns)
        x = left + column * (width + _MARGIN)
        y = below + (rows - 1 - row) * (height + _TITLE)
        axis = figure.add_axes(
            (x / total[0], y / total[1], width / total[0], height / total[1]), title=name
        )
        axis.title.set_fontsize(8)
        axis.imshow(panel, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        style = {"fontsize": _POINTS * cell, "parse_math": False}  # "$" does not begin a formula.
        _label(axis.yaxis, queries if column == 0 else [], style)
        is_lowest = number + columns >= len(panels)
        _label(axis.xaxis, keys if is_lowest else [], style | {"rotation": 90})
    return figure


def _label(axis: Any, names: Sequence[str], style: dict[str, Any]) -> None:
    axis.set_ticks(range(len(names)), names, **style)
    axis.set_tick_params(length=0)


def _shorten(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"
