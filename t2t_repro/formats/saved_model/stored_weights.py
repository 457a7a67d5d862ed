"""A model's weights as a servable keeps them: float32, bfloat16 or int8."""

import keras
import tensorflow as tf

from t2t_repro.model.transformer import Transformer

PRECISIONS = {"float32": "float32", "bfloat16": "mixed_bfloat16", "int8": "float32"}
"""How weights can be stored, and what is computed with them."""

_LARGEST_INT8 = 127.0


class StoredWeights(tf.Module):
    """Weights, once each, and how they become those of the computation.

    Scales and biases of layer norms and biases of projections (a thousandth of all) are float32
    always. Matrices are float32, or rounded to bfloat16, as mixed precision does at every step; or
    int8, the integers round(w / s) with a float32 scale s = max |w| / 127 for every output of the
    matrix. TensorFlow has no product with int8 on every CPU, so these are multiplied out once a
    request: int8 saves disk and memory, not time.

    Args:
        model: whose trainable weights are copied.
        kind: one of `PRECISIONS`.

    Raises:
        ValueError: there is no such kind.
    """

    def __init__(self, model: Transformer, kind: str) -> None:
        super().__init__()
        if kind not in PRECISIONS:
            raise ValueError(f"kind is {kind!r}, expected one of {', '.join(PRECISIONS)}.")
        self._variables = [_stored(weight, kind) for weight in model.trainable_variables]

    def read(self) -> list[tf.Tensor]:
        """The weights in the model's order; matrices in bfloat16 where they are stored so."""
        return [_read(parts) for parts in self._variables]


def _stored(weight: keras.Variable, kind: str) -> list[tf.Variable]:
    value = tf.convert_to_tensor(weight)
    if value.shape.rank != 2 or kind == "float32":
        parts = [value]
    elif kind == "bfloat16":
        parts = [tf.cast(value, tf.bfloat16)]
    else:
        parts = list(quantized(value, axis=_input_axis(weight)))
    return [tf.Variable(part, trainable=False, name=weight.path) for part in parts]


def _read(parts: list[tf.Variable]) -> tf.Tensor:
    value = tf.convert_to_tensor(parts[0])
    return value if len(parts) == 1 else tf.cast(value, tf.float32) * parts[1]


def quantized(matrix: tf.Tensor, axis: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Rounds a matrix to 8 bits; the product of both results is close to it.

    Args:
        matrix: [rows, columns] float32.
        axis: along which a scale is shared.

    Returns:
        int8 [rows, columns], and float32 scales, [rows, 1] or [1, columns].
    """
    largest = tf.reduce_max(tf.abs(matrix), axis=axis, keepdims=True)
    scale = tf.where(largest > 0, largest / _LARGEST_INT8, 1.0)
    return tf.cast(tf.round(matrix / scale), tf.int8), scale


def _input_axis(weight: keras.Variable) -> int:
    """The axis that a product sums over: a table's rows are outputs, a kernel's columns."""
    return 1 if weight.name == "table" else 0
