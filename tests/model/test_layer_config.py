"""Sizes of a layer, and activations and norms by name: Keras's, and your own."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.model.kernels.packing import Packed, PackedLayout
from t2t_repro.model.layer_config import LayerConfig, named_activation
from t2t_repro.model.sublayer import SublayerConnection


def test_round_trip():
    config = LayerConfig(d_model=8, num_heads=2, d_k=3, normalization="pre", relu_dropout=0.3)
    assert LayerConfig.of(config.to_dict()) == config
    assert LayerConfig.of(config) is config
    # Of an earlier version.
    assert LayerConfig.of({**config.to_dict(), "recompute": True}) == config


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"normalization": "none"}, "'none', expected 'post' or 'pre'"),
        ({"d_model": 9, "num_heads": 3}, "9, expected an even number"),
        ({"d_model": 10, "num_heads": 3, "d_k": 4}, "not divisible by num_heads=3"),
    ],
)
def test_sizes_that_do_not_fit(sizes, message):
    with pytest.raises(ValueError, match=message):
        LayerConfig(**sizes)


@keras.saving.register_keras_serializable(package="test_layer_config")
def squared_relu(x):
    return keras.ops.square(keras.ops.relu(x))


@keras.saving.register_keras_serializable(package="test_layer_config")
class Doubling(keras.layers.Layer):
    def call(self, x):
        return 2.0 * x


def test_activations():
    x = tf.constant([-1.0, 0.5, 3.0])
    np.testing.assert_array_equal(named_activation("relu")(x), np.maximum(x, 0))
    np.testing.assert_array_equal(
        named_activation("test_layer_config>squared_relu")(x), [0.0, 0.25, 9.0]
    )


def test_your_own_norm_normalizes_packed_vectors_too():
    layer = SublayerConnection(0.0, norm="test_layer_config>Doubling")
    x = tf.random.stateless_normal([2, 3, 4], [0, 1])
    layer.build(x.shape)
    expected = 2 * (x + x**2)
    np.testing.assert_allclose(layer(x, sublayer=tf.square), expected, rtol=1e-6)
    places = PackedLayout.of(tf.constant([[3, 4, 5], [6, 1, 0], [0, 0, 0]]))
    packed = Packed(tf.gather(tf.reshape(x, [1, 6, 4]), [5, 0, 1, 2, 3, 4], axis=1), places)
    found = layer(packed, sublayer=lambda y: y.map(tf.square))
    np.testing.assert_allclose(found.vectors[0, 1], expected[0, 0], rtol=1e-6)
    again = SublayerConnection.from_config(layer.get_config())
    assert isinstance(again.norm, Doubling)


@pytest.mark.parametrize("name", ["relo", "test_layer_config>nothing", "", "t2t_repro>Dense"])
def test_no_activation(name):
    with pytest.raises(UserError, match=r"LayerConfig\.activation"):
        LayerConfig(activation=name)


@pytest.mark.parametrize("name", ["layernorm", "test_layer_config>squared_relu", "TFSMLayer"])
def test_no_norm(name):
    with pytest.raises(UserError, match=r"LayerConfig\.norm"):
        LayerConfig(norm=name)


@pytest.mark.parametrize("norm", ["LayerNorm", "RMSNormalization"])
def test_epsilon_reaches_every_norm(norm):
    layer = SublayerConnection(0.0, norm=norm, norm_epsilon=0.5)
    layer.build((None, None, 2))
    x = tf.constant([[[3.0, -3.0]]])
    # The mean is zero: both divide by the root of 9 + ε.
    expected = x / np.sqrt(9.5)
    np.testing.assert_allclose(layer(x, sublayer=tf.zeros_like), expected, rtol=1e-6)
    again = SublayerConnection.from_config(layer.get_config())
    assert again.norm.epsilon == 0.5
