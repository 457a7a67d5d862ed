"""The decoder: causal self-attention, attention to the source, feed-forward (paper, section 3.1).

It computes all positions at once (training), or one more position of every hypothesis, with the
earlier ones in a cache, the past (beam search). Both give the same.
"""

from functools import partial
from typing import Any

import keras
import tensorflow as tf

from t2t_repro.model.attention import MultiHeadAttention, projected_memory
from t2t_repro.model.cache import KeysValues, Past, State
from t2t_repro.model.kernels.packing import Packed, Vectors
from t2t_repro.model.masks import causal_mask, with_implicit_mask
from t2t_repro.model.restricted_attention import new_attention
from t2t_repro.model.ssru import SSRU
from t2t_repro.model.stack import LayerStack, StackedLayer


@keras.saving.register_keras_serializable(package="t2t_repro")
class DecoderLayer(StackedLayer):
    """Self-attention (or SSRU), attention to the memory, feed-forward (see `StackedLayer`)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        config, dtype = self.config, self.dtype_policy
        self.self_attention: MultiHeadAttention | SSRU
        if config.is_recurrent:
            self.self_attention = SSRU(config.d_model, name="self_attention", dtype=dtype)
        else:
            self.self_attention = new_attention(
                config, self.neighbourhood, is_causal=True, name="self_attention", dtype=dtype
            )
        self.memory_attention = new_attention(config, name="memory_attention", dtype=dtype)
        self.feed_forward = self._new_feed_forward()
        self.around_self_attention = self._new_connection("around_self_attention")
        self.around_memory_attention = self._new_connection("around_memory_attention")
        self.around_feed_forward = self._new_connection("around_feed_forward")

    def call(
        self,
        x: Vectors,
        memory: Vectors | KeysValues,
        attention_mask: tf.Tensor | None = None,
        source_mask: tf.Tensor | None = None,
        training: bool | None = None,
        past: Past | State | None = None,
    ) -> Vectors:
        """Applies self-attention, attention to the memory and the feed-forward network.

        Args:
            x: [batch, target_length, d_model]; with a past [batch, beam, d_model], the newest
                position of every hypothesis.
            memory: [batch, source_length, d_model], the encoder's output, or its keys and values.
            attention_mask: boolean, broadcastable to [batch, target_length, target_length]; with a
                neighbourhood, which hides later positions itself, [batch, 1, target_length] or
                None. It has no effect on the SSRU.
            source_mask: boolean, broadcastable to [batch, target_length, source_length].
            training: whether dropout is active.
            past: the earlier positions, with a mask of their own; the newest is added in place.

        Returns:
            the shape of `x`.
        """
        within = partial(self.self_attention.__call__, attention_mask=attention_mask, past=past)
        across = partial(self.memory_attention.__call__, memory=memory, attention_mask=source_mask)
        x = self.around_self_attention(x, sublayer=within, training=training)
        x = self.around_memory_attention(x, sublayer=across, training=training)
        return self.around_feed_forward(x, sublayer=self.feed_forward, training=training)


@keras.saving.register_keras_serializable(package="t2t_repro")
class Decoder(LayerStack):
    """N decoder layers (see `LayerStack`)."""

    layer_type = DecoderLayer

    def call(
        self,
        x: Vectors,
        memory: Vectors | list[KeysValues],
        source_mask: tf.Tensor | None = None,
        training: bool | None = None,
        past: list[Past | State] | None = None,
    ) -> Vectors:
        """Decodes all positions (teacher forcing), or with a past one more.

        A position depends on earlier ones and itself only. Target padding needs no mask: it comes
        last, where the causal mask hides it. Keras's implicit masks of x and the memory apply too,
        but a target position always sees itself.

        Args:
            x: [batch, target_length, d_model], the embedded target, shifted right; with a past
                [batch, beam, d_model], the newest position of every hypothesis.
            memory: [batch, source_length, d_model], the encoder's output, or the result of
                `project_memory`.
            source_mask: boolean, broadcastable to [batch, target_length, source_length]; None for
                all.
            training: whether dropout is active.
            past: the earlier positions of every layer; the newest is added in place.

        Returns:
            the shape of `x`, the input of the softmax projection.
        """
        attention_mask = with_implicit_mask(None, x)
        # A past has its own mask; with a neighbourhood, layers hide later positions themselves.
        if past is None and self.neighbourhood is None:
            length = x.layout.length if isinstance(x, Packed) else tf.shape(x)[1]
            if attention_mask is not None:
                # A copy has no implicit mask, which would hide positions from themselves.
                x = tf.identity(x)
            attention_mask = causal_mask(length, attention_mask)
        if not isinstance(memory, list):
            source_mask = with_implicit_mask(source_mask, memory)
            # Training keeps the keys and values of all layers in any case, so it may project for
            # all at once. Otherwise each layer projects the memory itself.
            memory = self.project_memory(memory) if training else [memory] * self.num_layers
        pasts: list[Past | State | None] = [*past] if past else [None] * self.num_layers
        masks = {"attention_mask": attention_mask, "source_mask": source_mask}
        for layer, layer_memory, layer_past in zip(self.layers, memory, pasts, strict=True):
            x = layer(x, layer_memory, **masks, training=training, past=layer_past)
        return self.normalize_output(x)

    def project_memory(self, memory: Vectors) -> list[KeysValues]:
        """Computes every layer's keys and values of the memory, the encoder's output.

        The memory is [batch, source_length, d_model].
        """
        return projected_memory([layer.memory_attention for layer in self.layers], memory)
