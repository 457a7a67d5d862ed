"""What surrounds every sub-layer: dropout, residual connection, layer norm (paper, section 3.1)."""

from typing import Any

import keras
import tensorflow as tf

from t2t_repro.layers.dropout import Dropout
from t2t_repro.layers.layer_norm import LayerNorm

LAYER_NORM_EPSILON = 1e-6


@keras.saving.register_keras_serializable(package="t2t_repro")
class SublayerConnection(keras.layers.Layer):
    """LayerNorm(x + Dropout(Sublayer(x))), or its pre-norm twin.

    normalization="post" is the paper's; "pre" is T2T's later default,
    x + Dropout(Sublayer(LayerNorm(x))), with one more norm at the end of each stack.

    Args:
        dropout: rate of dropout on the sub-layer's output (paper, section 5.4).
        normalization: "post" or "pre".
    """

    def __init__(self, dropout: float, normalization: str = "post", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dropout = dropout
        self.normalization = normalization
        self.norm = LayerNorm(epsilon=LAYER_NORM_EPSILON, name="norm", dtype=self.dtype_policy)
        self.output_dropout = Dropout(dropout, name="output_dropout", dtype=self.dtype_policy)

    def build(self, x_shape: tuple, output_shape: tuple | None = None) -> None:
        """Creates the layer norm's scale and bias [d_model]."""
        self.norm.build(x_shape)
        self.built = True

    def prepare(self, x: tf.Tensor) -> tf.Tensor:
        """What the sub-layer reads: x, normalised first where normalization is "pre"."""
        return self.norm(x) if self.normalization == "pre" else x

    def call(self, x: tf.Tensor, output: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Joins a sub-layer's input and output.

        Args:
            x: [batch, length, d_model], what went into the sub-layer (before `prepare`).
            output: [batch, length, d_model], what came out of it.
            training: whether dropout is active.

        Returns:
            [batch, length, d_model].
        """
        x = x + self.output_dropout(output, training=training)
        return x if self.normalization == "pre" else self.norm(x)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "dropout": self.dropout,
            "normalization": self.normalization,
        }
