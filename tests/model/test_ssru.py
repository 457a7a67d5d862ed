"""The SSRU against a loop over positions."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.model.cache import State
from t2t_repro.model.ssru import SSRU
from tests.layer_test import randomize, run_layer_test

D_MODEL = 6
X = np.random.default_rng(0).normal(size=(3, 9, D_MODEL)).astype(np.float32)


def plain_ssru(layer, x):
    """One sentence, [length, d_model]."""
    w, w_f, b_f = (weight.numpy() for weight in layer.trainable_variables)
    c, output = np.zeros(D_MODEL), []
    for x_t in x:
        f = 1 / (1 + np.exp(-(x_t @ w_f + b_f)))
        c = f * c + (1 - f) * (x_t @ w)
        output.append(np.maximum(c, 0))
    return np.array(output)


def test_each_sentence_is_a_loop_over_its_positions():
    layer = randomize(SSRU(D_MODEL), spread=lambda weight: 1.0, shape=X.shape)
    output = layer(X).numpy()
    np.testing.assert_allclose(output, [plain_ssru(layer, x) for x in X], atol=1e-5)
    assert 0.2 < (output > 0).mean() < 0.8


def test_as_a_layer():
    weights = 2 * D_MODEL**2 + D_MODEL
    run_layer_test(SSRU, {"d_model": D_MODEL}, (X,), X.shape, weights)


@pytest.mark.parametrize("is_stepwise", [False, True])
def test_a_state_of_many_positions_is_not_rounded_to_bfloat16(is_stepwise):
    """With f = sigmoid(6) and v = 1 the state is 1 - f^t; in bfloat16 f would be 0.996."""
    layer, ones = SSRU(D_MODEL, dtype="mixed_bfloat16"), tf.ones([1, 300, D_MODEL], tf.bfloat16)
    layer.build(ones.shape)
    layer.set_weights([np.eye(D_MODEL), np.zeros([D_MODEL] * 2), np.full(D_MODEL, 6.0)])
    if is_stepwise:
        past = State(tf.zeros([1, 1, D_MODEL]))
        for _ in range(300):
            output = layer(ones[:, :1], past=past)
    else:
        output = layer(ones)[:, -1:]
    assert output.dtype == tf.bfloat16
    expected = 1 - (1 / (1 + np.exp(-6.0))) ** 300
    np.testing.assert_allclose(tf.cast(output, tf.float32), expected, atol=0.004)
