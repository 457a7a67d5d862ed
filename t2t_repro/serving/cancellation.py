"""A computation that can be given up while it runs."""

import threading

import tensorflow as tf

# TensorFlow has no public name for it.
from tensorflow.python.eager import cancellation

Outputs = dict[str, tf.Tensor]


class _OfThread(threading.local):
    """What ends the call that a thread makes."""

    manager: cancellation.CancellationManager | None = None


_of_thread = _OfThread()


def _manager_of_thread() -> cancellation.CancellationManager | None:
    return _of_thread.manager


# TensorFlow asks this as a call begins, and keeps one answer for all threads: of two calls at a
# time, one would end by what ends the other.
cancellation.context = _manager_of_thread


class Cancellation:
    """Calls a function of a SavedModel, and ends the call early when it is told to.

    A loop ends at its next turn: a search for translations, within a step of the decoder.
    """

    def __init__(self) -> None:
        self._manager = cancellation.CancellationManager()

    def call(
        self, function: tf.types.experimental.ConcreteFunction, inputs: dict[str, tf.Tensor]
    ) -> Outputs:
        """Computes function(**inputs).

        Raises:
            tf.errors.CancelledError: the call was given up.
        """
        _of_thread.manager = self._manager
        try:
            return function(**inputs)
        finally:
            _of_thread.manager = None

    def give_up(self) -> None:
        """Ends the call, from another thread; one that has not begun, as it begins."""
        self._manager.start_cancel()
