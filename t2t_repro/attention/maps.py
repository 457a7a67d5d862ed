"""Attention weights of one sentence pair, as in the paper's figures 3 to 5, and a page of them."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from t2t_repro.errors import UserError
from t2t_repro.model.attention import recorded_by
from t2t_repro.model.transformer import Transformer
from t2t_repro.text.subword_model import SubwordModel, SubwordPair

# A browser cannot draw more at once, nor can anyone read it.
MAX_SUBWORDS = 128

START = "<START>"

# Weights are written as whole thousandths: a page of 6 layers, 8 heads and 60 subwords is 1 MB.
_SCALE = 1000

_TEMPLATE = Path(__file__).with_name("page.html")
_PLACE = "__DATA__"


class AttentionWeights(NamedTuple):
    """The attention weights of all layers of a Transformer, in float32.

    Attributes:
        encoder: [layers, batch, heads, source_length, source_length].
        decoder: [layers, batch, heads, target_length, target_length]; position t predicts
            target[:, t], and reads a zero vector and the targets before t.
        cross: [layers, batch, heads, target_length, source_length].
    """

    encoder: NDArray[np.float32]
    decoder: NDArray[np.float32]
    cross: NDArray[np.float32]


class AttentionMap(NamedTuple):
    """One kind of attention in one sentence pair.

    Attributes:
        kind: "encoder", "decoder" or "cross".
        title: of the map.
        query_name: says what the queries are.
        key_name: says what the keys are.
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
    """Computes the attention weights of sentence pairs, as in training but without dropout.

    Args:
        model: the Transformer.
        source: [batch, source_length], token ids, PAD after the end.
        target: [batch, target_length], token ids, PAD after the end.
    """
    stacks = model.encoder.layers, model.decoder.layers
    kinds = (
        [layer.self_attention for layer in stacks[0]],
        [layer.self_attention for layer in stacks[1]],
        [layer.memory_attention for layer in stacks[1]],
    )
    with ExitStack() as stack:
        recorded = [[stack.enter_context(recorded_by(one)) for one in kind] for kind in kinds]
        model.decode(target, model.encode(source), source)
    return AttentionWeights(*(_as_array([one for (one,) in kind]) for kind in recorded))


def _as_array(layers: Sequence[tf.Tensor]) -> NDArray[np.float32]:
    return np.stack([tf.cast(weights, tf.float32).numpy() for weights in layers])


def ids_to_show(name: str, sentence: str, model: Transformer, subwords: SubwordModel) -> list[int]:
    """Encodes a sentence as for translation, and checks its length.

    Args:
        name: of the sentence, for the error.
        sentence: a text.
        model: limits the length if its positions are learned.
        subwords: of the sentence's side.

    Raises:
        UserError: the sentence has more subwords than a map can show.
    """
    (ids,) = subwords.encode([sentence.strip()])
    limit = min(MAX_SUBWORDS, model.longest or MAX_SUBWORDS)
    if len(ids) > limit:
        raise UserError(
            f"the {name} has {len(ids)} subwords, EOS included, expected at most {limit}: "
            "give a shorter one."
        )
    return ids


class PairAttention:
    """The attention maps of one sentence pair.

    Args:
        model: the Transformer; its current weights are used at every call.
        subwords: the subword models of source and target.
        source: a sentence.
        target: its translation; an empty one is EOS alone.

    Raises:
        UserError: the source is empty, or one of the two is too long.
    """

    def __init__(self, model: Transformer, subwords: SubwordPair, source: str, target: str) -> None:
        self._model = model
        self._source = ids_to_show("source", source, model, subwords.source)
        self._target = ids_to_show("target", target, model, subwords.target)
        if len(self._source) == 1:
            raise UserError("the source sentence is empty, expected text to look at.")
        self._source_labels = subwords.source.labels(self._source)
        self._target_labels = subwords.target.labels(self._target)

    def maps(self) -> list[AttentionMap]:
        """Computes the maps of encoder, decoder and cross-attention, with the current weights."""
        source, target = tf.constant([self._source]), tf.constant([self._target])
        weights = collect_weights(self._model, source, target)
        encoder, decoder, cross = (kind[:, 0] for kind in weights)
        read, written = self._source_labels, self._target_labels
        shifted = [START, *written[:-1]]
        of_source, next_one = "source", "target, about to be written"
        return [
            AttentionMap("encoder", "Encoder self-attention", of_source, of_source, read, read,
                         encoder),
            AttentionMap("decoder", "Decoder self-attention", next_one, "target, written so far",
                         written, shifted, decoder),
            AttentionMap("cross", "Cross-attention", next_one, of_source, written, read, cross),
        ]  # fmt: skip


class Heading(NamedTuple):
    """The lines above the maps.

    Attributes:
        model: path of the checkpoint.
        source: the sentence.
        target: its translation.
        target_origin: says whose translation it is.
    """

    model: str
    source: str
    target: str
    target_origin: str


def as_html(maps: Sequence[AttentionMap], heading: Heading) -> str:
    """Returns the page with maps.

    Text reaches the page as JSON and then as text nodes: nothing in it is markup.

    Args:
        maps: of one model.
        heading: of the page.
    """
    kinds = [
        {**attention._asdict(), "weights": np.rint(attention.weights * _SCALE).astype(int).tolist()}
        for attention in maps
    ]
    data = json.dumps({**heading._asdict(), "scale": _SCALE, "kinds": kinds}, separators=(",", ":"))
    # A script element ends at any "</script", also inside a string.
    data = data.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")
    return _TEMPLATE.read_text(encoding="utf-8").replace(_PLACE, data)
