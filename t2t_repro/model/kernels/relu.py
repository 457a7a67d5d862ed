"""ReLU with a gradient computed from its output.

Replaces tf.nn.relu on a GPU. XLA would test the input, and so keep it beside the output: [tokens,
d_ff] more for every layer, and no max(0, x) fused into the product before it.
"""

from typing import Any

import tensorflow as tf

from t2t_repro.model.kernels import gpu


def relu(x: tf.Tensor) -> tf.Tensor:
    """Computes max(0, x), whose gradient is 1 where it is not 0.

    Args:
        x: of any shape.

    Returns:
        the shape of `x`.
    """
    return _relu_on_a_gpu(x) if gpu.has_gpu() else tf.nn.relu(x)


@tf.custom_gradient
def _relu_on_a_gpu(x: tf.Tensor) -> tuple[tf.Tensor, Any]:
    y = tf.nn.relu(x)

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        return tf.where(tf.not_equal(y, 0), upstream, tf.zeros_like(upstream))

    return y, gradient
