"""A learning rate for runs whose end is known."""

from typing import TYPE_CHECKING

from gin import configurable

if TYPE_CHECKING:
    import keras


@configurable
def cosine(
    peak: float, warmup_steps: int, steps: int
) -> "keras.optimizers.schedules.LearningRateSchedule":
    """Returns Keras's `CosineDecay`: the rate rises along a line, then falls along a cosine to 0.

    In gin::

        import cosine
        adam.learning_rate = @cosine()
        cosine.steps = %TrainingSchedule.steps

    Args:
        peak: the highest rate, after `warmup_steps` updates.
        warmup_steps: number of updates in which the rate rises from 0.
        steps: number of updates of the whole run.
    """
    # Mistakes in a gin file are said before TensorFlow is imported.
    import keras

    schedule = keras.optimizers.schedules.CosineDecay
    return schedule(0.0, steps - warmup_steps, warmup_target=peak, warmup_steps=warmup_steps)
