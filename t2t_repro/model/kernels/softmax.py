"""A softmax computed in float32 and kept for the backward pass in the dtype of the scores.

Replaces the automatic gradient of `layers.attention.softmax`. In mixed precision that keeps float32
beside bfloat16: three times as much of the [length, length] weights, which fill the memory where
sentences are long.
"""

from typing import Any

import tensorflow as tf


@tf.custom_gradient
def softmax(scores: tf.Tensor) -> tuple[tf.Tensor, Any]:
    """Computes e^z / Σ e^z in float32, z the scores of a query.

    With w what it gives, and g the gradient by it, the gradient by the scores is w (g - Σ w g).

    Args:
        scores: [..., key_length], of any floating-point dtype.

    Returns:
        the shape and dtype of `scores`.
    """
    weights = tf.cast(tf.nn.softmax(tf.cast(scores, tf.float32)), scores.dtype)

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        # TensorFlow would cast as soon as there are weights, and keep both.
        with tf.control_dependencies([upstream]):
            w = tf.cast(weights, tf.float32)
        g = tf.cast(upstream, tf.float32)
        along = tf.reduce_sum(w * g, axis=-1, keepdims=True)
        return tf.cast(w * (g - along), scores.dtype)

    return weights, gradient
