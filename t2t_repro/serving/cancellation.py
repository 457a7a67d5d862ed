"""A computation that can be given up while it runs."""

import tensorflow as tf

# TensorFlow has no public name for it.
from tensorflow.python.eager import cancellation

Outputs = dict[str, tf.Tensor]


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
        return self._manager.get_cancelable_function(function)(**inputs)

    def give_up(self) -> None:
        """Ends the call, from another thread."""
        self._manager.start_cancel()
