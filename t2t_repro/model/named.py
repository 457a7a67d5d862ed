"""Parts of a layer that a configuration names: activations and norms.

A model's configuration is text, so that it can be saved. A part of one's own has a name once it is
registered with Keras, in a module that the gin file imports:

    @keras.saving.register_keras_serializable(package="my_parts")
    def squared_relu(x): ...

makes it "my_parts>squared_relu".
"""

import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.model import kernels
from t2t_repro.model.kernels.relu import relu as fast_relu
from t2t_repro.model.layer_norm import LAYER_NORM_EPSILON, LayerNorm

_relu = kernels.fast(fast_relu, keras.activations.relu)

_NORMS = {"LayerNorm": LayerNorm, "RMSNormalization": keras.layers.RMSNormalization}


def named_activation(name: str) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns an activation, [..., d_ff] → the same shape.

    Args:
        name: that Keras knows, such as "relu" or "gelu", or of a registered function.

    Raises:
        UserError: there is none of that name.
    """
    if callable(found := _registered(name)):
        return found
    if (found := _keras_activation(str(name))) is None:
        raise UserError(
            f"LayerConfig.activation is {name!r}, expected a name that Keras knows, such as "
            f"'relu' or 'gelu', or {_OF_ONES_OWN}"
        )
    return found


# Every layer asks, and TensorFlow keeps what was traced.
@functools.cache
def _keras_activation(name: str) -> Callable[[tf.Tensor], tf.Tensor] | None:
    """One of Keras's, or None if it has none of that name that keeps a vector's length."""
    try:
        found = _relu if name == "relu" else keras.activations.get(name)
        traced = tf.function(found, autograph=False)
        # Some of Keras's need arguments, or halve what they are given.
        keeps_shape = traced.get_concrete_function(tf.TensorSpec([1, 2])).output_shapes == [1, 2]
    except (ValueError, TypeError):
        return None
    return found if keeps_shape else None


def named_norm(name: str) -> Callable[..., keras.layers.Layer]:
    """Returns the class of a layer that normalises vectors, [..., d_model] → the same shape.

    Args:
        name: "LayerNorm", "RMSNormalization" (Keras's), or of a registered class, whose constructor
            takes a Keras layer's `name` and `dtype`.

    Raises:
        UserError: there is none of that name.
    """
    found: Any = _NORMS.get(name) if isinstance(name, str) else None
    found = found or _registered(name)
    if not (isinstance(found, type) and issubclass(found, keras.layers.Layer)):
        raise UserError(
            f"LayerConfig.norm is {name!r}, expected {' or '.join(map(repr, _NORMS))}, or "
            f"{_OF_ONES_OWN}"
        )
    return found


def check_epsilon(kind: str, epsilon: float) -> None:
    """Checks that a norm can be given an ε; a user's own norm sets its own.

    Args:
        kind: its name, see `named_norm`.
        epsilon: ε.

    Raises:
        UserError: there is no norm of that name, or it takes no ε but the default.
    """
    named_norm(kind)
    if kind not in _NORMS and epsilon != LAYER_NORM_EPSILON:
        raise UserError(
            f"LayerConfig.norm_epsilon is {epsilon}, but the norm {kind!r} sets its own ε; "
            f"expected {LAYER_NORM_EPSILON}, the default: set ε in that class."
        )


def new_norm(kind: str, epsilon: float = LAYER_NORM_EPSILON, **kwargs: Any) -> keras.layers.Layer:
    """Makes a norm.

    Args:
        kind: its name, see `named_norm`.
        epsilon: ε, see `check_epsilon`.
        kwargs: a Keras layer's `name` and `dtype`.

    Raises:
        UserError: there is no norm of that name.
    """
    if kind in _NORMS:
        kwargs["epsilon"] = epsilon
    norm = named_norm(kind)(**kwargs)
    # True of what treats every vector alike, though Keras's RMSNormalization does not say so.
    norm.supports_masking = True
    return norm


_OF_ONES_OWN = (
    "'package>name' of what a module registers with keras.saving.register_keras_serializable: "
    "import the module in the gin file."
)


def _registered(name: str) -> Any:
    """What a module has registered under a name; this package's own layers are no parts."""
    if not isinstance(name, str) or name.startswith("t2t_repro>"):
        return None
    return keras.saving.get_registered_object(name)
