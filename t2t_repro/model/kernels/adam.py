"""Adam in one pass over each weight.

Replaces the dozen passes of Keras's Adam. An update reads and writes a multiple of the weights for
a batch of any size: on a CPU that is a tenth of a step of the base model.
"""

from collections.abc import Sequence
from typing import NamedTuple

import keras
import tensorflow as tf
from keras import ops

from t2t_repro.model.kernels import gpu


class Scalars(NamedTuple):
    """The numbers that all weights of an update share, float32.

    Attributes:
        rate: the learning rate.
        beta_1_power: β1^t.
        beta_2_power: β2^t.
    """

    rate: tf.Tensor
    beta_1_power: tf.Tensor
    beta_2_power: tf.Tensor


@keras.saving.register_keras_serializable(package="t2t_repro")
class FusedAdam(keras.optimizers.Adam):
    """Keras's Adam without its option `amsgrad`.

    m, v, the index of a weight and the update of all weights have no public names: the private ones
    below are those of Keras's own optimizers.

    m ← m + (1 - β1)(g - m),  v ← v + (1 - β2)(g² - v),
    θ ← θ - rate · sqrt(1 - β2^t) / (1 - β1^t) · m / (sqrt(v) + ε)
    """

    def _backend_update_step(
        self,
        grads: Sequence[tf.Tensor],
        trainable_variables: Sequence[keras.Variable],
        learning_rate: tf.Tensor,
    ) -> None:
        """Updates all weights.

        Keras calls this method. Keras's own version passes the last argument on to `update_step`.
        On a GPU that is the `Scalars`, computed once for all weights, because they take about four
        kernels. On a CPU it is the rate: computing the scalars for each weight is faster if the
        weights are large.
        """
        rate_or_scalars = self._scalars(learning_rate) if gpu.has_gpu() else learning_rate
        super()._backend_update_step(grads, trainable_variables, rate_or_scalars)

    def _scalars(self, learning_rate: tf.Tensor) -> Scalars:
        """Computes the numbers that all weights share."""
        t = ops.cast(self.iterations + 1, "float32")  # Keras counts this update later.
        powers = (ops.power(ops.cast(beta, "float32"), t) for beta in (self.beta_1, self.beta_2))
        return Scalars(ops.cast(learning_rate, "float32"), *powers)

    def update_step(
        self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor | Scalars
    ) -> None:
        """Updates one weight, of any shape, and its m and v, all in place.

        Keras calls this method.

        Args:
            gradient: by the weight, of its shape.
            variable: the weight.
            learning_rate: scalar; or the `Scalars`, already computed.
        """
        is_computed = isinstance(learning_rate, Scalars)
        scalars = learning_rate if is_computed else self._scalars(learning_rate)
        dtype = variable.dtype
        index = self._get_variable_index(variable)
        m, v = self._momentums[index].value, self._velocities[index].value
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=m.handle,
            v=v.handle,
            beta1_power=ops.cast(scalars.beta_1_power, dtype),
            beta2_power=ops.cast(scalars.beta_2_power, dtype),
            lr=ops.cast(scalars.rate, dtype),
            beta1=ops.cast(self.beta_1, dtype),
            beta2=ops.cast(self.beta_2, dtype),
            epsilon=ops.cast(self.epsilon, dtype),
            grad=ops.cast(gradient, dtype),
        )
