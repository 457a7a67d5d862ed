"""The paper's optimizer (section 5.3)."""

import gin
import keras
import tensorflow as tf
from keras import ops


@keras.saving.register_keras_serializable(package="t2t_repro")
class FusedAdam(keras.optimizers.Adam):
    """Keras's Adam, with one pass over each weight in place of a dozen.

    m ← m + (1 - β1)(g - m),  v ← v + (1 - β2)(g² - v),
    θ ← θ - rate · sqrt(1 - β2^t) / (1 - β1^t) · m / (sqrt(v) + ε)

    An update moves a multiple of the weights through memory whatever the batch: on a CPU that is a
    tenth of a step of the base model.
    """

    def update_step(
        self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor
    ) -> None:
        """Updates one weight, of any shape, and its m and v; Keras calls it."""
        dtype = variable.dtype
        step = ops.cast(self.iterations + 1, dtype)
        index = self._get_variable_index(variable)
        m, v = self._momentums[index].value, self._velocities[index].value
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=m.handle,
            v=v.handle,
            beta1_power=ops.power(ops.cast(self.beta_1, dtype), step),
            beta2_power=ops.power(ops.cast(self.beta_2, dtype), step),
            lr=ops.cast(learning_rate, dtype),
            beta1=ops.cast(self.beta_1, dtype),
            beta2=ops.cast(self.beta_2, dtype),
            epsilon=ops.cast(self.epsilon, dtype),
            grad=ops.cast(gradient, dtype),
        )


@gin.configurable
def adam(
    learning_rate: keras.optimizers.schedules.LearningRateSchedule | float = gin.REQUIRED,
    beta_1: float = 0.9,
    beta_2: float = 0.98,
    epsilon: float = 1e-9,
) -> keras.optimizers.Adam:
    """Builds Adam with the paper's β1 = 0.9, β2 = 0.98 and ε = 1e-9.

    Args:
        learning_rate: a schedule, or a constant rate.
        beta_1: decay of the mean of the gradients.
        beta_2: decay of the mean of their squares.
        epsilon: added to the root of the latter.

    Returns:
        the optimizer, without variables yet.
    """
    return FusedAdam(learning_rate, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon)
