"""Draws images of attention for TensorBoard at every dev evaluation."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from t2t_repro.config.values import Count, configurable
from t2t_repro.errors import UserError, require_installed

if TYPE_CHECKING:
    from t2t_repro.attention.maps import AttentionMap
    from t2t_repro.data.prepared import PreparedData
    from t2t_repro.model.transformer import Transformer

_LARGEST = 3.0
"""The most inches of a panel's longer side."""


@configurable(denylist=["model", "data"])
def attention_images(
    model: "Transformer", data: "PreparedData", sentence: Count = 1
) -> Callable[[], list[tuple[str, NDArray[np.uint8]]]]:
    """Returns a function that draws the attention in a dev sentence and its reference.

    In gin: `DevEvaluation.images = @attention_images`.

    Args:
        model: the Transformer.
        data: the data with the dev split.
        sentence: number of the dev sentence, from 1.

    Returns:
        the function. It draws with the model's current weights, and returns the name and pixels,
        [height, width, 3] uint8, of each image.

    Raises:
        UserError: matplotlib is missing, or dev has fewer sentences.
    """
    # Not above: gin files are checked before TensorFlow is imported.
    from t2t_repro.attention.maps import PairAttention

    require_installed("matplotlib", extra="plots")
    source, target = data.text("dev")
    if sentence > len(source):
        problem = f"attention_images.sentence is {sentence}"
        raise UserError(f"{problem}, expected at most {len(source)}, the sentences of dev.")
    pair = PairAttention(model, data.subwords, source[sentence - 1], target[sentence - 1])
    return lambda: [(f"attention/{each.kind}", overview(each)) for each in pair.maps()]


def overview(attention: "AttentionMap") -> NDArray[np.uint8]:
    """Draws all layers, a row each, with all heads; returns pixels, [height, width, 3] uint8.

    Long sentences are drawn smaller, and without words that would be illegible.
    """
    # Not above: matplotlib is optional, and t2t_repro.attention imports TensorFlow.
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from t2t_repro.attention.maps import CELL, draw

    layers, heads, queries, keys = attention.weights.shape
    panels = attention.weights.reshape(layers * heads, queries, keys)
    names = [f"layer {i + 1}, head {j + 1}" for i in range(layers) for j in range(heads)]
    cell = min(CELL, _LARGEST / max(queries, keys))
    canvas = FigureCanvasAgg(draw(attention, panels, names, heads, attention.title, cell))
    canvas.draw()
    # Without the alpha channel; copied, since the buffer is the canvas's own memory.
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
