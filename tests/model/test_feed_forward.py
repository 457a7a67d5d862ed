import numpy as np

from t2t_repro.model.feed_forward import FeedForward
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
