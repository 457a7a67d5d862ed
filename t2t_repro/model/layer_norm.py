"""Layer norm (Ba et al., 2016)."""

from typing import Any

import keras
import tensorflow as tf

from t2t_repro.model import kernels
from t2t_repro.model.kernels.gradients import layer_norm as fast_layer_norm

LAYER_NORM_EPSILON = 1e-6


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Computes γ (x - μ) / sqrt(σ² + ε) + β in float32, μ and σ² of the last axis of x.

    Args:
        x: [..., d_model].
        gamma: [d_model], float32.
        beta: [d_model], float32.
        epsilon: ε.

    Returns:
        The shape and dtype of `x`.
    """
    dtype, x = x.dtype, tf.cast(x, tf.float32)
    mean = tf.reduce_mean(x, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(x - mean), axis=-1, keepdims=True)
    return tf.cast(gamma * (x - mean) / tf.sqrt(variance + epsilon) + beta, dtype)


_layer_norm = kernels.fast(fast_layer_norm, layer_norm)


@keras.saving.register_keras_serializable(package="t2t_repro")
class LayerNorm(keras.layers.LayerNormalization):
    """γ (x - μ) / sqrt(σ² + ε) + β, computed in float32.

    Args:
        epsilon: ε.
    """

    def __init__(self, epsilon: float = LAYER_NORM_EPSILON, **kwargs: Any) -> None:
        super().__init__(epsilon=epsilon, **kwargs)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Normalizes every vector: [..., d_model] → the same shape."""
        x = tf.cast(inputs, self.compute_dtype)
        gamma, beta = (
            tf.cast(tf.convert_to_tensor(w), tf.float32) for w in (self.gamma, self.beta)
        )
        return _layer_norm(x, gamma, beta, self.epsilon)
