import numpy as np
import pytest

from t2t_repro.layers.sublayer import SublayerConnection
from tests import reference
from tests.layer_test import randomize, run_layer_test

RNG = np.random.default_rng(0)
X, OUTPUT = RNG.normal(size=(2, 2, 3, 8)).astype(np.float32)


def connection(normalization, dropout=0.0):
    layer = SublayerConnection(dropout, normalization)
    layer.build(X.shape)
    randomize(layer)
    return layer


def test_post_norm_normalises_the_sum():
    layer = connection("post")
    assert layer.prepare(X) is X
    expected = reference.layer_norm(X + OUTPUT, *layer.get_weights())
    np.testing.assert_allclose(layer(X, OUTPUT), expected, atol=1e-5)


def test_pre_norm_normalises_what_the_sublayer_reads():
    layer = connection("pre")
    expected = reference.layer_norm(X, *layer.get_weights())
    np.testing.assert_allclose(layer.prepare(X), expected, atol=1e-5)
    np.testing.assert_allclose(layer(X, OUTPUT), X + OUTPUT, atol=1e-6)


def test_epsilon_is_small():
    """At a variance of 1e-6 the epsilon of 1e-6 halves it; Keras' default would leave nothing."""
    layer = SublayerConnection(0.0, "pre")
    x = np.array([[[1e-3, -1e-3]]], np.float32)
    np.testing.assert_allclose(layer.prepare(x), [[[2**-0.5, -(2**-0.5)]]], atol=1e-3)


def test_dropout_acts_on_the_sublayers_output_alone():
    layer = connection("pre", dropout=0.25)
    dropped = layer(X, np.full_like(X, 3.0), training=True).numpy() - X
    assert set(dropped.round(4).ravel()) == {0.0, 4.0}


@pytest.mark.parametrize("normalization", ["post", "pre"])
def test_sublayer_connection_as_a_layer(normalization):
    if normalization == "post":
        config = {"dropout": 0.0, "normalization": "post"}
        run_layer_test(SublayerConnection, config, (X, OUTPUT), X.shape, 2 * 8)
    else:
        # Its weights are used by `prepare`, not by `call`: the encoder's test covers them.
        assert connection("pre").count_params() == 2 * 8
