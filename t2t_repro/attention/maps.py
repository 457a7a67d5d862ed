"""Attention weights of one sentence pair, as in the paper's figures 3 to 5: a page and pictures."""

import io
import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from t2t_repro.errors import UserError
from t2t_repro.model.attention import MultiHeadAttention, recorded_by
from t2t_repro.model.transformer import Transformer
from t2t_repro.text.subword_model import SubwordModel, SubwordPair

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A browser cannot draw more at once, nor can anyone read it.
MAX_SUBWORDS = 128

START = "<START>"

# Weights are written as whole thousandths: a page of 6 layers, 8 heads and 60 subwords is 1 MB.
_SCALE = 1000

_TEMPLATE = Path(__file__).with_name("page.html")
_PLACEHOLDER = "__DATA__"


# Sizes of pictures, in inches.
CELL = 0.12
"""Size of a cell: fits letters of 6.5 points."""
_SMALLEST_LABELLED_CELL = 0.075
_GAP = 0.35
_SMALLEST_PANEL = 1.2
_DOTS_PER_INCH = 120

_POINTS = 54
"""Points of a letter per inch of its cell, which has 72: three quarters of the cell's size."""

_LETTER = 0.47
"""Width of a letter, as a share of the cell's size."""

_LONGEST_LABEL = 16
_MOST_COLUMNS = 4


class AttentionWeights(NamedTuple):
    """The attention weights of all layers of a Transformer, in float32.

    Attributes:
        encoder: [layers, batch, heads, source_length, source_length].
        decoder: [layers, batch, heads, target_length, target_length]; position t predicts
            target[:, t], and reads `start_id` and the targets before t. Empty with the SSRU.
        cross: [layers, batch, heads, target_length, source_length].
    """

    encoder: NDArray[np.float32]
    decoder: NDArray[np.float32]
    cross: NDArray[np.float32]


class AttentionMap(NamedTuple):
    """One kind of attention in one sentence pair.

    Attributes:
        kind: "encoder", "decoder" or "cross".
        title: the map's title.
        query_name: name of the queries.
        key_name: name of the keys.
        queries: the subword at each query; in the decoder, the predicted one.
        keys: the subword that is read at each key.
        weights: [layers, heads, query_length, key_length].
    """

    kind: str
    title: str
    query_name: str
    key_name: str
    queries: list[str]
    keys: list[str]
    weights: NDArray[np.float32]


def collect_weights(model: Transformer, source: tf.Tensor, target: tf.Tensor) -> AttentionWeights:
    """Computes the attention weights of sentence pairs, without dropout.

    Args:
        model: the Transformer.
        source: ids [batch, source_length], PAD after the end.
        target: ids [batch, target_length], likewise.
    """
    # With the SSRU the decoder's layers have no self-attention.
    self_attending = [] if model.config.is_recurrent else model.decoder.layers
    with ExitStack() as stack:
        encoder = _record([layer.self_attention for layer in model.encoder.layers], stack)
        decoder = _record([layer.self_attention for layer in self_attending], stack)
        cross = _record([layer.memory_attention for layer in model.decoder.layers], stack)
        model.decode(target, model.encode(source), source)
    return AttentionWeights(_in_float32(encoder), _in_float32(decoder), _in_float32(cross))


def _record(attentions: list[MultiHeadAttention], stack: ExitStack) -> list[list[tf.Tensor]]:
    """Begins to record the weights of attentions, until the stack is closed.

    Returns:
        a list for each attention, which gets the weights [batch, heads, queries, keys] of each of
        its calls.
    """
    return [stack.enter_context(recorded_by(attention)) for attention in attentions]


def _in_float32(recorded: list[list[tf.Tensor]]) -> NDArray[np.float32]:
    """Returns the recorded weights of layers that were called once, see `_record`.

    They are [layers, batch, heads, queries, keys], or empty without layers.
    """
    return np.array([tf.cast(weights, tf.float32) for (weights,) in recorded])


def ids_to_show(name: str, sentence: str, model: Transformer, subwords: SubwordModel) -> list[int]:
    """Encodes a sentence as for translation: ids, EOS at the end.

    Args:
        name: what the error calls the sentence, e.g. "source".
        sentence: the text.
        model: the Transformer, which may limit the length.
        subwords: the subword model of the sentence's language.

    Raises:
        UserError: the sentence is too long for a map.
    """
    (ids,) = subwords.encode([sentence.strip()])
    limit = min(MAX_SUBWORDS, model.longest or MAX_SUBWORDS)
    if len(ids) > limit:
        problem = f"the {name} has {len(ids)} subwords, EOS included"
        raise UserError(f"{problem}, expected at most {limit}: give a shorter one.")
    return ids


class PairAttention:
    """The attention maps of one sentence pair.

    Args:
        model: the Transformer; its current weights are used at every call.
        subwords: the subword models of source and target.
        source: a sentence.
        target: its translation; an empty one is EOS alone.

    Raises:
        UserError: a sentence is too long for a map.
    """

    def __init__(self, model: Transformer, subwords: SubwordPair, source: str, target: str) -> None:
        self._model = model
        self._source = ids_to_show("source", source, model, subwords.source)
        self._target = ids_to_show("target", target, model, subwords.target)
        if subwords.languages:
            # The source's first id is the code of its target language, which the decoder reads.
            self._target.insert(0, self._source.pop(0))
        self._source_labels = subwords.source.labels(self._source)
        self._target_labels = subwords.target.labels(self._target)

    def maps(self) -> list[AttentionMap]:
        """Computes the maps of encoder, decoder and cross-attention, with the current weights.

        A decoder with the SSRU has no self-attention, and no map of it.
        """
        source, target = tf.constant([self._source]), tf.constant([self._target])
        source_labels, target_labels = self._source_labels, self._target_labels
        read_labels = [START, *target_labels[:-1]]
        predicted, read = "target, about to be written", "target, written so far"
        # The fields of each `AttentionMap` in their order, without the last, `weights`.
        kinds = (
            ("encoder", "Encoder self-attention", "source", "source", source_labels, source_labels),
            ("decoder", "Decoder self-attention", predicted, read, target_labels, read_labels),
            ("cross", "Cross-attention", predicted, "source", target_labels, source_labels),
        )
        pairs = zip(kinds, collect_weights(self._model, source, target), strict=True)
        # The batch has one sentence pair, number 0. A kind without layers is the SSRU's.
        return [AttentionMap(*fields, layers[:, 0]) for fields, layers in pairs if len(layers)]


def as_html(
    maps: Sequence[AttentionMap], model: str, source: str, target: str, target_origin: str
) -> str:
    """Returns an HTML page with maps.

    Texts are put into a script of the page as JSON. The script shows them as text nodes, so they
    are never read as markup.

    Args:
        maps: the maps of one sentence pair.
        model: the model's name.
        source: a sentence.
        target: its translation.
        target_origin: where the translation is from, e.g. "given".
    """
    kinds = [
        {**attention._asdict(), "weights": np.rint(attention.weights * _SCALE).astype(int).tolist()}
        for attention in maps
    ]
    page = {"model": model, "source": source, "target": target, "target_origin": target_origin}
    data = json.dumps({**page, "scale": _SCALE, "kinds": kinds}, separators=(",", ":"))
    # A script element ends at any "</script", also inside a string.
    data = data.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")
    return _TEMPLATE.read_text(encoding="utf-8").replace(_PLACEHOLDER, data)


def layer_picture(attention: AttentionMap, layer: int) -> bytes:
    """Draws all heads of one layer (from 0) as a PNG file."""
    weights = attention.weights[layer]
    names = [f"head {head + 1}" for head in range(len(weights))]
    title = f"{attention.title}, layer {layer + 1}"
    figure = draw(attention, weights, names, min(len(names), _MOST_COLUMNS), title, CELL)
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
    """Draws panels, each a heat map of weights; the left and the lowest have subwords as labels.

    Args:
        attention: the map that the panels belong to.
        panels: [panels, query_length, key_length].
        names: the text above each panel.
        columns: how many panels stand side by side, at most as many as there are.
        title: the title of the whole picture.
        cell: size of a weight's square, in inches; below 0.075 there are no labels.

    Returns:
        the figure, for the caller to save.
    """
    # Installed with the extra "plots" only.
    from matplotlib.figure import Figure

    has_labels = cell >= _SMALLEST_LABELLED_CELL
    queries = [_shorten(label) for label in attention.queries] if has_labels else []
    keys = [_shorten(label) for label in attention.keys] if has_labels else []
    # All sizes are in inches. Labels stand left of the panels and below them; the longest decides.
    left = _GAP + max(map(len, queries), default=0) * _LETTER * cell
    below = _GAP + max(map(len, keys), default=0) * _LETTER * cell
    rows = -(-len(panels) // columns)  # Rounded up.
    width = max(len(attention.keys) * cell, _SMALLEST_PANEL)
    height = max(len(attention.queries) * cell, _SMALLEST_PANEL)
    # A gap for the name of each panel, and one more for the title.
    full_width = left + columns * (width + _GAP)
    full_height = below + rows * (height + _GAP) + _GAP
    # Not by pyplot, which would keep every figure in memory.
    figure = Figure((full_width, full_height))
    legend = f"each row ({attention.query_name}) attends to the columns ({attention.key_name})"
    figure.suptitle(f"{title}: {legend}", fontsize=9)
    axes = figure.subplots(rows, columns, squeeze=False, subplot_kw={"xticks": [], "yticks": []})
    # As shares of the figure: the borders of all panels; as shares of a panel: the gaps between.
    figure.subplots_adjust(
        left / full_width, below / full_height, 1 - _GAP / full_width, 1 - 2 * _GAP / full_height,
        wspace=_GAP / width, hspace=_GAP / height,
    )  # fmt: skip
    style = {"fontsize": _POINTS * cell, "parse_math": False}  # "$" does not begin a formula.
    # The left panel of each row.
    for axis in axes[:, 0]:
        axis.set_yticks(range(len(queries)), queries, **style)
    # The lowest panel of each column.
    for axis in axes.flat[len(panels) - columns : len(panels)]:
        axis.set_xticks(range(len(keys)), keys, rotation=90, **style)
    # The places of the grid without a panel; below, `zip` leaves them out.
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis, panel, name in zip(axes.flat, panels, names, strict=False):
        axis.set_title(name, fontsize=8)
        axis.tick_params(length=0)
        axis.imshow(panel, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    return figure


def _shorten(label: str) -> str:
    """Cuts a label off at `_LONGEST_LABEL` characters, "…" included."""
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"
