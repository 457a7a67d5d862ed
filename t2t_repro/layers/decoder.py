"""The decoder: causal self-attention, attention to the source, feed-forward (paper, section 3.1).

There are two ways through it, which give the same: `call` for all positions at once (training),
and `step` for one more position after a cache of those before it (beam search).
"""

from typing import Any

import keras
import tensorflow as tf
from keras import KerasTensor, ops

from t2t_repro.layers.attention import MultiHeadAttention
from t2t_repro.layers.feed_forward import FeedForward
from t2t_repro.layers.layer_config import LayerConfig
from t2t_repro.layers.masks import causal_mask, neighbourhood_mask
from t2t_repro.layers.shapes import check_last_axis
from t2t_repro.layers.stack import LayerStack
from t2t_repro.layers.sublayer import SublayerConnection

KeysValues = tuple[KerasTensor, KerasTensor]


@keras.saving.register_keras_serializable(package="t2t_repro")
class DecoderLayer(keras.layers.Layer):
    """Self-attention, attention to the memory, feed-forward, each in a `SublayerConnection`.

    Args:
        layer: sizes and rates.
    """

    def __init__(self, layer: LayerConfig | dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.layer = LayerConfig.of(layer)
        self.self_attention = self._attention("self_attention")
        self.memory_attention = self._attention("memory_attention")
        self.feed_forward = FeedForward(
            self.layer.d_ff,
            self.layer.relu_dropout,
            name="feed_forward",
            dtype=self.dtype_policy,
        )
        self.around_self_attention = self._connection("around_self_attention")
        self.around_memory_attention = self._connection("around_memory_attention")
        self.around_feed_forward = self._connection("around_feed_forward")

    def _attention(self, name: str) -> MultiHeadAttention:
        return MultiHeadAttention(
            self.layer.num_heads,
            self.layer.key_depth,
            self.layer.value_depth,
            self.layer.attention_dropout,
            name=name,
            dtype=self.dtype_policy,
        )

    def _connection(self, name: str) -> SublayerConnection:
        return SublayerConnection(
            self.layer.dropout, self.layer.normalization, name=name, dtype=self.dtype_policy
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
        x: KerasTensor,
        memory: KerasTensor,
        attention_mask: KerasTensor | None = None,
        source_mask: KerasTensor | None = None,
        training: bool | None = None,
    ) -> KerasTensor:
        """Decodes one layer at all positions.

        Args:
            x: [batch, target_length, d_model].
            memory: [batch, source_length, d_model], the encoder's output.
            attention_mask: boolean, broadcastable to [batch, target_length, target_length].
            source_mask: boolean, broadcastable to [batch, target_length, source_length].
            training: whether dropout is active.

        Returns:
            [batch, target_length, d_model].
        """
        y = self.around_self_attention.prepare(x)
        y = self.self_attention(y, attention_mask=attention_mask, training=training)
        x = self.around_self_attention(x, y, training=training)
        y = self.around_memory_attention.prepare(x)
        y = self.memory_attention(y, memory, attention_mask=source_mask, training=training)
        x = self.around_memory_attention(x, y, training=training)
        y = self.around_feed_forward.prepare(x)
        y = self.feed_forward(y, training=training)
        return self.around_feed_forward(x, y, training=training)

    def step(
        self,
        x: KerasTensor,
        past: KeysValues,
        memory: KeysValues,
        source_mask: KerasTensor,
        attention_mask: KerasTensor | None = None,
    ) -> tuple[KerasTensor, KeysValues]:
        """Decodes one layer at one more position of every hypothesis.

        Attention to the memory takes the beam as its query axis: the source's keys and values
        are never repeated for each hypothesis.

        Args:
            x: [batch, beam, d_model], the newest position.
            past: keys [batch, beam, heads, length, d_k] and values of the positions before it.
            memory: keys [batch, heads, source_length, d_k] and values of the source.
            source_mask: boolean [batch, 1, source_length].
            attention_mask: boolean [1, 1, length + 1], which positions so far may be attended
                to; all by default.

        Returns:
            [batch, beam, d_model], and the past with the newest position behind it.
        """
        y = self.around_self_attention.prepare(x)
        y, past = self._attend_to_past(y, past, attention_mask)
        x = self.around_self_attention(x, y)
        y = self.around_memory_attention.prepare(x)
        queries = self.memory_attention.project_query(y)
        y = self.memory_attention.attend(queries, *memory, attention_mask=source_mask)
        x = self.around_memory_attention(x, y)
        y = self.around_feed_forward.prepare(x)
        return self.around_feed_forward(x, self.feed_forward(y)), past

    def _attend_to_past(
        self, y: KerasTensor, past: KeysValues, attention_mask: KerasTensor | None
    ) -> tuple[KerasTensor, KeysValues]:
        """Self-attention of one position: y [batch, beam, d_model] and the extended past."""
        batch, beam = ops.shape(y)[:2]
        newest = ops.reshape(y, (batch * beam, 1, self.layer.d_model))
        queries, *newest = self.self_attention.project(newest)
        keys, values = (
            ops.concatenate([old, ops.reshape(new, (batch, beam, *new.shape[1:]))], axis=3)
            for old, new in zip(past, newest, strict=True)
        )
        attended = self.self_attention.attend(
            queries,
            ops.reshape(keys, (batch * beam, *ops.shape(keys)[2:])),
            ops.reshape(values, (batch * beam, *ops.shape(values)[2:])),
            attention_mask,
        )
        return ops.reshape(attended, (batch, beam, self.layer.d_model)), (keys, values)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "layer": self.layer.to_dict()}


@keras.saving.register_keras_serializable(package="t2t_repro")
class Decoder(LayerStack):
    """N decoder layers; see `LayerStack`."""

    layer_type = DecoderLayer

    def build(self, x_shape: tuple, memory_shape: tuple | None = None) -> None:
        """Builds all layers for targets and a memory [batch, length, d_model]."""
        super().build(x_shape)

    def self_attention_mask(self, length: int | KerasTensor) -> KerasTensor:
        """The mask of the decoder's self-attention: [1, length, length], boolean."""
        mask = causal_mask(length)
        if self.neighbourhood:
            mask = mask & neighbourhood_mask(length, self.neighbourhood)
        return mask

    def call(
        self,
        x: KerasTensor,
        memory: KerasTensor,
        source_mask: KerasTensor,
        training: bool | None = None,
    ) -> KerasTensor:
        """Decodes all positions, each from those before it (teacher forcing).

        Target padding is not masked: it stands at the end, where causality hides it.

        Args:
            x: [batch, target_length, d_model], the embedded target, shifted right.
            memory: [batch, source_length, d_model], the encoder's output.
            source_mask: boolean, broadcastable to [batch, target_length, source_length].
            training: whether dropout is active.

        Returns:
            [batch, target_length, d_model], what the softmax projection reads.

        Raises:
            ValueError: if the width of `x` or `memory` is not d_model.
        """
        check_last_axis("x", x, self.layer.d_model)
        check_last_axis("memory", memory, self.layer.d_model)
        attention_mask = self.self_attention_mask(ops.shape(x)[1])
        for layer in self.layers:
            x = layer(
                x, memory, attention_mask=attention_mask, source_mask=source_mask, training=training
            )
        return self.normalize_output(x)

    def project_memory(self, memory: KerasTensor) -> list[KeysValues]:
        """Projects the encoder's output once for every layer's attention to it.

        Args:
            memory: [batch, source_length, d_model].

        Returns:
            for each layer keys [batch, heads, source_length, d_k] and values.
        """
        return [layer.memory_attention.project_memory(memory) for layer in self.layers]

    def empty_past(self, batch: int | KerasTensor, beam: int) -> list[KeysValues]:
        """The self-attention keys and values of no position yet.

        They grow with every step, as attention to room not yet used, and re-ordering it, would
        cost more than all the rest.

        Returns:
            for each layer [batch, beam, heads, 0, d_k] and [batch, beam, heads, 0, d_v].
        """

        def empty(depth: int) -> KerasTensor:
            nothing = ops.zeros((batch, beam, self.layer.num_heads, 0, depth), self.compute_dtype)
            # A loop in a graph must know that this axis will change.
            shape = [None, beam, self.layer.num_heads, None, depth]
            return tf.raw_ops.PlaceholderWithDefault(input=nothing, shape=shape)

        return [
            (empty(self.layer.key_depth), empty(self.layer.value_depth))
            for _ in range(self.num_layers)
        ]

    def step(
        self,
        x: KerasTensor,
        past: list[KeysValues],
        memory: list[KeysValues],
        source_mask: KerasTensor,
    ) -> tuple[KerasTensor, list[KeysValues]]:
        """Decodes one more position of every hypothesis from a cache of those before it.

        Args:
            x: [batch, beam, d_model], the newest position, embedded.
            past: as `empty_past` makes it and this method returns it.
            memory: as `project_memory` makes it.
            source_mask: boolean [batch, 1, source_length].

        Returns:
            [batch, beam, d_model], what the softmax projection reads, and the new past.
        """
        attention_mask = None
        if self.neighbourhood:
            length = ops.shape(past[0][0])[3] + 1
            attention_mask = neighbourhood_mask(length, self.neighbourhood)[:, -1:]
        extended = []
        for layer, layer_past, layer_memory in zip(self.layers, past, memory, strict=True):
            x, layer_past = layer.step(x, layer_past, layer_memory, source_mask, attention_mask)
            extended.append(layer_past)
        return self.normalize_output(x), extended
