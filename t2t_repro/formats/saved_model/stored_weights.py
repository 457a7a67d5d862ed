"""The weights of a SavedModel: float32, bfloat16 or int8."""

import keras
import tensorflow as tf

from t2t_repro.model.transformer import Transformer

PRECISIONS = {"float32": "float32", "bfloat16": "mixed_bfloat16", "int8": "float32"}
"""The precision of the computation, by the way in which weights are stored."""

_LARGEST_INT8 = 127.0


class StoredWeights(tf.Module):
    """A copy of a model's weights, stored once each.

    Vectors (layer norms, biases: a thousandth of all) are always float32. Matrices are float32, or
    rounded to bfloat16, as mixed precision does at every step, or int8: round(w / s) with a float32
    scale s = max |w| / 127 for every output of the matrix. TensorFlow has no int8 product on every
    CPU, so int8 matrices are multiplied out once a request: they save disk and memory, not time.

    Args:
        model: its trainable weights are copied.
        kind: one of `PRECISIONS`.
    """

    def __init__(self, model: Transformer, kind: str) -> None:
        super().__init__()
        self._variables = [_stored(weight, kind) for weight in model.trainable_variables]

    def read(self) -> list[tf.Tensor]:
        """Returns the weights in the model's order; matrices in bfloat16 if stored so."""
        return [_read(parts) for parts in self._variables]


def _stored(weight: keras.Variable, kind: str) -> list[tf.Variable]:
    value = tf.convert_to_tensor(weight)
    if value.shape.rank != 2 or kind == "float32":
        parts = [value]
    elif kind == "bfloat16":
        parts = [tf.cast(value, tf.bfloat16)]
    else:
        # A product sums over the columns of a table, and the rows of a kernel.
        parts = list(quantized(value, axis=1 if weight.name == "table" else 0))
    return [tf.Variable(part, trainable=False, name=weight.path) for part in parts]


def _read(parts: list[tf.Variable]) -> tf.Tensor:
    value = tf.convert_to_tensor(parts[0])
    return value if len(parts) == 1 else tf.cast(value, tf.float32) * parts[1]


def quantized(matrix: tf.Tensor, axis: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Rounds a matrix to 8 bits; the product of the results is close to it.

    Args:
        matrix: [rows, columns] float32.
        axis: the axis along which a scale is shared.

    Returns:
        int8 [rows, columns], and float32 scales, [rows, 1] or [1, columns].
    """
    largest = tf.reduce_max(tf.abs(matrix), axis=axis, keepdims=True)
    scale = tf.where(largest > 0, largest / _LARGEST_INT8, 1.0)
    return tf.cast(tf.round(matrix / scale), tf.int8), scale
