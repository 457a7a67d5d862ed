"""Other values in the place of a model's weights."""

from collections.abc import Iterable

import keras
import tensorflow as tf


def with_values(values: Iterable[tuple[keras.Variable, tf.Tensor]]) -> keras.StatelessScope:
    """A scope in which weights have other values, in the dtype that these have.

    Args:
        values: weights, each with the tensor to read in its place.
    """
    scope = keras.StatelessScope()
    for weight, value in values:
        # The constructor's state_mapping would cast values to the weight's own dtype, and layers
        # would cast them back whenever they read them.
        scope.add_update((weight, value))
    return scope
