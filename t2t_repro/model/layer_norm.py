"""Layer norm (Ba et al., 2016)."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.model import kernels
from t2t_repro.model.keras_model import YOUR_OWN, registered_part
from t2t_repro.model.kernels.gradients import layer_norm as fast_layer_norm
from t2t_repro.model.settings import LAYER_NORM_EPSILON, LayerConfig


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Computes γ (x - μ) / sqrt(σ² + ε) + β in float32, μ and σ² of the last axis of x.

    `kernels.gradients.layer_norm` runs in its place: an edit here has no effect, unless
    T2T_REPRO_PLAIN=1 or the line with `kernels.fast` is changed.

    Args:
        x: [..., d_model], any floating point; the result has its dtype.
        gamma: [d_model], float32.
        beta: [d_model], float32.
        epsilon: ε.
    """
    x32 = tf.cast(x, tf.float32)
    mean = tf.reduce_mean(x32, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(x32 - mean), axis=-1, keepdims=True)
    return tf.cast(gamma * (x32 - mean) / tf.sqrt(variance + epsilon) + beta, x.dtype)


_layer_norm = kernels.fast(fast_layer_norm, layer_norm)


@keras.saving.register_keras_serializable(package="t2t_repro")
class LayerNorm(keras.layers.LayerNormalization):
    """γ (x - μ) / sqrt(σ² + ε) + β, computed in float32."""

    def __init__(self, epsilon: float = LAYER_NORM_EPSILON, **kwargs: Any) -> None:
        super().__init__(epsilon=epsilon, **kwargs)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Normalizes every vector: [..., d_model] → the same shape, in the compute dtype."""
        gamma, beta = (tf.cast(weight, tf.float32) for weight in (self.gamma, self.beta))
        return _layer_norm(tf.cast(inputs, self.compute_dtype), gamma, beta, self.epsilon)


_NORMS = {"LayerNorm": LayerNorm, "RMSNormalization": keras.layers.RMSNormalization}


def named_norm(name: str) -> Callable[..., keras.layers.Layer]:
    """Returns the class of a norm, by name.

    A norm maps vectors [..., d_model] to the same shape. Its constructor takes a Keras layer's
    `name` and `dtype`.

    Raises:
        UserError: the name is neither in `_NORMS` nor that of a registered layer.
    """
    norm: Any = _NORMS.get(name) or registered_part(name)
    if not (isinstance(norm, type) and issubclass(norm, keras.layers.Layer)):
        known = " or ".join(map(repr, _NORMS))
        raise UserError(f"LayerConfig.norm is {name!r}, expected {known}, or {YOUR_OWN}")
    return norm


def new_norm(config: LayerConfig, **kwargs: Any) -> keras.layers.Layer:
    """Makes the norm that `config` names; `kwargs` are its Keras `name` and `dtype`."""
    # Your own norm sets its own ε.
    if config.norm in _NORMS:
        kwargs["epsilon"] = config.norm_epsilon
    norm = named_norm(config.norm)(**kwargs)
    # Keras's RMSNormalization does not declare it, although a norm treats all vectors alike.
    norm.supports_masking = True
    return norm
