import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.model.kernels.packing import Packed, PackedLayout
from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.stack import check_names
from t2t_repro.model.sublayer import SublayerConnection
from tests.layer_test import run_layer_test

X = np.random.default_rng(0).normal(size=(2, 3, 8)).astype(np.float32)


def test_dropout_acts_on_the_sublayers_output_alone():
    layer = SublayerConnection(LayerConfig(dropout=0.25, normalization="pre"))
    dropped = layer(X, sublayer=lambda y, training: np.full_like(X, 3.0), training=True).numpy() - X
    assert set(dropped.round(4).ravel()) == {0.0, 4.0}


@pytest.mark.parametrize("normalization", ["post", "pre"])
def test_sublayer_connection_as_a_layer(normalization):
    config = LayerConfig(dropout=0.0, normalization=normalization)
    run_layer_test(Twice, {"config": config}, (X,), X.shape, 2 * 8)


@keras.saving.register_keras_serializable()
class Twice(SublayerConnection):
    """Around a sub-layer without weights."""

    def call(self, x, training=None):  # type: ignore[override]
        return super().call(x, lambda y, training: y + y, training=training)


@keras.saving.register_keras_serializable(package="test_sublayer")
class Doubling(keras.layers.Layer):
    def call(self, x):
        return 2.0 * x


def test_your_own_norm_normalizes_packed_vectors_too():
    layer = SublayerConnection(LayerConfig(dropout=0.0, norm="test_sublayer>Doubling"))
    x = tf.random.stateless_normal([2, 3, 4], [0, 1])
    layer.build(x.shape)
    expected = 2 * (x + x**2)
    found = layer(x, sublayer=lambda y, training: y**2)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    places = PackedLayout.of(tf.constant([[3, 4, 5], [6, 1, 0], [0, 0, 0]]), 7)
    packed = Packed(tf.gather(tf.reshape(x, [1, 6, 4]), [5, 0, 1, 2, 3, 4], axis=1), places)
    found = layer(packed, sublayer=lambda y, training: y.map(tf.square))
    np.testing.assert_allclose(found.vectors[0, 1], expected[0, 0], rtol=1e-6)
    again = SublayerConnection.from_config(layer.get_config())
    assert isinstance(again.norm, Doubling)


@pytest.mark.parametrize(
    ("field", "names"),
    [
        ("norm", ["layernorm", "test_sublayer>nothing", "TFSMLayer"]),
        ("activation", ["relo", "test_sublayer>nothing", "", "t2t_repro>Dense"]),
    ],
)
def test_no_norm_and_no_activation(field, names):
    for name in names:
        with pytest.raises(UserError, match=rf"LayerConfig\.{field}\b"):
            check_names(LayerConfig(**{field: name}))


@pytest.mark.parametrize("norm", ["LayerNorm", "RMSNormalization"])
def test_epsilon_reaches_every_norm(norm):
    layer = SublayerConnection(LayerConfig(dropout=0.0, norm=norm, norm_epsilon=0.5))
    layer.build((None, None, 2))
    x = tf.constant([[[3.0, -3.0]]])
    # The mean is zero: both divide by the root of 9 + ε.
    expected = x / np.sqrt(9.5)
    found = layer(x, sublayer=lambda y, training: 0 * y)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    again = SublayerConnection.from_config(layer.get_config())
    assert again.norm.epsilon == 0.5
