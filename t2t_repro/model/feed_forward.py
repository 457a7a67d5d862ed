"""The position-wise feed-forward network (paper, section 3.3)."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.model import kernels
from t2t_repro.model.dense import Dense, feed_forward_initializer
from t2t_repro.model.dropout import Dropout
from t2t_repro.model.keras_model import YOUR_OWN, SameShape, registered_part
from t2t_repro.model.kernels.gpu import relu as fast_relu
from t2t_repro.model.kernels.packing import positionwise
from t2t_repro.model.settings import Initialization

_relu = kernels.fast(fast_relu, keras.activations.relu)


def named_activation(name: str) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns the activation of a name: a function [..., d_ff] → the same shape.

    The name is Keras's, such as "relu" or "gelu" (not "glu", which halves the last axis), or one
    that your module has registered.

    Raises:
        UserError: the name is neither Keras's nor registered.
    """
    try:
        activation = registered_part(name) or keras.activations.get(name)
    except ValueError as error:
        expected = f"expected a name that Keras knows, such as 'relu' or 'gelu', or {YOUR_OWN}"
        raise UserError(f"LayerConfig.activation is {name!r}, {expected}") from error
    # ReLU has a kernel, which keeps less for its gradient.
    return _relu if name == "relu" else activation


@keras.saving.register_keras_serializable(package="t2t_repro")
class FeedForward(SameShape):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (paper, equation 2).

    `dropout` acts after the activation, 0 in the paper; `LayerConfig` describes the arguments.
    """

    def __init__(
        self,
        d_ff: int,
        dropout: float = 0.0,
        activation: str = "relu",
        initialization: Initialization = "glorot",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.d_ff = d_ff
        self.dropout = dropout
        self.activation = activation
        self.initialization = initialization
        self.inner = self._new_dense(d_ff, "inner", activation=named_activation(activation))
        self.relu_dropout = Dropout(dropout, name="relu_dropout", dtype=self.dtype_policy)

    def _new_dense(self, units: int, name: str, **kwargs: Any) -> Dense:
        """Makes one of the two layers; `kwargs` are those of `Dense`, such as its activation."""
        kernel = feed_forward_initializer(self.initialization)
        return Dense(units, kernel_initializer=kernel, name=name, dtype=self.dtype_policy, **kwargs)

    def build(self, x_shape: tuple) -> None:
        """Creates W_1 [d_model, d_ff], b_1, W_2 [d_ff, d_model] and b_2."""
        self.inner.build(x_shape)
        # The constructor does not know d_model.
        self.outer = self._new_dense(x_shape[-1], "outer")
        self.outer.build((*x_shape[:-1], self.d_ff))
        self.built = True

    @positionwise
    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Applies the network to every position: [batch, length, d_model] → the same shape."""
        inner = self.inner(x, training=training)
        return self.outer(self.relu_dropout(inner, training=training), training=training)
