import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.model import dropout
from t2t_repro.model.dropout import Dropout
from t2t_repro.model.kernels import gpu
from t2t_repro.model.kernels.dropout_bits import random_levels, scrambled

ONES = np.ones((200, 501), np.float32)


def test_outside_training_nothing_is_dropped():
    inputs = (np.random.default_rng(0).normal(size=(3, 5, 7)).astype(np.float32),)
    layer = Dropout(0.3)
    np.testing.assert_array_equal(layer(*inputs), inputs[0])
    np.testing.assert_array_equal(Dropout(0.0)(ONES, training=True), ONES)
    again = Dropout.from_config(layer.get_config())
    assert (again.rate, again.name) == (0.3, layer.name)


@pytest.mark.parametrize("draw", [random_levels, dropout.random_levels], ids=["fast", "plain"])
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_as_many_are_dropped_as_the_rate_says_and_the_mean_stays(rate, draw, monkeypatch):
    monkeypatch.setattr(dropout, "_random_levels", draw)
    output = Dropout(rate, seed=1)(ONES, training=True).numpy()
    share = (output == 0).mean()
    # Four standard deviations of 100,200 draws.
    assert share == pytest.approx(rate, abs=4 * np.sqrt(rate * (1 - rate) / ONES.size))
    np.testing.assert_allclose(output[output != 0], 1 / (1 - rate), rtol=1e-4)
    # Neighbours share 32 random bits, but nothing else.
    both = ((output[:, :-1] == 0) & (output[:, 1:] == 0)).mean()
    assert both == pytest.approx(rate**2, abs=0.005)


def test_the_gradient_passes_where_the_value_did():
    x = tf.constant(ONES)
    with tf.GradientTape() as tape:
        tape.watch(x)
        output = Dropout(0.3, seed=1)(x, training=True)
    np.testing.assert_array_equal(tape.gradient(output, x), output)


def test_every_call_draws_anew():
    layer = Dropout(0.3, seed=1)
    assert (layer(ONES, training=True).numpy() != layer(ONES, training=True).numpy()).any()


@pytest.mark.parametrize("shape", [(1,), (3, 5)])
def test_levels_are_a_function_of_the_seed_and_fill_any_shape(shape):
    draw = tf.function(random_levels, jit_compile=True)
    seed, other = tf.constant([1, 2**32 - 1], tf.uint32), tf.constant([1, 2], tf.uint32)
    levels = random_levels(shape, seed).numpy()
    assert levels.shape == shape
    assert levels.dtype == np.uint16
    np.testing.assert_array_equal(random_levels(shape, seed), levels)
    assert (random_levels(shape, other).numpy() != levels).any()
    assert draw(tf.constant(shape), seed).dtype == tf.uint16


@pytest.mark.parametrize("seed", [[0, 0], [1, 2], [2**31 - 2, 5]])
def test_a_scrambled_seed_draws_what_tensorflow_draws_with_the_seed(seed):
    pairs = tf.random.stateless_uniform([500], seed, None, None, tf.uint32)
    expected = pairs.numpy().view(np.uint16)
    others = tf.constant([[5, 6], seed, [7, 8]])
    found = random_levels([10, 100], scrambled(others)[1])
    np.testing.assert_array_equal(tf.reshape(found, [-1]), expected)


@pytest.fixture
def on_a_gpu(monkeypatch):
    monkeypatch.setattr(gpu, "has_gpu", lambda: True)
    with gpu.compiled(True):
        yield


def test_each_element_draws_for_itself_what_is_drawn_at_once(on_a_gpu):
    signature = [tf.TensorSpec([None], tf.int32), tf.TensorSpec([2], tf.int64)]
    one_by_one = tf.function(random_levels, input_signature=signature)
    operations = one_by_one.get_concrete_function().graph.get_operations()
    assert "StatelessRandomUniformFullIntV2" not in {each.type for each in operations}
    number = st.integers(-(2**63), 2**63 - 1)

    @given(st.lists(st.integers(0, 9), min_size=0, max_size=3), st.tuples(number, number))
    @settings(deadline=None)
    def check(shape, seed):
        seed = tf.constant(seed, tf.int64)
        found = one_by_one(tf.constant(shape, tf.int32), seed)
        assert found.dtype == tf.uint16
        with gpu.compiled(False):
            np.testing.assert_array_equal(found, random_levels(tf.constant(shape, tf.int32), seed))

    check()


@pytest.mark.parametrize("shape", [[], [0, 3], [5, 7, 3]])
def test_xla_draws_so_too(shape, on_a_gpu):
    seed = tf.constant([-3, 2**40], tf.int64)
    found = tf.function(random_levels, jit_compile=True)(tf.constant(shape, tf.int32), seed)
    with gpu.compiled(False):
        np.testing.assert_array_equal(found, random_levels(tf.constant(shape, tf.int32), seed))
