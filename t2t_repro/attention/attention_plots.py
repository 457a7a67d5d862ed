"""Attention maps as pictures: a panel for every head, rows attend to columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from t2t_repro.attention.maps import AttentionMap
from t2t_repro.attention.pictures import as_png

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# In inches. A subword's row has room for letters of 6.5 points, 0.09 inches.
_CELL = 0.12
_SMALLEST_NAMED_CELL = 0.075
_LARGEST_IN_OVERVIEW = 3.0
_MARGIN = 0.35
_TITLE = 0.3
_SMALLEST_PANEL = 1.2
_LONGEST_LABEL = 16

_POINTS = 54
"""Size of a cell's letters, in points, by the cell's in inches: three quarters of it."""

_LETTER = 0.47
"""Width of a letter by the size of a cell."""

_MOST_COLUMNS = 4


def layer_picture(attention: AttentionMap, layer: int) -> bytes:
    """Draws all heads of one layer, counted from 0, as a PNG file."""
    weights = attention.weights[layer]
    heads = [f"head {head + 1}" for head in range(len(weights))]
    title = f"{attention.title}, layer {layer + 1}"
    figure = _draw(attention, weights, heads, min(len(heads), _MOST_COLUMNS), title, _CELL)
    return as_png(figure)


def overview(attention: AttentionMap) -> NDArray[np.uint8]:
    """Draws all layers below each other, each with all its heads: [height, width, 3].

    Long sentences are drawn small, and without their words where these would not be legible.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    layers, heads, queries, keys = attention.weights.shape
    panels = attention.weights.reshape(layers * heads, queries, keys)
    names = [f"layer {i + 1}, head {j + 1}" for i in range(layers) for j in range(heads)]
    cell = min(_CELL, _LARGEST_IN_OVERVIEW / max(queries, keys))
    canvas = FigureCanvasAgg(_draw(attention, panels, names, heads, attention.title, cell))
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _draw(
    attention: AttentionMap,
    panels: NDArray[np.float32],
    names: Sequence[str],
    columns: int,
    title: str,
    cell: float,
) -> "Figure":
    """Draws panels [panels, query_length, key_length]; subwords stand at the outer ones only."""
    from matplotlib.figure import Figure

    rows = -(-len(panels) // columns)
    queries, keys = ([shortened(x) for x in side] for side in (attention.queries, attention.keys))
    width, height = (max(len(side) * cell, _SMALLEST_PANEL) for side in (keys, queries))
    if cell < _SMALLEST_NAMED_CELL:
        queries, keys = [""], [""]
    left, below = (_MARGIN + max(map(len, side)) * _LETTER * cell for side in (queries, keys))
    total = (
        left + columns * (width + _MARGIN) + _MARGIN,
        below + rows * (height + _TITLE) + _TITLE,
    )
    # Not pyplot, which keeps every figure in a list of its own.
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
        style = {"fontsize": _POINTS * cell, "parse_math": False}  # A dollar is no formula.
        _name_ticks(axis.yaxis, queries if column == 0 else [], style)
        lowest = number + columns >= len(panels)
        _name_ticks(axis.xaxis, keys if lowest else [], style | {"rotation": 90})
    return figure


def _name_ticks(axis: Any, names: Sequence[str], style: dict[str, Any]) -> None:
    axis.set_ticks(range(len(names)), names, **style)
    axis.set_tick_params(length=0)


def shortened(label: str) -> str:
    """Cuts a label that would take more room than words have."""
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"
