import keras
import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.model.feed_forward import FeedForward
from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.stack import check_names
from tests.layer_test import run_layer_test

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)


def test_dropout_acts_after_the_relu():
    layer = FeedForward(1000, dropout=0.5)
    layer.build((None, None, 4))
    layer.inner.bias.assign(np.ones(1000))
    layer.inner.kernel.assign(np.zeros((4, 1000)))
    layer.outer.kernel.assign(np.full((1000, 4), 1e-3))
    np.testing.assert_allclose(layer(X, training=False), np.ones_like(X), atol=1e-5)
    output = layer(X, training=True).numpy()
    assert 0.8 < output.min() < output.max() < 1.2
    # Each position drops other units; its four outputs are the same sum.
    assert len(np.unique(output.round(5))) > 3


def test_feed_forward_as_a_layer():
    run_layer_test(FeedForward, {"d_ff": 7}, (X,), X.shape, 4 * 7 + 7 + 7 * 4 + 4)


@keras.saving.register_keras_serializable(package="test_feed_forward")
def squared_relu(x):
    return keras.ops.square(keras.ops.relu(x))


@pytest.mark.parametrize("name", ["relo", "test_feed_forward>nothing", "", "t2t_repro>Dense"])
def test_no_activation(name):
    with pytest.raises(UserError, match=r"LayerConfig\.activation"):
        check_names(LayerConfig(activation=name))
