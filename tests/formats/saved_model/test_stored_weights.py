"""Weights stored in fewer bits, and what comes back of them."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.formats.saved_model.servable import StoredWeights, quantized
from tests.training.tiny import tiny_model


def stored_bytes(weights):
    return sum(
        variable.dtype.size * variable.shape.num_elements() for variable in weights.variables
    )


def test_a_quantised_matrix_is_within_half_a_step():
    matrix = np.random.default_rng(1).normal(size=(6, 5)).astype(np.float32) * [1, 9, 0.01, 0, 2]
    whole, scale = quantized(tf.constant(matrix, tf.float32), axis=0)
    assert whole.dtype == tf.int8
    assert scale.shape == [1, 5]
    assert np.abs(whole.numpy()).max(axis=0).tolist() == [127, 127, 127, 0, 127]
    difference = np.abs(whole.numpy() * scale.numpy() - matrix)
    assert (difference <= scale.numpy() / 2 * 1.001).all()
    assert quantized(tf.constant(matrix, tf.float32), axis=1)[1].shape == [6, 1]


@pytest.mark.parametrize(("kind", "bytes_each"), [("float32", 4), ("bfloat16", 2), ("int8", 1)])
def test_every_weight_is_stored_once(kind, bytes_each):
    model = tiny_model(d_model=32)
    weights = StoredWeights(model, kind)
    matrices = [weight for weight in model.trainable_variables if len(weight.shape) == 2]
    count, in_matrices = (
        sum(int(np.prod(weight.shape)) for weight in some)
        for some in (model.trainable_variables, matrices)
    )
    scales = 0
    if kind == "int8":
        scales = sum(w.shape[0] if w.name == "table" else w.shape[1] for w in matrices)
    expected = bytes_each * in_matrices + 4 * (count - in_matrices + scales)
    assert stored_bytes(weights) == expected
    for weight, value in zip(model.trainable_variables, weights.read(), strict=True):
        assert value.shape == weight.shape
        close = {"float32": 0.0, "bfloat16": 2**-8, "int8": 1 / 127}[kind]
        largest = np.abs(np.asarray(weight)).max()
        np.testing.assert_allclose(
            tf.cast(value, tf.float32), np.asarray(weight), atol=close * largest
        )
