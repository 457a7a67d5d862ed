"""Learning rate: linear warm-up, then the inverse square root of the step (paper, equation 3)."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from t2t_repro.config.values import Count, Positive, validated


@keras.saving.register_keras_serializable(package="t2t_repro")
@validated
class InverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """rate = peak · min(step / warmup_steps, sqrt(warmup_steps / step)), step = 1, 2, ...

    Keras counts updates from 0: its first update is step 1 of the paper.

    Args:
        peak: the rate at step = warmup_steps, the highest.
        warmup_steps: number of steps in which the rate rises.
    """

    def __init__(self, peak: Positive, warmup_steps: Count = 4000) -> None:
        self.peak = peak
        self.warmup_steps = warmup_steps

    def __call__(self, step: int | tf.Tensor) -> tf.Tensor:
        """Returns the rate of the update after `step` updates, a float32 scalar."""
        number = ops.cast(step, "float32") + 1.0  # Of this update, counted from 1.
        warmup = float(self.warmup_steps)
        return self.peak * ops.minimum(number / warmup, ops.sqrt(warmup / number))

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {"peak": self.peak, "warmup_steps": self.warmup_steps}


@keras.saving.register_keras_serializable(package="t2t_repro")
@validated
class TransformerSchedule(InverseSquareRoot):
    """rate = constant · d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5).

    The paper's equation 3 with constant 1. T2T's transformer_base_v3 has constant 2 and 8,000
    warm-up steps, and counts its steps from 0.

    Args:
        d_model: the model's width.
        warmup_steps: number of steps in which the rate rises; 4,000 in the paper.
        constant: a factor on the whole.
    """

    def __init__(
        self, d_model: Count, warmup_steps: Count = 4000, constant: Positive = 1.0
    ) -> None:
        # The peak, at step = warmup_steps: the two terms of the minimum are equal there.
        super().__init__(constant * (d_model * warmup_steps) ** -0.5, warmup_steps)
        self.d_model = d_model
        self.constant = constant

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {name: getattr(self, name) for name in ("d_model", "warmup_steps", "constant")}
