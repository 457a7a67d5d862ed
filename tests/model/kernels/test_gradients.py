import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.model.dense import Dense
from t2t_repro.model.kernels.gradients import add_bias

UPSTREAM = np.random.default_rng(1).normal(0.1, 1.0, (8000, 24)).astype(np.float32)


def gradients(add, dtype, rows=8000):
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
    np.testing.assert_allclose(by_bias.numpy().astype(np.float64), expected, rtol=2**-8, atol=1e-3)


def test_tensorflow_sums_in_bfloat16_still():
    """Once it does not, this kernel can go."""
    *_, by_bias = gradients(tf.nn.bias_add, "bfloat16")
    expected = tf.cast(UPSTREAM, "bfloat16").numpy().astype(np.float64).sum(axis=0)
    assert np.abs(by_bias.numpy().astype(np.float64) / expected - 1).max() > 0.05


@pytest.mark.parametrize("activation", [None, "relu"])
def test_a_dense_layer_is_the_same_in_training(activation):
    layer = Dense(24, activation=activation, dtype="mixed_bfloat16")
    x = tf.random.stateless_normal([8000, 8], [1, 2])
    layer.build(x.shape)
    np.testing.assert_array_equal(layer(x, training=True), layer(x))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.cast(layer(x, training=True), tf.float32) * UPSTREAM)
    by_bias = tape.gradient(loss, layer.bias.value)
    upstream = tf.cast(UPSTREAM, "bfloat16").numpy().astype(np.float64)
    if activation:
        upstream = np.where(layer(x) > 0, upstream, 0)
    np.testing.assert_allclose(by_bias, upstream.sum(axis=0), rtol=0.02, atol=0.5)
