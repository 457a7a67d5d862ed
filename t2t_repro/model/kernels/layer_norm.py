"""Layer norm with its gradient written out.

Replaces the automatic differentiation of `model.layer_norm.layer_norm`. The closed form makes half
as many passes over memory, on which a CPU's time depends.
"""

import functools
from typing import Any

import tensorflow as tf

from t2t_repro.model.kernels import gpu


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Computes γ x̂ + β with x̂ = (x - μ) / sqrt(σ² + ε), in float32 for any dtype of x.

    With g = γ ∂y, and means over the last axis, its gradient is

        ∂x = (g - mean(g) - x̂ mean(g x̂)) / sqrt(σ² + ε),  ∂γ = Σ ∂y x̂,  ∂β = Σ ∂y.

    On a GPU the x̂ of ∂γ is rounded to the dtype of x.

    Args:
        x: [..., d_model].
        gamma: [d_model], float32.
        beta: [d_model], float32.
        epsilon: ε.

    Returns:
        The shape and dtype of `x`.
    """

    @tf.custom_gradient
    def compute(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tuple[tf.Tensor, Any]:
        normalized = functools.partial(_normalized, epsilon=epsilon)
        normal, scale = normalized(x)

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            if gpu.has_gpu():
                d_x, *of_weights = gpu.layer_norm_gradient(x, upstream, gamma, normalized)
            else:
                d_x, *of_weights = _gradient(normal, scale, upstream, gamma)
            return tf.cast(d_x, x.dtype), *of_weights

        return tf.cast(normal * gamma + beta, x.dtype), gradient

    return compute(x, gamma, beta)


def _normalized(x: tf.Tensor, epsilon: float) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes x̂ and 1 / sqrt(σ² + ε) in float32."""
    x = tf.cast(x, tf.float32)
    centred = x - tf.reduce_mean(x, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    scale = tf.math.rsqrt(variance + epsilon)
    return centred * scale, scale


def _gradient(
    normal: tf.Tensor, scale: tf.Tensor, upstream: tf.Tensor, gamma: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Computes ∂x, ∂γ and ∂β in few passes over memory."""
    upstream = tf.cast(upstream, tf.float32)
    of_gamma = upstream * normal
    # The means of g and g x̂ as products: nothing as large as x is written for them.
    share = gamma / tf.cast(tf.size(gamma), gamma.dtype)
    mean, along = (tf.linalg.matvec(v, share)[..., None] for v in (upstream, of_gamma))
    d_x = (upstream * gamma - mean - normal * along) * scale
    # Sums over all but the last axis, several times as fast as reduce_sum.
    d_gamma, d_beta = (
        tf.raw_ops.BiasAddGrad(out_backprop=tf.reshape(v, [-1, v.shape[-1]]))
        for v in (of_gamma, upstream)
    )
    return d_x, d_gamma, d_beta
