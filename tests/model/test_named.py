"""Activations and norms by name: Keras's, and one's own."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.model.kernels.packing import Packed, PackedLayout
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.layer_norm import LayerNorm
from t2t_repro.model.named import named_activation, named_norm
from t2t_repro.model.sublayer import SublayerConnection


@keras.saving.register_keras_serializable(package="test_named")
def squared_relu(x):
    return keras.ops.square(keras.ops.relu(x))


@keras.saving.register_keras_serializable(package="test_named")
class Doubling(keras.layers.Layer):
    def call(self, x):
        return 2.0 * x


def test_activations():
    x = tf.constant([-1.0, 0.5, 3.0])
    np.testing.assert_array_equal(named_activation("relu")(x), np.maximum(x, 0))
    np.testing.assert_array_equal(named_activation("test_named>squared_relu")(x), [0.0, 0.25, 9.0])


def test_norms():
    assert named_norm("LayerNorm") is LayerNorm
    assert named_norm("RMSNormalization") is keras.layers.RMSNormalization
    assert named_norm("test_named>Doubling") is Doubling


def test_a_norm_of_one_s_own_normalises_packed_vectors_too():
    layer = SublayerConnection(0.0, norm="test_named>Doubling")
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


@pytest.mark.parametrize(
    "name", ["relo", "test_named>nothing", "", "t2t_repro>Dense", "glu", "threshold"]
)
def test_no_activation(name):
    with pytest.raises(
        UserError, match=r"LayerConfig.activation is .*, expected a name that Keras"
    ):
        LayerConfig(activation=name)


@pytest.mark.parametrize(
    "name", ["layernorm", "test_named>squared_relu", "t2t_repro>Transformer", "TFSMLayer"]
)
def test_no_norm(name):
    with pytest.raises(UserError, match=r"LayerConfig.norm is .*, expected 'LayerNorm' or 'RMSNor"):
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


def test_a_norm_of_one_s_own_is_given_no_epsilon():
    assert LayerConfig(norm="test_named>Doubling").norm_epsilon == 1e-6
    with pytest.raises(UserError, match=r"norm_epsilon is 1e-05, but the norm 'test_named>Dou"):
        LayerConfig(norm="test_named>Doubling", norm_epsilon=1e-5)
