"""The encoder: a stack of self-attention and feed-forward layers (paper, section 3.1)."""

from functools import partial
from typing import Any

import keras
import tensorflow as tf

from t2t_repro.model.kernels.packing import Vectors
from t2t_repro.model.masks import with_implicit_mask
from t2t_repro.model.restricted_attention import new_attention
from t2t_repro.model.stack import LayerStack, StackedLayer


@keras.saving.register_keras_serializable(package="t2t_repro")
class EncoderLayer(StackedLayer):
    """Self-attention, then feed-forward (see `StackedLayer`)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.self_attention = new_attention(
            self.config, self.neighbourhood, name="self_attention", dtype=self.dtype_policy
        )
        self.feed_forward = self._new_feed_forward()
        self.around_self_attention = self._new_connection("around_self_attention")
        self.around_feed_forward = self._new_connection("around_feed_forward")

    def call(
        self, x: Vectors, attention_mask: tf.Tensor | None = None, training: bool | None = None
    ) -> Vectors:
        """Applies self-attention and the feed-forward network; x keeps its shape.

        It is [batch, source_length, d_model].
        The mask is boolean, broadcastable to [batch, source_length, source_length]; with a
        neighbourhood [batch, 1, source_length].
        """
        attend = partial(self.self_attention.__call__, attention_mask=attention_mask)
        x = self.around_self_attention(x, sublayer=attend, training=training)
        return self.around_feed_forward(x, sublayer=self.feed_forward, training=training)


@keras.saving.register_keras_serializable(package="t2t_repro")
class Encoder(LayerStack):
    """N encoder layers (see `LayerStack`)."""

    layer_type = EncoderLayer

    def call(
        self, x: Vectors, attention_mask: tf.Tensor | None = None, training: bool | None = None
    ) -> Vectors:
        """Encodes embedded source sentences: [batch, source_length, d_model] → the same shape.

        The mask is boolean, `True` = may attend, broadcastable to [batch, source_length,
        source_length]; with a neighbourhood [batch, 1, source_length]. Keras's implicit mask of x
        applies too.
        """
        attention_mask = with_implicit_mask(attention_mask, x)
        for layer in self.layers:
            x = layer(x, attention_mask=attention_mask, training=training)
        return self.normalize_output(x)
