"""The paper's optimizer (section 5.3), and how summed gradients update the weights."""

import gin
import keras
import tensorflow as tf

from t2t_repro.config.values import Positive, Rate, validated
from t2t_repro.errors import UserError
from t2t_repro.model import kernels
from t2t_repro.model.kernels.adam import FusedAdam
from t2t_repro.training.moving_average import MovingAverage

_Adam = kernels.fast(FusedAdam, keras.optimizers.Adam)


@gin.configurable
@validated
def adam(
    learning_rate: Positive | keras.optimizers.schedules.LearningRateSchedule = gin.REQUIRED,
    beta_1: Rate = 0.9,
    beta_2: Rate = 0.98,
    epsilon: Positive = 1e-9,
    clip_norm: Positive | None = None,
) -> keras.optimizers.Adam:
    """Builds Adam with the paper's β1 = 0.9, β2 = 0.98 and ε = 1e-9.

    m ← β1 m + (1 - β1) g,  v ← β2 v + (1 - β2) g²,
    θ ← θ - rate · sqrt(1 - β2^t) / (1 - β1^t) · m / (sqrt(v) + ε)

    Args:
        learning_rate: a schedule, or a constant rate.
        beta_1: the decay of the mean of the gradients.
        beta_2: the decay of the mean of their squares.
        epsilon: added to the root of that mean.
        clip_norm: the largest global norm of the gradient, or None for no limit.

    Returns:
        the optimizer, without variables yet.

    Raises:
        UserError: an argument is out of range.
    """
    if isinstance(learning_rate, int):
        # Keras accepts no other number than a float.
        learning_rate = float(learning_rate)
    return _Adam(
        learning_rate, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon, global_clipnorm=clip_norm
    )


class SummedUpdate:
    """Keras's `Optimizer.apply` for gradients that are already summed over all replicas.

    Keras would clip on every replica and sum afterwards. Here the sum is clipped, by `clipnorm`,
    `clipvalue` or `global_clipnorm`. Weight decay is the optimizer's own.

    Args:
        optimizer: any Keras optimizer, built for the variables in the current strategy's scope.
        variables: those that are updated.
        average: follows every update.

    Raises:
        UserError: the optimizer overrides `apply`.
    """

    def __init__(
        self, optimizer: keras.Optimizer, variables: list[keras.Variable], average: MovingAverage
    ) -> None:
        if type(optimizer).apply is not keras.Optimizer.apply:
            raise UserError(
                f"the optimizer {type(optimizer).__name__} overrides `apply`, expected one that "
                "defines `update_step` alone."
            )
        # Keras's hook for the sum over replicas, which has been taken already.
        optimizer._all_reduce_sum_gradients = list
        self._strategy = tf.distribute.get_strategy()
        self._optimizer = optimizer
        self._variables = variables
        self._average = average
        self._has_been_usable = tf.Variable(True, trainable=False)
        self._is_changing = tf.Variable(False, trainable=False)

    def __call__(self, gradients: list[tf.Tensor], is_usable: tf.Tensor) -> None:
        """Updates the weights; called outside of replicas.

        After the first unusable gradient, nothing is updated any more: the next updates may be
        under way before the host reads the result of this one.

        Args:
            gradients: one per variable, the same on every replica.
            is_usable: whether the loss and the norm of the gradients are finite.
        """
        # In this order, for `stop`: it sees the change that this update begins, or prevents it.
        with tf.control_dependencies([is_usable]):
            begun = self._is_changing.assign(True)
        with tf.control_dependencies(self._strategy.experimental_local_results(begun)):
            has_been_usable = tf.identity(self._has_been_usable) & is_usable
        self._has_been_usable.assign(has_been_usable)

        def update() -> tf.Tensor:
            self._strategy.run(self._apply, args=(gradients,))
            self._average.update(self._optimizer.iterations)
            return tf.constant(True)

        with tf.control_dependencies([tf.cond(has_been_usable, update, lambda: False)]):
            self._is_changing.assign(False)

    def stop(self) -> None:
        """Lets no later update change anything, nor the one whose gradients are computed.

        Another thread calls it. It waits for an update that has begun to change the weights.
        """
        self._has_been_usable.assign(False)
        while self._is_changing.numpy():
            # What the update under way has overwritten.
            self._has_been_usable.assign(False)

    def _apply(self, gradients: list[tf.Tensor]) -> None:
        """Applies the gradients on one replica."""
        self._optimizer.apply(gradients, self._variables)
