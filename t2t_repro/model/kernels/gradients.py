"""Adding a bias, with a gradient that is summed in float32.

Replaces tf.nn.bias_add, whose gradient TensorFlow sums in bfloat16 where that is the dtype and the
device a CPU. Such a sum stands still: of 8,000 vectors it is off by 10 %, and by 22 % where their
mean is a tenth of their spread. A product with ones is summed in float32, in half the time.
"""

from typing import Any

import tensorflow as tf

from t2t_repro.model.kernels import gpu


def add_bias(x: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Computes x + b, whose gradient by b is Σ_i ∂x_i.

    Args:
        x: [vectors, units].
        bias: [units].

    Returns:
        [vectors, units].
    """
    if gpu.has_gpu() or x.dtype != tf.bfloat16:
        return tf.nn.bias_add(x, bias)
    return _summed_in_float32(x, bias)


@tf.custom_gradient
def _summed_in_float32(x: tf.Tensor, bias: tf.Tensor) -> tuple[tf.Tensor, Any]:
    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        ones = tf.ones([1, tf.shape(upstream)[0]], upstream.dtype)
        return upstream, tf.squeeze(tf.matmul(ones, upstream), axis=0)

    return tf.nn.bias_add(x, bias), gradient
