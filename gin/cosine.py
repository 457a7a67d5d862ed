"""A cosine schedule of the learning rate, for runs with a known number of updates."""

from typing import TYPE_CHECKING

from t2t_repro.config.gin_files import value_of
from t2t_repro.config.values import Count, Positive, configurable
from t2t_repro.errors import UserError

if TYPE_CHECKING:
    import keras


@configurable()
def cosine(
    peak: Positive, warmup_steps: Count, steps: Count | None = None
) -> "keras.optimizers.schedules.LearningRateSchedule":
    """Returns Keras's `CosineDecay`: the rate rises linearly, then falls along a cosine to 0.

    In gin::

        import cosine
        adam.learning_rate = @cosine()

    Args:
        peak: the highest rate, after `warmup_steps` updates.
        warmup_steps: number of updates in which the rate rises from 0.
        steps: the update after which it is 0; by default `TrainingSchedule.steps`, as bound.

    Raises:
        UserError: there are no more steps than `warmup_steps`, or none are bound.
    """
    # Not above: mistakes in a gin file are reported before TensorFlow is imported.
    import keras

    steps = steps or value_of("TrainingSchedule", "steps")
    if steps is None or steps <= warmup_steps:
        problem = f"cosine: received {steps} steps, expected more than warmup_steps={warmup_steps}"
        raise UserError(f"{problem}: set TrainingSchedule.steps or cosine.steps")
    schedule = keras.optimizers.schedules.CosineDecay
    return schedule(0.0, steps - warmup_steps, warmup_target=peak, warmup_steps=warmup_steps)
