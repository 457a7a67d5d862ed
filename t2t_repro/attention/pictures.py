"""Attention maps as pictures, drawn with matplotlib: PNG files, and images for TensorBoard."""

import importlib.util
import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import gin
import numpy as np
from numpy.typing import NDArray

from t2t_repro.attention.maps import AttentionMap, PairAttention
from t2t_repro.config.values import Count
from t2t_repro.data.prepared import PreparedData
from t2t_repro.errors import UserError
from t2t_repro.model.transformer import Transformer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Lengths are in inches.
_CELL = 0.12  # Fits letters of 6.5 points.
_SMALLEST_NAMED_CELL = 0.075
_LARGEST_IN_OVERVIEW = 3.0
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


@gin.configurable(denylist=["model", "data"])
def attention_images(
    model: Transformer, data: PreparedData, sentence: Count = 1
) -> Callable[[], list[tuple[str, NDArray[np.uint8]]]]:
    """Draws the attention in a dev sentence and its reference, for TensorBoard.

    For gin: `DevEvaluation.images = @attention_images`.

    Args:
        model: the Transformer.
        data: its dev split is read.
        sentence: number of the dev sentence, from 1.

    Returns:
        a function that draws with the model's current weights, and returns names and pixels
        [height, width, 3].

    Raises:
        UserError: the sentence is too long, or matplotlib is missing.
    """
    check_matplotlib()
    source, target = data.text("dev")
    pair = PairAttention(model, data.subwords, source[sentence - 1], target[sentence - 1])
    return lambda: [(f"attention/{one.kind}", overview(one)) for one in pair.maps()]


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
    figure = _draw(attention, weights, heads, min(len(heads), _MOST_COLUMNS), title, _CELL)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=_DOTS_PER_INCH)
    return file.getvalue()


def overview(attention: AttentionMap) -> NDArray[np.uint8]:
    """Draws all layers, a row each, with all heads; returns pixels [height, width, 3].

    Long sentences are drawn smaller, and without words that would not be legible.
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
    """Draws panels [panels, query_length, key_length]; outer ones are labelled with subwords."""
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
