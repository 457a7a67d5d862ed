from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.model import layer_norm
from t2t_repro.model.kernels import gpu
from t2t_repro.model.layer_norm import LayerNorm
from tests.layer_test import output_and_gradients, randomize, run_layer_test

X, DIRECTION = np.random.default_rng(0).normal(3.0, 2.0, (2, 3, 5, 8)).astype(np.float32)


def layers(dtype="float32"):
    """Ours, and Keras's with the same weights."""
    kinds = (LayerNorm, keras.layers.LayerNormalization)
    return [randomize(kind(epsilon=1e-6, dtype=dtype), seed=1, shape=X.shape) for kind in kinds]


def test_layer_norm_as_a_layer():
    run_layer_test(LayerNorm, {"epsilon": 1e-6}, (X,), X.shape, 16)


@pytest.mark.parametrize("program", ["on a CPU", "on a GPU", "plain"])
@pytest.mark.parametrize("jit_compile", [None, True])
def test_values_and_gradients_are_those_of_automatic_differentiation(
    jit_compile, program, monkeypatch
):
    if program == "plain":
        monkeypatch.setattr(layer_norm, "_layer_norm", layer_norm.layer_norm)
    monkeypatch.setattr(gpu, "has_gpu", lambda: program == "on a GPU")
    ours, kerass = layers()
    of = partial(output_and_gradients, direction=DIRECTION)
    with gpu.compiled(bool(jit_compile)):
        found, *gradients = tf.function(lambda: of(ours, X), jit_compile=jit_compile)()
    expected, *others = of(kerass, X)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    for gradient, other in zip(gradients, others, strict=True):
        scale = np.abs(other).max()
        np.testing.assert_allclose(gradient, other, atol=1e-5 * scale)


def test_statistics_are_float32_in_mixed_precision():
    ours, kerass = layers("mixed_bfloat16")
    y, *gradients = output_and_gradients(ours, X, direction=DIRECTION)
    assert y.dtype == tf.bfloat16
    assert all(gradient.dtype == tf.float32 for gradient in gradients)
    difference = tf.cast(y, tf.float32) - tf.cast(kerass(X), tf.float32)
    assert np.abs(difference).max() < 0.05


def test_a_vector_without_variance_becomes_beta():
    ours, _ = layers()
    x = np.full((1, 8), 7.0, np.float32)
    for y in (ours(x), layer_norm.layer_norm(x, ours.gamma, ours.beta, ours.epsilon)):
        np.testing.assert_array_equal(y[0], ours.beta)
