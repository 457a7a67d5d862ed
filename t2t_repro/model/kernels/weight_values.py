"""Other values in the place of a layer's weights."""

from collections.abc import Iterable

import keras
import tensorflow as tf


def with_values(values: Iterable[tuple[keras.Variable, tf.Tensor]]) -> keras.StatelessScope:
    """A scope in which variables have other values, in the dtype that these have.

    Args:
        values: variables, each with the tensor to read in its place.
    """
    scope = keras.StatelessScope()
    for variable, value in values:
        # The constructor's state_mapping would cast values to the variable's own dtype, and layers
        # would cast them back whenever they read them.
        scope.add_update((variable, value))
    return scope
