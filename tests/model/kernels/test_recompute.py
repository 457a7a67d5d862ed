"""A layer that is computed again: the same result, dropout included, and less memory."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.data.batch_shapes import capacity_needed
from t2t_repro.model.encoder import Encoder
from t2t_repro.model.kernels import recompute
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.loss import CrossEntropy
from t2t_repro.model.transformer import Transformer
from t2t_repro.training.gradients import MicroBatchGradients
from tests.buffers import xla_bytes
from tests.layer_test import randomize

VOCAB = 23
MIXED = {"dtype": "mixed_bfloat16"}
RATES: dict[str, Any] = {"dropout": 0.2, "attention_dropout": 0.2, "relu_dropout": 0.2}
RNG = np.random.default_rng(0)
ROWS, LENGTH, WIDTH = 64, 64, 32
SOURCE = RNG.integers(2, VOCAB, (3, 6)).astype(np.int32)
TARGET = RNG.integers(2, VOCAB, (3, 5)).astype(np.int32)
SOURCE[1, 3:], TARGET[1, 2:], TARGET[2, 4:] = 0, 0, 0


def small_model(recompute, num_layers=2, normalization="post", **options):
    config = LayerConfig(16, 24, 2, **RATES, normalization=normalization, recompute=recompute)
    keras.utils.set_random_seed(3)
    model = Transformer(VOCAB, num_layers, config, **options)
    model.build()
    randomize(model)
    return model


def of_slice(model, jit_compile):
    micro_batches = MicroBatchGradients(model, CrossEntropy(), seed=5, jit_compile=jit_compile)
    capacity = tf.constant(capacity_needed(SOURCE[None], TARGET[None]))
    batch = tf.constant(SOURCE[None]), tf.constant(TARGET[None])
    return micro_batches(tf.constant(4, tf.int64), 0, *batch, capacity, tf.constant(1.0))


def difference(ours, theirs):
    """Of gradients, as a share of their norm."""
    both = ([tf.reshape(gradient, [-1]) for gradient in gradients] for gradients in (ours, theirs))
    one, other = (tf.concat(gradients, 0) for gradients in both)
    return float(tf.norm(one - other) / tf.norm(other))


@pytest.mark.parametrize(
    ("options", "jit_compile"),
    [
        ({}, False),
        ({"neighbourhood": 3, "normalization": "pre"}, False),
        (MIXED, False),
        ({"num_layers": 1}, True),
        ({"num_layers": 1, **MIXED}, True),
    ],
)
def test_a_slice_has_the_same_loss_and_gradients(options, jit_compile):
    kept, again = (of_slice(small_model(is_on, **options), jit_compile) for is_on in (False, True))
    # In bfloat16 what TensorFlow fuses is rounded less often, and sums depend on their order.
    is_mixed = "dtype" in options
    np.testing.assert_allclose(again[0].loss, kept[0].loss, rtol=5e-3 if is_mixed else 1e-5)
    assert difference(again[1], kept[1]) < (0.06 if is_mixed else 1e-5)
    assert not any(tf.reduce_all(gradient == 0) for gradient in again[1])


@pytest.mark.parametrize("options", [{}, MIXED, {"trainable": False}])
def test_keras_may_call_the_model_with_padding_and_variables(options):
    def steps(model):
        """Two calls: the second draws other dropout than the first."""
        for _ in range(2):
            with tf.GradientTape() as tape:
                table = model.embedding.table.value
                tape.watch(table)
                loss = tf.reduce_sum(tf.cast(model((SOURCE, TARGET), training=True), tf.float32))
            weights = [
                table,
                *(v.value for v in model.trainable_variables if v is not model.embedding.table),
            ]
            yield loss, tape.gradient(loss, weights)

    kept, again = (list(steps(small_model(is_on, **options))) for is_on in (False, True))
    assert not np.allclose(kept[0][0], kept[1][0])
    for one, other in zip(again, kept, strict=True):
        np.testing.assert_allclose(one[0], other[0], rtol=5e-3 if "dtype" in options else 1e-5)
        assert difference(one[1], other[1]) < (0.06 if "dtype" in options else 1e-5)


def test_a_layer_keeps_its_inputs_alone():
    """XLA neither finds the second computation in the first, nor computes it too soon."""

    def bytes_of(layers, recompute):
        config = LayerConfig(WIDTH, 4 * WIDTH, 2, **RATES, recompute=recompute)
        encoder = Encoder(layers, config)
        encoder.build((None, None, WIDTH))
        variables = encoder.variables

        def gradient(x, values):
            with keras.StatelessScope(zip(variables, values, strict=True)):
                return tf.gradients(encoder(x, attention_mask=None, training=True), [x])

        x = tf.zeros([ROWS, LENGTH, WIDTH])
        return xla_bytes(gradient, x, [tf.convert_to_tensor(v.value) for v in variables])

    of_vectors, of_weights = 4 * ROWS * LENGTH * WIDTH, 4 * ROWS * 2 * LENGTH**2
    kept, again = (bytes_of(3, is_on) - bytes_of(2, is_on) for is_on in (False, True))
    assert kept > 6 * of_vectors + of_weights
    assert again < 1.5 * of_vectors


def test_it_does_nothing_outside_of_training(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("recomputed")

    model = small_model(True)
    expected = small_model(False)((SOURCE, TARGET))
    monkeypatch.setattr(recompute, "recomputed", refuse)
    np.testing.assert_array_equal(model((SOURCE, TARGET), training=False), expected)
    np.testing.assert_array_equal(model((SOURCE, TARGET)), expected)
    with pytest.raises(AssertionError, match="recomputed"):
        model((SOURCE, TARGET), training=True)
