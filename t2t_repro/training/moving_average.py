"""An exponential moving average (EMA) of the weights, used in place of them where it is asked for.

Not in the paper, which averages checkpoints (section 6.1): `python -m t2t_repro.average`.
"""

import contextlib
from collections.abc import Iterator, Sequence

import keras
import tensorflow as tf


class MovingAverage(tf.Module):
    """The average θ̄ of the weights θ, which follows every update.

    θ̄ ← d θ̄ + (1 - d) θ,  d = min(decay, (1 + t) / (10 + t)) after update t

    The second bound lets the first weights fade soon, as in tf.train.ExponentialMovingAverage.

    Args:
        weights: the model's weights, created in the scope of the current strategy.
        decay: the bound of d, such as 0.9999; without it, nothing is averaged.

    Attributes:
        values: the averages, one per weight; empty without a decay.
    """

    def __init__(self, weights: Sequence[keras.Variable], decay: float | None = None) -> None:
        super().__init__()
        self._decay = decay
        self._weights = [weight.value for weight in weights] if self._decay else []  # tf.Variables.
        self._strategy = tf.distribute.get_strategy()
        with self._strategy.scope():
            self.values = [tf.Variable(weight, trainable=False) for weight in self._weights]

    def restart(self) -> None:
        """Restarts the average from the current weights, e.g. after loading others."""
        for average, weight in zip(self.values, self._weights, strict=True):
            average.assign(weight)

    def update(self, step: tf.Tensor) -> None:
        """Moves the average towards the weights; does nothing without a decay.

        Call it outside of replicas.

        Args:
            step: number of updates, t in the formula: the last one is included.
        """
        if not self._decay:
            return
        t = tf.cast(step, tf.float32)
        share = 1.0 - tf.minimum(self._decay, (1.0 + t) / (10.0 + t))  # 1 - d

        def approach(average: tf.Variable, weight: tf.Tensor, share: tf.Tensor) -> None:
            average.assign_add(tf.cast(share, average.dtype) * (weight - average))

        for average, weight in zip(self.values, self._weights, strict=True):
            self._strategy.extended.update(average, approach, args=(weight, share), group=False)

    @contextlib.contextmanager
    def replacing_weights(self) -> Iterator[None]:
        """Puts the average, if there is one, in place of the weights within a `with` block."""
        original = [tf.identity(weight) for weight in self._weights]
        try:
            for weight, average in zip(self._weights, self.values, strict=True):
                weight.assign(average)
            yield
        finally:
            for weight, value in zip(self._weights, original, strict=True):
                weight.assign(value)
