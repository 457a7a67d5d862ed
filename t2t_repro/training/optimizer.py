"""The paper's optimizer (section 5.3)."""

import gin
import keras


@gin.configurable
def adam(
    learning_rate: keras.optimizers.schedules.LearningRateSchedule | float = gin.REQUIRED,
    beta_1: float = 0.9,
    beta_2: float = 0.98,
    epsilon: float = 1e-9,
) -> keras.optimizers.Adam:
    """Builds Keras's Adam with the paper's β1 = 0.9, β2 = 0.98 and ε = 1e-9.

    Args:
        learning_rate: a schedule, or a constant rate.
        beta_1: decay of the mean of the gradients.
        beta_2: decay of the mean of their squares.
        epsilon: added to the root of the latter.

    Returns:
        the optimizer, without variables yet.
    """
    return keras.optimizers.Adam(learning_rate, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon)
