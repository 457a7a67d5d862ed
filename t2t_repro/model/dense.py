"""x W + b, for vectors that lie in any number of axes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import ops

from t2t_repro.model import kernels
from t2t_repro.model.kernels.gradients import add_bias
from t2t_repro.model.shapes import leading_axes

_add_bias = kernels.fast(add_bias, tf.nn.bias_add)


def product(x: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
    """X W of every vector: [..., width] times [width, units] → [..., units]."""
    rows = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), matrix)
    return tf.reshape(rows, [*leading_axes(x), matrix.shape[-1]])


class Projection(NamedTuple):
    """x W + b as tensors, for whoever multiplies with them often.

    Attributes:
        matrix: [width, units], W.
        bias: [units], b, in the dtype of `matrix`; None without one.
    """

    matrix: tf.Tensor
    bias: tf.Tensor | None

    def of(self, x: tf.Tensor) -> tf.Tensor:
        """Projects every vector: [..., width] → [..., units]."""
        projected = product(x, self.matrix)
        return projected if self.bias is None else projected + self.bias


def side_by_side(projections: Sequence[Projection]) -> Projection:
    """One projection to the units of the first, then those of the next one, and so on.

    Args:
        projections: all with biases, or all without.
    """
    matrices, biases = zip(*projections, strict=True)
    bias = None if biases[0] is None else tf.concat(biases, axis=0)
    return Projection(tf.concat(matrices, axis=1), bias)


@keras.saving.register_keras_serializable(package="t2t_repro")
class Dense(keras.layers.Dense):
    """activation(x W + b), all vectors in one product.

    Where more than the batch axis is unknown, Keras's own computes every axis as it runs, some 25
    operations a product. Here the vectors are rows of a matrix, and TensorFlow fuses bias and
    activation into the product.
    """

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Applies it to every vector: [..., width] → [..., units]."""
        rows: Any = tf.reshape(inputs, [-1, inputs.shape[-1]])
        if training and self.use_bias:
            products = ops.matmul(rows, self.kernel)
            # A custom gradient takes a tensor, not a variable.
            bias = tf.cast(tf.convert_to_tensor(self.bias.value), products.dtype)
            rows = self.activation(_add_bias(products, bias))
        else:
            rows = super().call(rows)
        return tf.reshape(rows, [*leading_axes(inputs), self.units])
