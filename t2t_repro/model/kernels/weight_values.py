"""Runs a layer with other weight values."""

from collections.abc import Iterable

import keras
import tensorflow as tf


def with_values(values: Iterable[tuple[keras.Variable, tf.Tensor]]) -> keras.StatelessScope:
    """Returns a scope in which variables have other values, in the dtypes of these values.

    Args:
        values: variables, each with its value.
    """
    scope = keras.StatelessScope()
    for variable, value in values:
        # `state_mapping` of the constructor would cast values to the variable's dtype, and layers
        # would cast them back whenever they read them.
        scope.add_update((variable, value))
    return scope
