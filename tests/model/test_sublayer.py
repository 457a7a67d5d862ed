import keras
import numpy as np
import pytest

from t2t_repro.model.sublayer import SublayerConnection
from tests import reference
from tests.layer_test import randomize, run_layer_test

RNG = np.random.default_rng(0)
X, OUTPUT = RNG.normal(size=(2, 2, 3, 8)).astype(np.float32)


def connection(normalization, dropout=0.0):
    layer = SublayerConnection(dropout, normalization)
    layer.build(X.shape)
    return randomize(layer)


def read_and_output(layer):
    """What a sub-layer that gives OUTPUT reads, and what comes out around it."""
    read = []

    def sublayer(y):
        read.append(y)
        return OUTPUT

    output = layer(X, sublayer=sublayer)
    return read[0], output


def test_post_norm_normalises_the_sum():
    layer = connection("post")
    read, output = read_and_output(layer)
    np.testing.assert_array_equal(read, X)
    expected = reference.layer_norm(X + OUTPUT, *layer.get_weights())
    np.testing.assert_allclose(output, expected, atol=1e-5)


def test_pre_norm_normalises_what_the_sublayer_reads():
    layer = connection("pre")
    read, output = read_and_output(layer)
    expected = reference.layer_norm(X, *layer.get_weights())
    np.testing.assert_allclose(read, expected, atol=1e-5)
    np.testing.assert_allclose(output, X + OUTPUT, atol=1e-6)


def test_dropout_acts_on_the_sublayers_output_alone():
    layer = connection("pre", dropout=0.25)
    dropped = layer(X, sublayer=lambda y: np.full_like(X, 3.0), training=True).numpy() - X
    assert set(dropped.round(4).ravel()) == {0.0, 4.0}


@pytest.mark.parametrize("normalization", ["post", "pre"])
def test_sublayer_connection_as_a_layer(normalization):
    config = {"dropout": 0.0, "normalization": normalization}
    run_layer_test(Doubling, config, (X,), X.shape, 2 * 8)


@keras.saving.register_keras_serializable()
class Doubling(SublayerConnection):
    """Around a sub-layer without weights."""

    def call(self, x, training=None):  # type: ignore[override]
        return super().call(x, lambda y: y + y, training=training)
