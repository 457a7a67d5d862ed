"""What one word attends to, drawn as lines as in the paper's figures 3 and 4."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from t2t_repro.attention.attention_plots import shortened
from t2t_repro.attention.maps import AttentionMap
from t2t_repro.attention.pictures import as_png

# In inches.
_COLUMN = 0.26
_FEWEST_COLUMNS = 18
_LETTER = 0.08
_BETWEEN = 1.9
_CELL = 0.11
_MARGIN = 0.3
_TITLE = 0.4

_POINTS = 9
"""Size of letters."""

_FAINTEST = 0.01
"""Lines of smaller weights could not be seen."""


def lines_picture(attention: AttentionMap, layer: int, word: str) -> bytes:
    """Draws what a word attends to in one layer, every head in its colour, as a PNG file.

    Queries stand above and keys below. The stronger a line, the larger its weight; the cells under
    the lines, a row for every head, have the same weights.

    Args:
        attention: the word is among its queries.
        layer: counted from 0.
        word: a subword as `attention.queries` names it; where it stands several times, lines come
            from each and a cell is of the one that attends most.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    chosen = [place for place, query in enumerate(attention.queries) if query == word]
    weights = attention.weights[layer]
    heads, queries, keys = weights.shape
    above, below = map(_length, (attention.queries, attention.keys))
    columns = max(queries, keys, _FEWEST_COLUMNS)
    # One unit is one inch; y goes down from the queries.
    left, right = -_MARGIN, columns * _COLUMN + _MARGIN
    top, bottom = -above - _TITLE, _BETWEEN + heads * _CELL + below + _TITLE
    figure = Figure(figsize=(right - left, bottom - top))
    axis = figure.add_axes((0, 0, 1, 1), xlim=(left, right), ylim=(bottom, top))
    axis.set_axis_off()
    title = f"{attention.title}, layer {layer + 1}: what “{shortened(word)}” attends to"
    axis.text(0, top + _TITLE / 2, title, fontsize=_POINTS, va="center", parse_math=False)
    axis.text(0, bottom - _TITLE / 2, "heads", fontsize=_POINTS, va="center")
    _write(axis, attention.queries, 0, "bottom", chosen)
    _write(axis, attention.keys, _BETWEEN + heads * _CELL, "top", range(keys))
    for head, of_head in enumerate(weights):
        colour = colormaps["tab10"](head % 10)[:3]
        _draw_head(axis, of_head, chosen, (head - (heads - 1) / 2) / heads, colour)
        _draw_cells(axis, of_head[chosen].max(0), head, colour)
        place = (0.55 + 0.25 * head, bottom - _TITLE / 2)
        axis.text(*place, str(head + 1), color=colour, weight="bold", fontsize=_POINTS, va="center")
    return as_png(figure)


def _length(words: list[str]) -> float:
    return max(len(shortened(word)) for word in words) * _LETTER + 0.1


def _middle(place: int) -> float:
    return (place + 0.5) * _COLUMN


def _write(axis: Any, words: list[str], y: float, side: str, dark: Sequence[int]) -> None:
    """Writes words upwards; y is where they end next to the lines, `side` of the letters there."""
    y += -0.06 if side == "bottom" else 0.06
    for place, word in enumerate(words):
        axis.text(
            _middle(place), y, shortened(word), rotation=90, ha="center", va=side,
            fontsize=_POINTS, color="black" if place in dark else "0.6", parse_math=False,
        )  # fmt: skip


def _draw_head(
    axis: Any, weights: NDArray[np.float32], chosen: list[int], shift: float, colour: Any
) -> None:
    """Draws lines from chosen queries; weights are [query_length, key_length], of one head.

    Heads that agree stand side by side: `shift` is from -0.5 to 0.5.
    """
    aside = 0.5 * _COLUMN * shift
    for query in chosen:
        for key, weight in enumerate(weights[query].tolist()):
            if weight < _FAINTEST:
                continue
            ends = [_middle(query) + aside, _middle(key) + aside]
            # Rounding lifts some weights above 1, which is no opacity.
            alpha = min(weight, 1.0)
            axis.plot(ends, [0, _BETWEEN], color=colour, alpha=alpha, linewidth=0.8 + 1.8 * weight)


def _draw_cells(axis: Any, weights: NDArray[np.float32], head: int, colour: Any) -> None:
    """Draws a row of cells; weights are [key_length], of one head."""
    image = np.empty((1, len(weights), 4))
    image[..., :3] = colour
    image[..., 3] = np.minimum(weights, 1)
    y = _BETWEEN + head * _CELL
    extent = (0, len(weights) * _COLUMN, y + _CELL, y)
    axis.imshow(image, extent=extent, aspect="auto", interpolation="nearest", clip_on=False)
    axis.autoscale(False)
