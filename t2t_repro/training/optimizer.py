"""The paper's optimizer (section 5.3), clipping, and how summed gradients update the weights."""

import gin
import keras
import tensorflow as tf

from t2t_repro import kernels
from t2t_repro.errors import UserError
from t2t_repro.kernels.adam import FusedAdam

_Adam = kernels.fast(FusedAdam, keras.optimizers.Adam)


@gin.configurable
def adam(
    learning_rate: keras.optimizers.schedules.LearningRateSchedule | float = gin.REQUIRED,
    beta_1: float = 0.9,
    beta_2: float = 0.98,
    epsilon: float = 1e-9,
    clip_norm: float | None = None,
) -> keras.optimizers.Adam:
    """Builds Adam with the paper's β1 = 0.9, β2 = 0.98 and ε = 1e-9.

    m ← β1 m + (1 - β1) g,  v ← β2 v + (1 - β2) g²,
    θ ← θ - rate · sqrt(1 - β2^t) / (1 - β1^t) · m / (sqrt(v) + ε)

    Args:
        learning_rate: a schedule, or a constant rate.
        beta_1: decay of the mean of the gradients.
        beta_2: decay of the mean of their squares.
        epsilon: added to the root of the latter.
        clip_norm: the greatest global norm of the gradient, or None for any.

    Returns:
        the optimizer, without variables yet.

    Raises:
        UserError: the learning rate is none.
    """
    if not isinstance(learning_rate, float | int | keras.optimizers.schedules.LearningRateSchedule):
        raise UserError(
            f"adam.learning_rate is {learning_rate!r}, expected a number, or a schedule such as "
            "@TransformerSchedule(), with brackets."
        )
    return _Adam(
        learning_rate, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon, global_clipnorm=clip_norm
    )


class SummedUpdate:
    """Keras's `Optimizer.apply` for gradients that are sums over all replicas already.

    Keras would clip before it sums, each replica by itself. Here what is clipped is the sum.

    Args:
        optimizer: any of Keras's that does nothing but update, and clip by the global norm.
        variables: that it was built for.

    Raises:
        UserError: the optimizer does more, which would go wrong on several replicas.
    """

    def __init__(self, optimizer: keras.Optimizer, variables: list[keras.Variable]) -> None:
        for name in (
            "weight_decay",
            "clipnorm",
            "clipvalue",
            "use_ema",
            "loss_scale_factor",
            "gradient_accumulation_steps",
        ):
            if getattr(optimizer, name, None):
                raise UserError(
                    f"the optimizer has {name}={getattr(optimizer, name)}, expected a plain "
                    "update: leave it out; global_clipnorm clips, and TrainStep.slices accumulates."
                )
        self._optimizer = optimizer
        self._variables = variables
        self._has_been_finite = tf.Variable(True, trainable=False)

    def __call__(
        self, gradients: list[tf.Tensor], norm: tf.Tensor, is_finite: tf.Tensor
    ) -> tf.Tensor:
        """Updates the weights; called in the context of every replica, with the same arguments.

        From the first gradient on that is not finite, nothing is updated: later updates may be
        under way before the host has seen this one's.

        Args:
            gradients: of every variable.
            norm: their global norm.
            is_finite: whether loss and norm are.

        Returns:
            the learning rate of this update.
        """
        if limit := self._optimizer.global_clipnorm:
            gradients, _ = tf.clip_by_global_norm(gradients, limit, use_norm=norm)
        rate = tf.convert_to_tensor(self._optimizer.learning_rate)
        context = tf.distribute.get_replica_context()
        context.merge_call(self._apply_while_finite, args=(gradients, rate, is_finite))
        return rate

    def _apply_while_finite(
        self,
        strategy: tf.distribute.Strategy,
        gradients: list[tf.Tensor],
        rate: tf.Tensor,
        is_finite: tf.Tensor,
    ) -> None:
        is_finite = self._has_been_finite & strategy.experimental_local_results(is_finite)[0]
        self._has_been_finite.assign(is_finite)

        def apply() -> None:
            for variable, gradient in zip(self._variables, gradients, strict=True):
                strategy.extended.update(
                    variable.value,
                    lambda weight, gradient, rate: self._optimizer.update_step(
                        gradient, weight, rate
                    ),
                    args=(gradient, rate),
                    group=False,
                )
            self._optimizer.iterations.assign_add(1)

        tf.cond(is_finite, apply, lambda: None)
