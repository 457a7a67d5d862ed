"""The decoder: causal self-attention, attention to the source, feed-forward (paper, section 3.1).

There are two ways through it, which give the same: `call` for all positions at once (training),
and `step` for one more position after a cache of those before it (beam search).
"""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from t2t_repro.layers.attention import MultiHeadAttention
from t2t_repro.layers.cache import write
from t2t_repro.layers.feed_forward import FeedForward
from t2t_repro.layers.layer_config import LayerConfig
from t2t_repro.layers.layout import PADDED, Layout
from t2t_repro.layers.masks import causal_mask
from t2t_repro.layers.restricted_attention import self_attention
from t2t_repro.layers.shapes import check_last_axis
from t2t_repro.layers.stack import LayerStack
from t2t_repro.layers.sublayer import SublayerConnection

KeysValues = tuple[tf.Tensor, tf.Tensor]


class StepPlace(NamedTuple):
    """Where a step of decoding stands, the same for all layers.

    Attributes:
        entry: scalar, the entry of the past that the first hypothesis of a beam writes.
        past_mask: boolean [batch, beam, entries], what of the past a hypothesis may attend to.
        source_mask: boolean [batch, 1, source_length].
    """

    entry: tf.Tensor
    past_mask: tf.Tensor
    source_mask: tf.Tensor


@keras.saving.register_keras_serializable(package="t2t_repro")
class DecoderLayer(keras.layers.Layer):
    """Self-attention, attention to the memory, feed-forward, each in a `SublayerConnection`.

    Args:
        config: sizes and rates.
        neighbourhood: r of the restricted self-attention, or None.
    """

    def __init__(
        self,
        config: LayerConfig | dict[str, Any],
        neighbourhood: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.config = LayerConfig.of(config)
        self.neighbourhood = neighbourhood
        self.self_attention = self_attention(
            self.config,
            neighbourhood,
            is_causal=True,
            name="self_attention",
            dtype=self.dtype_policy,
        )
        self.memory_attention = MultiHeadAttention(
            self.config.num_heads,
            self.config.key_depth,
            self.config.value_depth,
            self.config.attention_dropout,
            name="memory_attention",
            dtype=self.dtype_policy,
        )
        self.feed_forward = FeedForward(
            self.config.d_ff,
            self.config.relu_dropout,
            name="feed_forward",
            dtype=self.dtype_policy,
        )
        self.around_self_attention = self._connection("around_self_attention")
        self.around_memory_attention = self._connection("around_memory_attention")
        self.around_feed_forward = self._connection("around_feed_forward")

    def _connection(self, name: str) -> SublayerConnection:
        return SublayerConnection(
            self.config.dropout, self.config.normalization, name=name, dtype=self.dtype_policy
        )

    def build(self, x_shape: tuple) -> None:
        """Builds the sub-layers for inputs [batch, length, d_model]."""
        for part in (
            self.self_attention,
            self.memory_attention,
            self.feed_forward,
            self.around_self_attention,
            self.around_memory_attention,
            self.around_feed_forward,
        ):
            part.build(x_shape)
        self.built = True

    def call(
        self,
        x: tf.Tensor,
        memory: tf.Tensor,
        attention_mask: tf.Tensor | None = None,
        source_mask: tf.Tensor | None = None,
        training: bool | None = None,
        layout: Layout = PADDED,
        memory_layout: Layout = PADDED,
    ) -> tf.Tensor:
        """Decodes one layer at all positions.

        Args:
            x: [batch, target_length, d_model].
            memory: [batch, source_length, d_model], the encoder's output.
            attention_mask: boolean, broadcastable to [batch, target_length, target_length]; with a
                neighbourhood, which looks back only, [batch, 1, target_length] or None.
            source_mask: boolean, broadcastable to [batch, target_length, source_length].
            training: whether dropout is active.
            layout: of `x`.
            memory_layout: of `memory`.

        Returns:
            [batch, target_length, d_model].
        """
        x = self._attend_to_target(x, attention_mask, training, layout)
        y = self.around_memory_attention.prepare(x)
        y = self.memory_attention(
            y,
            memory,
            attention_mask=source_mask,
            training=training,
            layout=layout,
            memory_layout=memory_layout,
        )
        x = self.around_memory_attention(x, y, training=training)
        y = self.around_feed_forward.prepare(x)
        y = self.feed_forward(y, training=training)
        return self.around_feed_forward(x, y, training=training)

    def _attend_to_target(
        self,
        x: tf.Tensor,
        attention_mask: tf.Tensor | None,
        training: bool | None = None,
        layout: Layout = PADDED,
    ) -> tf.Tensor:
        """The first sub-layer: [batch, target_length, d_model] → the same shape."""
        y = self.around_self_attention.prepare(x)
        y = self.self_attention(y, attention_mask=attention_mask, training=training, layout=layout)
        return self.around_self_attention(x, y, training=training)

    def attention_weights(
        self,
        x: tf.Tensor,
        memory: tf.Tensor,
        attention_mask: tf.Tensor | None = None,
        source_mask: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """How `call` attends when it reads the same arguments, without dropout.

        Returns:
            to the target, [batch, heads, target_length, target_length], and to the memory,
            [batch, heads, target_length, source_length].
        """
        y = self.around_self_attention.prepare(x)
        to_target = self.self_attention.attention_weights(y, attention_mask=attention_mask)
        y = self.around_memory_attention.prepare(self._attend_to_target(x, attention_mask))
        return to_target, self.memory_attention.attention_weights(y, memory, source_mask)

    def step(
        self,
        x: tf.Tensor,
        past: KeysValues,
        memory: KeysValues,
        place: StepPlace,
    ) -> tuple[tf.Tensor, KeysValues]:
        """Decodes one layer at one more position of every hypothesis.

        Both attentions take the beam as their query axis: neither the source's keys and values nor
        those of the past are repeated, or moved about, for a hypothesis.

        Args:
            x: [batch, beam, d_model], the newest position.
            past: keys [batch, heads, entries, d_k] and values of the positions before it, see
                `layers.cache`; they are overwritten.
            memory: keys [batch, heads, source_length, d_k] and values of the source.
            place: where the step stands.

        Returns:
            [batch, beam, d_model], and the past with the newest position in it.
        """
        y = self.around_self_attention.prepare(x)
        queries = self.self_attention.project_query(y)
        newest = self.self_attention.project_memory(y)
        keys, values = (write(old, new, place.entry) for old, new in zip(past, newest, strict=True))
        y = self.self_attention.attend(queries, keys, values, place.past_mask)
        x = self.around_self_attention(x, y)
        y = self.around_memory_attention.prepare(x)
        queries = self.memory_attention.project_query(y)
        y = self.memory_attention.attend(queries, *memory, attention_mask=place.source_mask)
        x = self.around_memory_attention(x, y)
        y = self.around_feed_forward.prepare(x)
        return self.around_feed_forward(x, self.feed_forward(y)), (keys, values)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "config": self.config.to_dict(),
            "neighbourhood": self.neighbourhood,
        }


@keras.saving.register_keras_serializable(package="t2t_repro")
class Decoder(LayerStack):
    """N decoder layers; see `LayerStack`."""

    layer_type = DecoderLayer

    def build(self, x_shape: tuple, memory_shape: tuple | None = None) -> None:
        """Builds all layers for targets and a memory [batch, length, d_model]."""
        super().build(x_shape)

    def call(
        self,
        x: tf.Tensor,
        memory: tf.Tensor,
        source_mask: tf.Tensor,
        training: bool | None = None,
        layout: Layout = PADDED,
        memory_layout: Layout = PADDED,
    ) -> tf.Tensor:
        """Decodes all positions, each from those before it (teacher forcing).

        Target padding is not masked: it stands at the end, where causality hides it.

        Args:
            x: [batch, target_length, d_model], the embedded target, shifted right.
            memory: [batch, source_length, d_model], the encoder's output.
            source_mask: boolean, broadcastable to [batch, target_length, source_length].
            training: whether dropout is active.
            layout: of `x`.
            memory_layout: of `memory`.

        Returns:
            [batch, target_length, d_model], what the softmax projection reads.

        Raises:
            ValueError: if the width of `x` or `memory` is not d_model.
        """
        check_last_axis("x", x, self.config.d_model)
        check_last_axis("memory", memory, self.config.d_model)
        attention_mask = self._self_attention_mask(layout.length(x))
        for layer in self.layers:
            x = layer(
                x,
                memory,
                attention_mask=attention_mask,
                source_mask=source_mask,
                training=training,
                layout=layout,
                memory_layout=memory_layout,
            )
        return self.normalize_output(x)

    def _self_attention_mask(self, length: int | tf.Tensor) -> tf.Tensor | None:
        """[1, length, length], boolean; None with a neighbourhood, which reaches back only."""
        # No table of all pairs must be made for a neighbourhood.
        return causal_mask(length) if self.neighbourhood is None else None

    def attention_weights(
        self, x: tf.Tensor, memory: tf.Tensor, source_mask: tf.Tensor
    ) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """How every layer attends when `call` reads these arguments, without dropout.

        Returns:
            for each layer two tensors, see `DecoderLayer.attention_weights`.
        """
        attention_mask = self._self_attention_mask(PADDED.length(x))
        weights = []
        for layer in self.layers:
            weights.append(layer.attention_weights(x, memory, attention_mask, source_mask))
            x = layer(x, memory, attention_mask=attention_mask, source_mask=source_mask)
        return weights

    def project_memory(self, memory: tf.Tensor) -> list[KeysValues]:
        """Projects the encoder's output once for every layer's attention to it.

        Args:
            memory: [batch, source_length, d_model].

        Returns:
            for each layer keys [batch, heads, source_length, d_k] and values.
        """
        return [layer.memory_attention.project_memory(memory) for layer in self.layers]

    def step(
        self,
        x: tf.Tensor,
        past: list[KeysValues],
        memory: list[KeysValues],
        place: StepPlace,
    ) -> tuple[tf.Tensor, list[KeysValues]]:
        """Decodes one more position of every hypothesis; see `DecoderLayer.step`.

        Args:
            x: [batch, beam, d_model], the newest position, embedded.
            past: for each layer, the positions before; they are overwritten.
            memory: as `project_memory` makes it.
            place: where the step stands.

        Returns:
            [batch, beam, d_model], what the softmax projection reads, and the new past.
        """
        extended = []
        for layer, layer_past, layer_memory in zip(self.layers, past, memory, strict=True):
            x, layer_past = layer.step(x, layer_past, layer_memory, place)
            extended.append(layer_past)
        return self.normalize_output(x), extended
