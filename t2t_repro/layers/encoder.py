"""The encoder: a stack of self-attention and feed-forward layers (paper, section 3.1)."""

from typing import Any

import keras
import tensorflow as tf

from t2t_repro.layers.feed_forward import FeedForward
from t2t_repro.layers.layer_config import LayerConfig
from t2t_repro.layers.layout import PADDED, Layout
from t2t_repro.layers.restricted_attention import self_attention
from t2t_repro.layers.shapes import check_last_axis
from t2t_repro.layers.stack import LayerStack
from t2t_repro.layers.sublayer import SublayerConnection


@keras.saving.register_keras_serializable(package="t2t_repro")
class EncoderLayer(keras.layers.Layer):
    """Self-attention, then feed-forward, each in a `SublayerConnection`.

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
        self.config = config = LayerConfig.of(config)
        self.neighbourhood = neighbourhood
        self.self_attention = self_attention(
            config, neighbourhood, name="self_attention", dtype=self.dtype_policy
        )
        self.feed_forward = FeedForward(
            config.d_ff, config.relu_dropout, name="feed_forward", dtype=self.dtype_policy
        )
        self.around_self_attention = self._connection("around_self_attention")
        self.around_feed_forward = self._connection("around_feed_forward")

    def _connection(self, name: str) -> SublayerConnection:
        return SublayerConnection(
            self.config.dropout, self.config.normalization, name=name, dtype=self.dtype_policy
        )

    def build(self, x_shape: tuple) -> None:
        """Builds the sub-layers for inputs [batch, length, d_model]."""
        for part in (
            self.self_attention,
            self.feed_forward,
            self.around_self_attention,
            self.around_feed_forward,
        ):
            part.build(x_shape)
        self.built = True

    def call(
        self,
        x: tf.Tensor,
        attention_mask: tf.Tensor | None = None,
        training: bool | None = None,
        layout: Layout = PADDED,
    ) -> tf.Tensor:
        """Encodes one layer: [batch, source_length, d_model] → the same shape.

        Args:
            x: [batch, source_length, d_model].
            attention_mask: boolean, broadcastable to [batch, source_length, source_length]; with a
                neighbourhood [batch, 1, source_length].
            training: whether dropout is active.
            layout: of `x`.
        """
        y = self.around_self_attention.prepare(x)
        y = self.self_attention(y, attention_mask=attention_mask, training=training, layout=layout)
        x = self.around_self_attention(x, y, training=training)
        y = self.around_feed_forward.prepare(x)
        y = self.feed_forward(y, training=training)
        return self.around_feed_forward(x, y, training=training)

    def attention_weights(self, x: tf.Tensor, attention_mask: tf.Tensor | None = None) -> tf.Tensor:
        """How `call` attends: [batch, heads, source_length, source_length]."""
        y = self.around_self_attention.prepare(x)
        return self.self_attention.attention_weights(y, attention_mask=attention_mask)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "config": self.config.to_dict(),
            "neighbourhood": self.neighbourhood,
        }


@keras.saving.register_keras_serializable(package="t2t_repro")
class Encoder(LayerStack):
    """N encoder layers; see `LayerStack`."""

    layer_type = EncoderLayer

    def call(
        self,
        x: tf.Tensor,
        attention_mask: tf.Tensor,
        training: bool | None = None,
        layout: Layout = PADDED,
    ) -> tf.Tensor:
        """Encodes embedded source sentences.

        Args:
            x: [batch, source_length, d_model].
            attention_mask: boolean, `True` = may attend, broadcastable to [batch, source_length,
                source_length]; with a neighbourhood [batch, 1, source_length].
            training: whether dropout is active.
            layout: of `x`.

        Returns:
            [batch, source_length, d_model].

        Raises:
            ValueError: if the width of `x` is not d_model.
        """
        check_last_axis("x", x, self.config.d_model)
        for layer in self.layers:
            x = layer(x, attention_mask=attention_mask, training=training, layout=layout)
        return self.normalize_output(x)

    def attention_weights(self, x: tf.Tensor, attention_mask: tf.Tensor) -> list[tf.Tensor]:
        """How every layer attends when `call` reads these arguments, without dropout.

        Returns:
            for each layer [batch, heads, source_length, source_length].
        """
        weights = []
        for layer in self.layers:
            weights.append(layer.attention_weights(x, attention_mask))
            x = layer(x, attention_mask=attention_mask)
        return weights
