"""The states of sentences in rows one after the other, and their gradients."""

from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.model.kernels.recurrence import doubled_recurrence
from t2t_repro.model.ssru import recurrence

LENGTHS = [1, 7, 2, 17, 8, 1]
IS_FIRST = np.isin(np.arange(sum(LENGTHS)), np.cumsum([0, *LENGTHS]))[:, None]


def operands(dtype=np.float32, width=3):
    """Gates of 1e-9 to 1 - 1e-9, and values."""
    rng = np.random.default_rng(0)
    gates, values = rng.normal(0, [[[6]], [[1]]], (2, len(IS_FIRST), width)).astype(dtype)
    return tf.sigmoid(gates), tf.constant(values)


def states(function, factors, terms):
    zero = tf.zeros([], factors.dtype)
    return function(tf.where(IS_FIRST, zero, factors), terms, tf.constant(max(LENGTHS)))


def states_and_gradients(function, factors, terms):
    with tf.GradientTape() as tape:
        tape.watch([factors, terms])
        found = states(function, factors, terms)
        loss = tf.reduce_sum(found * tf.sin(tf.range(found.shape[0], dtype=tf.float32))[:, None])
    return found, *tape.gradient(loss, [factors, terms])


@pytest.mark.parametrize("jit_compile", [False, True])
def test_it_is_the_formula_with_its_gradient(jit_compile):
    program = tf.function(states_and_gradients, jit_compile=jit_compile)
    found = program(doubled_recurrence, *operands())
    for one, other in zip(found, states_and_gradients(recurrence, *operands()), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_the_gradient_is_that_of_finite_differences():
    program = tf.function(partial(states, doubled_recurrence))
    pairs = tf.test.compute_gradient(program, operands(np.float64, 1))
    for exact, estimated in zip(*pairs, strict=True):
        np.testing.assert_allclose(exact, estimated, atol=1e-6)
