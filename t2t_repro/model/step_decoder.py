"""Step-by-step decoding: scores the next token of every hypothesis."""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from t2t_repro.model import cache
from t2t_repro.model.cache import KeysValues, Past, State
from t2t_repro.model.kernels.blocked_attention import keys_of_query
from t2t_repro.model.masks import padding_mask, window_of, without_ids
from t2t_repro.model.transformer import Transformer
from t2t_repro.vocabulary import PAD_ID

_FLOAT_BYTES = 4


class DecodingCache(NamedTuple):
    """The state of sentences being translated; every tensor begins with the axis `batch`.

    Attributes:
        memory: for each decoder layer, keys [batch, heads, source_length, d_k] and values.
        source_mask: boolean [batch, 1, source_length], where the source holds a token.
        past: for each decoder layer, keys [batch, heads, positions·beam, d_k] and values; or the
            state of a recurrent one, [batch, beam, d_model] float32.
        ancestors: [batch, beam, positions] int32; see `model.cache`. Not used by recurrent layers.
        allowed: with a lexical shortlist one tensor, boolean [batch, ids]: which ids may come next;
            otherwise none.
    """

    memory: list[KeysValues]
    source_mask: tf.Tensor
    past: list[KeysValues] | list[tf.Tensor]
    ancestors: tf.Tensor
    allowed: tuple[tf.Tensor, ...] = ()


def bytes_of_row(model: Transformer, beam_size: int, source_length: int, limit: int) -> int:
    """Estimates the bytes that the decoding of a sentence takes.

    The last step needs the caches of all layers, and, before and after the softmax, the scores of
    one layer and the logits. The encoder needs the scores and the feed-forward activations of one
    layer, both twice. The larger of the two sums is returned.

    Args:
        model: the Transformer.
        beam_size: hypotheses of the sentence.
        source_length: ids of the source sentence.
        limit: the most ids of its translation.
    """
    config = model.config
    # All sizes are counted in floats. The width is that of one position's keys and values.
    width = config.num_heads * (config.key_depth + config.value_depth)
    past = beam_size * (config.d_model if config.is_recurrent else limit * width)
    caches = model.num_decoder_layers * (past + source_length * width)
    # The keys that a hypothesis is scored against: the source's, and all of the beam's own.
    keys = source_length + (0 if config.is_recurrent else beam_size * limit)
    # Twice: before and after the softmax.
    scores = 2 * config.num_heads * beam_size * keys
    logits = 2 * beam_size * model.vocab_size
    encoder_keys: float = source_length
    if model.neighbourhood is not None:
        encoder_keys = keys_of_query(window_of(model.neighbourhood), source_length)
    encoder = 2 * source_length * (config.num_heads * int(encoder_keys) + config.d_ff)
    return _FLOAT_BYTES * max(caches + scores + logits, encoder)


@dataclass(eq=False)
class StepDecoder:
    """Decodes step by step.

    The constructor reads the current weights of the model, and computes what all steps share.

    Attributes:
        model: the Transformer.
        beam_size: hypotheses of a sentence.
        without_pad: whether PAD has no probability: the other ids share it.
        ids: [ids] int32, the only ids to be scored, PAD first; None for all. With them a step takes
            and scores their indices in the place of ids.
    """

    model: Transformer
    beam_size: int
    without_pad: bool = False
    ids: tf.Tensor | None = None

    def __post_init__(self) -> None:
        """Reads the weights, and joins the projections that every step uses."""
        # A loop would read every weight, and cast it in mixed precision, at every step.
        self._weights = LoopWeights(self.model.trainable_variables, self.model.compute_dtype)
        with self._weights.scope():
            layers = [] if self.model.config.is_recurrent else self.model.decoder.layers
            self._projections = [layer.self_attention.joint_projection() for layer in layers]
            self._output_layer = self.model.output_layer(self.ids)

    def begin(self, source: tf.Tensor, *allowed: tf.Tensor) -> DecodingCache:
        """Encodes source ids [batch, source_length]; the cache has no positions yet.

        `allowed` is at most one mask, that of a lexical shortlist: boolean [batch, ids].
        """
        with self._weights.scope():
            memory = self.model.decoder.project_memory(self.model.encode(source, training=False))
        batch = tf.shape(source)[0]
        source_mask = padding_mask(self.model.encoded_ids(source))
        past = new_past(self.model, batch, self.beam_size, 0)
        ancestors = tf.zeros([batch, self.beam_size, 0], tf.int32)
        return DecodingCache(memory, source_mask, past, ancestors, allowed)

    def make_room(self, state: DecodingCache, positions: int) -> DecodingCache:
        """Appends unwritten entries for more positions; a recurrent model needs none."""
        if self.model.config.is_recurrent:
            return state
        entries = positions * self.beam_size
        shape = [tf.shape(state.ancestors)[0], self.beam_size, positions]
        unwritten = tf.fill(shape, cache.NEVER_WRITTEN)
        past = tf.nest.map_structure(lambda kept: cache.with_room(kept, entries), state.past)
        ancestors = tf.concat([state.ancestors, unwritten], axis=2)
        return state._replace(past=past, ancestors=ancestors)

    def step(
        self, ids: tf.Tensor, parents: tf.Tensor, position: tf.Tensor, state: DecodingCache
    ) -> tuple[tf.Tensor, DecodingCache]:
        """Scores the next token of every hypothesis.

        Args:
            ids: [batch, beam] int32, the last token of each, or its index in `self.ids`; PAD at
                position 0.
            parents: [batch, beam] int32, the hypothesis of the previous step that each extends.
            position: scalar, the number of tokens of each hypothesis.
            state: the cache, with entries for this position; it must not be used again.

        Returns:
            logits [batch, beam, vocab or ids], and the cache for the next step.
        """
        ids = tf.ensure_shape(ids, [None, self.beam_size])
        if self.ids is not None:
            ids = tf.gather(self.ids, ids)
        past, ancestors = self._past_of_parents(parents, position, state)
        with self._weights.scope():
            logits = self.model.decode_next(
                ids, position, state.memory, state.source_mask, past, self._output_layer
            )
        # `decode_next` has added this step to each.
        extended: Any = [layer_past.kept for layer_past in past]
        state = state._replace(past=extended, ancestors=ancestors)
        # With a shortlist there is one mask, otherwise none.
        for allowed in state.allowed:
            logits = tf.where(allowed[:, None], logits, tf.constant(-math.inf, logits.dtype))
        return without_ids(logits, (PAD_ID,) if self.without_pad else ()), state

    def _past_of_parents(
        self, parents: tf.Tensor, position: tf.Tensor, state: DecodingCache
    ) -> tuple[list[Past | State], tf.Tensor]:
        """Returns the past of every layer, as new hypotheses see it, and their ancestors.

        The ancestors of a recurrent model, which it does not use, stay as they are.
        """
        if self.model.config.is_recurrent:
            # c [batch, beam, d_model] is a layer's state, as in `SSRU`.
            return [State(tf.gather(c, parents, batch_dims=1)) for c in state.past], state.ancestors
        # Keys and values stay where they are: the mask alone follows the parents.
        ancestors = cache.descend(state.ancestors, parents, position)
        mask = cache.line_mask(ancestors, position, self.model.neighbourhood)
        pairs = zip(state.past, self._projections, strict=True)
        return [Past(kept, projection, position, mask) for kept, projection in pairs], ancestors


def new_past(
    model: Transformer, batch: tf.Tensor, beam: int, entries: int | tf.Tensor
) -> list[KeysValues] | list[tf.Tensor]:
    """Returns `DecodingCache.past` as it is before the first step; `entries` is positions·beam."""
    config = model.config
    if config.is_recurrent:
        return [tf.zeros([batch, beam, config.d_model])] * model.num_decoder_layers
    axes = [batch, config.num_heads, entries]
    keys = tf.zeros([*axes, config.key_depth], model.compute_dtype)
    values = tf.zeros([*axes, config.value_depth], model.compute_dtype)
    return [KeysValues(keys, values)] * model.num_decoder_layers


class LoopWeights:
    """The weights of a model, read once before the decoding loop.

    Matrices are cast to the dtype of products; scales and biases keep theirs. Vectors of the same
    width are stacked into one tensor, because every tensor that a loop reads costs it three
    operations per step.

    Args:
        weights: the variables of the model.
        dtype: of products, the model's compute dtype.
    """

    def __init__(self, weights: Iterable[keras.Variable], dtype: str) -> None:
        self._matrices: list[tuple[keras.Variable, tf.Tensor]] = []
        by_width: dict[int, list[tuple[keras.Variable, tf.Tensor]]] = defaultdict(list)
        for weight in weights:
            value = tf.convert_to_tensor(weight.value)
            if value.shape.rank == 1:
                by_width[value.shape[0]].append((weight, value))
            else:
                self._matrices.append((weight, tf.cast(value, dtype)))
        unzipped = (zip(*pairs, strict=True) for pairs in by_width.values())
        # For each width the variables, and their values [variables, width].
        self._vectors = [(variables, tf.stack(values)) for variables, values in unzipped]

    def scope(self) -> keras.StatelessScope:
        """Returns a scope in which the model's weights have the values that were read."""
        pairs = [*self._matrices]
        for variables, values in self._vectors:
            pairs += zip(variables, tf.unstack(values), strict=True)
        return with_values(pairs)


def with_values(values: Iterable[tuple[keras.Variable, tf.Tensor]]) -> keras.StatelessScope:
    """Returns a scope in which each variable has the value beside it, in the value's dtype."""
    scope = keras.StatelessScope()
    for variable, value in values:
        # `state_mapping` of the constructor would cast values to the variable's dtype, and layers
        # would cast them back whenever they read them.
        scope.add_update((variable, value))
    return scope
