"""The paper's optimizer (section 5.3), and how summed gradients update the weights."""

import keras
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.model import kernels
from t2t_repro.model.kernels.adam import FusedAdam
from t2t_repro.training.moving_average import MovingAverage

Adam = kernels.fast(FusedAdam, keras.optimizers.Adam)
"""The optimizer that the configurable `adam` makes: `kernels.adam` runs in the place of Keras's."""


class SummedUpdate:
    """Keras's `Optimizer.apply` for gradients that are already summed over all replicas.

    Keras would clip on every replica and sum afterwards. Here the sum is clipped, by `clipnorm`,
    `clipvalue` or `global_clipnorm` of the optimizer. Weight decay is the optimizer's own.

    Args:
        optimizer: any Keras optimizer, built for the variables in the current strategy's scope; its
            own sum over replicas is switched off.
        variables: the variables to update.
        average: the moving average of the weights, which follows every update.

    Raises:
        UserError: the optimizer accumulates gradients, scales the loss, averages the weights, or
            has its own `apply`.
    """

    def __init__(
        self, optimizer: keras.Optimizer, variables: list[keras.Variable], average: MovingAverage
    ) -> None:
        _check_supported(optimizer)
        # Keras would sum over replicas again, and no public option prevents it: `list` only copies.
        optimizer._all_reduce_sum_gradients = list
        self._strategy = tf.distribute.get_strategy()
        self._optimizer = optimizer
        self._variables = variables
        self._average = average
        self._all_usable = tf.Variable(True, trainable=False)

    def __call__(self, gradients: list[tf.Tensor], is_usable: tf.Tensor) -> None:
        """Updates the weights.

        Call it outside of replicas. After the first unusable gradient, nothing is updated any more:
        the next updates may be under way before the host reads the result of this one.

        Args:
            gradients: one per variable, the same on every replica.
            is_usable: whether the loss and the norm of the gradients are finite.
        """
        # A tensor, read before the assignment changes the variable.
        all_usable = tf.identity(self._all_usable) & is_usable
        self._all_usable.assign(all_usable)

        def update() -> tf.Tensor:
            self._strategy.run(self._optimizer.apply, args=(gradients, self._variables))
            self._average.update(self._optimizer.iterations)
            return tf.constant(True)  # Both branches of `cond` need a result; nobody reads it.

        tf.cond(all_usable, update, lambda: False)


def _check_supported(optimizer: keras.Optimizer) -> None:
    """Checks that an optimizer leaves to the update what the update does itself.

    Raises:
        UserError: the optimizer accumulates gradients, scales the loss, averages the weights, or
            has its own `apply`.
    """
    names = ("gradient_accumulation_steps", "loss_scale_factor", "use_ema")
    unsupported = ", ".join(name for name in names if getattr(optimizer, name))
    if unsupported or type(optimizer).apply is not keras.Optimizer.apply:
        problem = f"{type(optimizer).__name__} has {unsupported or 'its own `apply`'}"
        fix = "bind TrainStep.micro_batches or MovingAverage.decay"
        raise UserError(f"the optimizer {problem}, expected no more than `update_step`: {fix}.")
