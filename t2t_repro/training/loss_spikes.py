"""A warning where the loss jumps out of what it has been of late."""

import statistics
from collections import deque

from absl import logging

_WINDOW = 100
_DEVIATIONS = 10.0
# Where a task is learnt nearly by heart, one odd batch lies many deviations above the others.
_LEAST_NATS = 1.0
# A median absolute deviation is so much of a normal distribution's standard deviation.
_MAD_OF_NORMAL = 0.6745


class LossSpikes:
    """Watches the loss of every update; robust against the spikes that it looks for.

    A loss is a spike if it lies ten standard deviations, estimated by the median absolute
    deviation, and a nat above the median of the last hundred. Of several in a row the first is
    reported.
    """

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=_WINDOW)
        self._in_spike = False

    def observe(self, step: int, loss: float) -> bool:
        """Takes the loss of an update; warns, and says so, where a spike begins."""
        was_in_spike, self._in_spike = self._in_spike, self._is_spike(loss)
        self._recent.append(loss)
        begins = self._in_spike and not was_in_spike
        if begins:
            logging.warning(
                f"step {step}: the loss jumped to {loss:.3f} from about "
                f"{statistics.median(self._recent):.3f}: if it does not come back, lower the "
                "learning rate or bind adam.clip_norm"
            )
        return begins

    def _is_spike(self, loss: float) -> bool:
        if len(self._recent) < _WINDOW:
            return False
        median = statistics.median(self._recent)
        deviation = statistics.median(abs(other - median) for other in self._recent)
        return loss - median > max(_DEVIATIONS * deviation / _MAD_OF_NORMAL, _LEAST_NATS)
