"""Layer norm (Ba et al. 2016), with its gradient written out."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops


@keras.saving.register_keras_serializable(package="t2t_repro")
class LayerNorm(keras.layers.LayerNormalization):
    """LayerNorm(x) = γ (x - μ) / sqrt(σ² + ε) + β, μ and σ² those of x's last axis.

    In float32 whatever the computation's dtype. The closed form of the gradient takes about half
    of the passes over memory that automatic differentiation takes, which is what a CPU feels.
    """

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Normalises every vector: [..., d_model] → the same shape."""
        x = ops.cast(inputs, "float32")
        gamma, beta = (
            ops.cast(ops.convert_to_tensor(w), "float32") for w in (self.gamma, self.beta)
        )
        return ops.cast(normalize(x, gamma, beta, self.epsilon), self.compute_dtype)


def normalize(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Computes γ x̂ + β with x̂ = (x - μ) / sqrt(σ² + ε).

    Its gradient is, with g = γ ∂y and means over the last axis,

        ∂x = (g - mean(g) - x̂ mean(g x̂)) / sqrt(σ² + ε),  ∂γ = Σ ∂y x̂,  ∂β = Σ ∂y.

    Args:
        x: [..., d_model].
        gamma: [d_model].
        beta: [d_model].
        epsilon: ε.

    Returns:
        the shape of `x`.
    """

    @tf.custom_gradient
    def compute(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tuple[tf.Tensor, Any]:
        centred = x - tf.reduce_mean(x, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
        scale = tf.math.rsqrt(variance + epsilon)
        normal = centred * scale

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            rows = list(range(upstream.shape.rank - 1))
            of_gamma = upstream * normal
            # The means of g and g x̂, as products: nothing as large as x is written for them.
            share = gamma / tf.cast(tf.size(gamma), gamma.dtype)
            mean, along = (tf.linalg.matvec(v, share)[..., None] for v in (upstream, of_gamma))
            d_x = (upstream * gamma - mean - normal * along) * scale
            return d_x, tf.reduce_sum(of_gamma, axis=rows), tf.reduce_sum(upstream, axis=rows)

        return normal * gamma + beta, gradient

    return compute(x, gamma, beta)
