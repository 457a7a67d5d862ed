"""Activations that are computed again in the backward pass instead of kept (Chen et al. 2016).

Replaces the automatic gradient of a layer, which keeps the output of every operation for the
backward pass. Here only the layer's inputs are kept, and the layer is computed a second time. This
is the one kernel that pays time for memory, so `LayerConfig.recompute` switches it on.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import keras
import tensorflow as tf

from t2t_repro.model.kernels import PLAIN
from t2t_repro.model.kernels.packing import Vectors, map_positions
from t2t_repro.model.kernels.weight_values import with_values

Call = TypeVar("Call", bound=Callable[..., Any])


def recomputable(call: Call) -> Call:
    """Makes a layer's `call` keep only its inputs in training, if `self.config.recompute`."""

    @functools.wraps(call)
    def chosen(self: Any, x: Vectors, *args: Any, **kwargs: Any) -> Vectors:
        call_layer = functools.partial(call, self)
        if PLAIN or not self.config.recompute or not kwargs.get("training"):
            return call_layer(x, *args, **kwargs)
        return recomputed(self, call_layer, x, *args, **kwargs)

    return chosen  # type: ignore[return-value]


def recomputed(
    layer: keras.Layer, call: Callable[..., Vectors], x: Vectors, *args: Any, **kwargs: Any
) -> Vectors:
    """Calls a layer whose backward pass computes it again, with the same dropout.

    Args:
        layer: all variables that `call` reads are its own.
        call: maps vectors to vectors that lie as they do.
        x: [batch, length, width].
        args: of `call`, behind x.
        kwargs: of `call`.

    Returns:
        `call(x, *args, **kwargs)`, with the same gradient by x, by what else is read, and by
        the layer's weights.
    """
    structure = (x, args, kwargs)
    leaves = tf.nest.flatten(structure)
    places = [place for place, leaf in enumerate(leaves) if tf.is_tensor(leaf) and _is_float(leaf)]
    variables = layer.variables
    states = [variable for variable in variables if not _is_float(variable)]

    def run(inputs: Sequence[tf.Tensor], values: Sequence[tf.Tensor]) -> tuple[tf.Tensor, list]:
        """Returns vectors, and the states of random generators behind them."""
        filled = list(leaves)
        for place, tensor in zip(places, inputs, strict=True):
            filled[place] = tensor
            # Keras's implicit mask is no part of a tensor's value.
            tensor._keras_mask = getattr(leaves[place], "_keras_mask", None)
        its_x, its_args, its_kwargs = tf.nest.pack_sequence_as(structure, filled)
        with with_values(zip(variables, values, strict=True)) as scope:
            output = call(its_x, *its_args, **its_kwargs)
        return tf.nest.flatten(output)[0], [scope.get_current_value(state) for state in states]

    @tf.custom_gradient
    def compute(*read: tf.Tensor) -> tuple[tuple[tf.Tensor, list], Any]:
        def gradient(upstream: tf.Tensor, *_: Any) -> list[tf.Tensor | None]:
            # All that is computed follows from inputs and states.
            zero = _zero_after(upstream)
            inputs = [tensor + tf.cast(zero, tensor.dtype) for tensor in read[: len(places)]]
            values = [
                value if _is_float(value) else value + tf.cast(zero, value.dtype)
                for value in read[len(places) :]
            ]
            sources = [tensor for tensor in (*inputs, *values) if _is_float(tensor)]
            with tf.GradientTape() as tape:
                tape.watch(sources)
                vectors = run(inputs, values)[0]
            gradients = iter(tape.gradient(vectors, sources, upstream))
            return [next(gradients) if _is_float(tensor) else None for tensor in read]

        # No tape records what is made of constants.
        constants = [tf.stop_gradient(tensor) for tensor in read]
        return run(constants[: len(places)], constants[len(places) :]), gradient

    # Weights are read like the inputs: a custom gradient is one by its arguments.
    weights = [tf.convert_to_tensor(variable.value) for variable in variables]
    vectors, after = compute(*(leaves[place] for place in places), *weights)
    for state, value in zip(states, after, strict=True):
        state.assign(value)
    return map_positions(lambda _: vectors, x)


def _zero_after(tensor: tf.Tensor) -> tf.Tensor:
    """Returns a 0 that depends on a tensor; 1 where that begins with NaN.

    Adding it changes no value, but a compiler cannot know that. Otherwise XLA would see that the
    layer has been computed already, and keep that; TensorFlow would run both computations at once.
    """
    return tf.cast(tf.reduce_any(tf.math.is_nan(tf.reshape(tensor, [-1])[:1])), tf.int32)


def _is_float(tensor: tf.Tensor | keras.Variable) -> bool:
    return tf.as_dtype(tensor.dtype).is_floating
