"""The Transformer as beam search asks for it: one more token for every hypothesis."""

from typing import NamedTuple

import tensorflow as tf

from t2t_repro.model import cache
from t2t_repro.model.cache import KeysValues, Past
from t2t_repro.model.kernels.blocked_attention import keys_of_query
from t2t_repro.model.loop_weights import LoopWeights
from t2t_repro.model.masks import padding_mask, reach_of
from t2t_repro.model.transformer import Transformer

_FLOAT_BYTES = 4


class DecodingCache(NamedTuple):
    """What is known of some sentences being translated; every tensor begins with `batch`.

    Attributes:
        memory: for each decoder layer keys [batch, heads, source_length, d_k] and values.
        source_mask: boolean [batch, 1, source_length], where the source holds a token.
        past: for each decoder layer keys [batch, heads, positions·beam, d_k] and values.
        ancestors: [batch, beam, positions] int32; see `layers.cache`.
    """

    memory: list[KeysValues]
    source_mask: tf.Tensor
    past: list[KeysValues]
    ancestors: tf.Tensor


def bytes_of_row(model: Transformer, beam_size: int, source_length: int, limit: int) -> int:
    """Estimates what a sentence takes in the encoder or at the last step of its search, in bytes.

    At the last step that is the caches of all layers, of one layer the scores of every hypothesis
    for the entries of all (twice: what goes into the softmax and what comes out), and the logits
    likewise; in the encoder, of one layer, the scores of every position and the activations of the
    feed-forward network likewise. The larger of the two counts.

    Args:
        model: the Transformer.
        beam_size: hypotheses of the sentence.
        source_length: of the sentence.
        limit: ids of a translation.
    """
    config, entries = model.config, beam_size * limit
    depths = config.num_heads * (config.key_depth + config.value_depth)
    caches = model.num_layers * (entries + source_length) * depths
    scores = 2 * config.num_heads * beam_size * (entries + source_length)
    logits = 2 * beam_size * model.vocab_size
    scored = config.num_heads * _keys_of_query(model, source_length)
    encoder = 2 * source_length * (scored + config.d_ff)
    return _FLOAT_BYTES * max(caches + scores + logits, encoder)


def _keys_of_query(model: Transformer, source_length: int) -> int:
    """How many keys the encoder scores each position against."""
    if model.neighbourhood is None:
        return source_length
    return int(keys_of_query(reach_of(model.neighbourhood), source_length))


class StepDecoder:
    """Decodes step by step, with what does not change from step to step computed once.

    Its weights are those that the model has now.

    Args:
        model: the Transformer.
        beam_size: hypotheses of a sentence.
    """

    def __init__(self, model: Transformer, beam_size: int) -> None:
        self._model = model
        self._beam_size = beam_size
        # In a loop, a weight would be read, and in mixed precision cast, at every step.
        self._weights = LoopWeights(model.trainable_variables, model.compute_dtype)
        with self._weights.scope():
            self._projections = model.decoder.join_projections()
            self._transposed_table = model.transposed_table()

    def begin(self, source: tf.Tensor) -> DecodingCache:
        """Encodes source ids [batch, source_length]; there is no room for positions yet."""
        model, config = self._model, self._model.config
        with self._weights.scope():
            memory = model.decoder.project_memory(model.encode(source, training=False))
        batch = tf.shape(source)[0]
        keys, values = (
            cache.empty(batch, config.num_heads, depth, model.compute_dtype)
            for depth in (config.key_depth, config.value_depth)
        )
        return DecodingCache(
            memory=memory,
            source_mask=padding_mask(source),
            past=[KeysValues(keys, values)] * model.num_layers,
            ancestors=tf.zeros([batch, self._beam_size, 0], tf.int32),
        )

    def make_room(self, known: DecodingCache, positions: int) -> DecodingCache:
        """Makes room for so many more positions."""
        entries = positions * self._beam_size
        shape = [tf.shape(known.ancestors)[0], self._beam_size, positions]
        more = tf.fill(shape, cache.NEVER_WRITTEN)
        return known._replace(
            past=tf.nest.map_structure(lambda kv: cache.with_room(kv, entries), known.past),
            ancestors=tf.concat([known.ancestors, more], axis=2),
        )

    def step(
        self, ids: tf.Tensor, parents: tf.Tensor, position: tf.Tensor, known: DecodingCache
    ) -> tuple[tf.Tensor, DecodingCache]:
        """Scores the next token of every hypothesis.

        Args:
            ids: [batch, beam], the token produced last; PAD at position 0.
            parents: [batch, beam], which hypothesis of the step before each extends.
            position: scalar, how many tokens each hypothesis has.
            known: the cache, with room for this position; it is used up.

        Returns:
            logits [batch, beam, vocab], and the cache for the next step.
        """
        model = self._model
        ids = tf.ensure_shape(ids, [None, self._beam_size])
        ancestors = cache.descend(known.ancestors, parents, position)
        mask = cache.line_mask(ancestors, position, model.neighbourhood)
        past = [
            Past(of_layer, projection, position, mask)
            for of_layer, projection in zip(known.past, self._projections, strict=True)
        ]
        with self._weights.scope():
            logits = model.decode_next(
                ids, position, known.memory, known.source_mask, past, self._transposed_table
            )
        written = [of_layer.keys_values for of_layer in past]
        return logits, known._replace(past=written, ancestors=ancestors)
