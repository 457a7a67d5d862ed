"""A bias, a look-up and a softmax have the values and gradients of their formulas."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.model.attention import softmax as softmax_formula
from t2t_repro.model.kernels.gradients import add_bias, softmax
from t2t_repro.model.masks import apply_mask
from tests.buffers import xla_bytes

UPSTREAM = np.random.default_rng(1).normal(0.1, 1.0, (8000, 24)).astype(np.float32)


def gradients(add, dtype, rows):
    x, bias = tf.zeros([rows, 24], dtype), tf.cast(tf.range(24), dtype)
    upstream = tf.cast(UPSTREAM[:rows], dtype)
    with tf.GradientTape() as tape:
        tape.watch([x, bias])
        y = add(x, bias)
    return y, *tape.gradient(y, [x, bias], upstream)


@pytest.mark.parametrize("rows", [0, 1, 8000])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_value_and_gradients_are_those_of_a_sum(dtype, rows):
    y, by_x, by_bias = gradients(add_bias, dtype, rows)
    upstream = tf.cast(UPSTREAM[:rows], dtype)
    np.testing.assert_array_equal(y, np.tile(np.arange(24), (rows, 1)))
    np.testing.assert_array_equal(by_x, upstream)
    assert y.dtype == by_x.dtype == by_bias.dtype == dtype
    expected = upstream.numpy().astype(np.float64).sum(axis=0)
    # A product in bfloat16 is rounded or, on a processor without its instructions, cut off.
    np.testing.assert_allclose(by_bias.numpy().astype(np.float64), expected, rtol=2**-7, atol=1e-3)


RNG = np.random.default_rng(0)
ROWS, HEADS, LENGTH, DEPTH = 2, 3, 64, 4


def value_and_gradient(function, scores, upstream):
    with tf.GradientTape() as tape:
        tape.watch(scores)
        weights = function(scores)
    return weights, tape.gradient(weights, scores, upstream)


@pytest.mark.parametrize("jit_compile", [None, True])
@pytest.mark.parametrize(("dtype", "atol"), [("float32", 1e-6), ("bfloat16", 4e-3)])
def test_values_and_gradients_are_those_of_automatic_differentiation(dtype, atol, jit_compile):
    shape = (ROWS, HEADS, 5, 7)
    mask = RNG.random((ROWS, 5, 7)) < 0.6
    mask[0, 1] = False  # a query with nothing to see
    scores = apply_mask(tf.cast(RNG.normal(0, 3, shape), dtype), tf.constant(mask))
    upstream = tf.cast(RNG.normal(size=shape), dtype)

    @tf.function(jit_compile=jit_compile, autograph=False)
    def compute():
        return [
            value_and_gradient(function, scores, upstream)
            for function in (softmax, softmax_formula)
        ]

    (weights, gradient), (expected, its_gradient) = compute()
    assert weights.dtype == gradient.dtype == scores.dtype
    np.testing.assert_array_equal(tf.cast(weights, "float32"), tf.cast(expected, "float32"))
    np.testing.assert_allclose(
        tf.cast(gradient, "float32"), tf.cast(its_gradient, "float32"), atol=atol
    )


def test_no_weights_are_kept_in_float32():
    """Four attentions, one behind the other: each keeps its weights until its gradient is asked."""

    def gradient_with(function):
        def gradient(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = x
                for _ in range(4):
                    y = tf.matmul(function(tf.matmul(y, y, transpose_b=True)), y)
            return tape.gradient(y, x)

        return gradient

    x = tf.cast(RNG.normal(size=(ROWS, HEADS, LENGTH, DEPTH)), "bfloat16")
    kept, otherwise = (
        xla_bytes(gradient_with(function), x) for function in (softmax, softmax_formula)
    )
    of_one = ROWS * HEADS * LENGTH * LENGTH
    # Of three of them two bytes a weight are saved; the fourth is on its way back.
    assert kept <= otherwise - 3 * 2 * of_one
