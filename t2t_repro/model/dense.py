"""x W + b for vectors in any number of axes; how matrices are initialized."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import ops
from keras.initializers import Initializer, VarianceScaling

from t2t_repro.model import kernels
from t2t_repro.model.kernels.gradients import add_bias
from t2t_repro.model.settings import Initialization

# Used in training; with T2T_REPRO_PLAIN=1 it is TensorFlow's own.
_add_bias = kernels.fast(add_bias, tf.nn.bias_add)


def product(x: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
    """Computes X W for every vector: [..., width] times [width, units] → [..., units]."""
    rows = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), matrix)
    # The number of units is unknown if they are the ids of a shortlist.
    return tf.reshape(rows, [*leading_axes(x), matrix.shape[-1] or tf.shape(matrix)[-1]])


class Projection(NamedTuple):
    """x W + b with tensors W and b, for many products.

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
    """Joins projections, all with biases or none: the units of the first, then of the next."""
    matrices, biases = zip(*projections, strict=True)
    bias = None if biases[0] is None else tf.concat(biases, axis=0)
    return Projection(tf.concat(matrices, axis=1), bias)


@keras.saving.register_keras_serializable(package="t2t_repro")
class Dense(keras.layers.Dense):
    """activation(x W + b), with all vectors in one product.

    If more than the batch axis is unknown, Keras's own computes every axis at run time, some 25
    operations per product. Here vectors are rows of a matrix, and TensorFlow fuses bias and
    activation into the product. In training the bias has the gradient of `add_bias`.
    """

    recorder: Callable[[tf.Tensor], None] | None = None
    """Is called with the inputs; see `attention.recorded_by`."""

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Applies the layer to every vector: [..., width] → [..., units]."""
        if self.recorder is not None:
            self.recorder(inputs)
        rows: Any = tf.reshape(inputs, [-1, inputs.shape[-1]])
        if training and self.use_bias:
            products = ops.matmul(rows, self.kernel)
            # A custom gradient takes a tensor, not a variable.
            bias = tf.cast(tf.convert_to_tensor(self.bias.value), products.dtype)
            outputs = self.activation(_add_bias(products, bias))
        else:
            outputs = super().call(rows)
        return tf.reshape(outputs, [*leading_axes(inputs), self.units])


def leading_axes(x: tf.Tensor) -> list[int | tf.Tensor]:
    """Returns the lengths of all axes but the last, for `tf.reshape`.

    If a single one is unknown, it is -1; of several, each is a scalar tensor.
    """
    lengths = x.shape[:-1].as_list()
    if lengths.count(None) > 1:
        sizes = tf.unstack(tf.shape(x))[:-1]
        lengths = [size if n is None else n for n, size in zip(lengths, sizes, strict=True)]
    return [-1 if n is None else n for n in lengths]


def heads_initializer(initialization: Initialization) -> Initializer:
    """Returns the initializer of W^Q, W^K and W^V [fan_in, fan_out].

    glorot: U(-b, b), b = √(6 / (fan_in + fan_out)).
    fairseq: b / √2, Glorot's for the three side by side.
    """
    # The scale s gives b = √(3 s / n), n the mean of fan_in and fan_out.
    scales = {"glorot": 1.0, "fairseq": 0.5}
    return VarianceScaling(scales[initialization], mode="fan_avg", distribution="uniform")


def feed_forward_initializer(initialization: Initialization) -> Initializer:
    """Returns the initializer of W_1 and W_2 [fan_in, fan_out].

    glorot: as in `heads_initializer`.
    fairseq: U(-b, b), b = 1 / √fan_in, as PyTorch's `nn.Linear`.
    """
    if initialization != "fairseq":
        return heads_initializer(initialization)
    # The scale s gives b = √(3 s / fan_in).
    return VarianceScaling(1 / 3, mode="fan_in", distribution="uniform")
