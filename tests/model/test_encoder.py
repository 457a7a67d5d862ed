import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.model.encoder import Encoder, EncoderLayer
from tests import reference
from tests.layer_test import randomize, run_layer_test

D_MODEL, D_FF = 8, 12
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 5, D_MODEL)).astype(np.float32)
MASK = np.array([[[True] * 5], [[True] * 3 + [False] * 2]])
ATTENTION = 4 * D_MODEL**2
FEED_FORWARD = 2 * D_MODEL * D_FF + D_FF + D_MODEL
NORM = 2 * D_MODEL


def sizes(kind):
    return {"d_model": D_MODEL, "d_ff": D_FF, "num_heads": 2, "dropout": 0.0, "normalization": kind}


def plain_encoder_layer(layer, x, allowed):
    """One sentence through one layer, post-norm or pre-norm, in NumPy."""

    def norm(connection, y):
        return reference.layer_norm(y, *connection.get_weights())

    def ffn(y):
        w_1, b_1, w_2, b_2 = layer.feed_forward.get_weights()
        return np.maximum(0, y @ w_1 + b_1) @ w_2 + b_2

    def attend(y):
        return reference.multi_head_attention(layer.self_attention, y, y, allowed)

    if layer.config.normalization == "post":
        x = norm(layer.around_self_attention, x + attend(x))
        return norm(layer.around_feed_forward, x + ffn(x))
    x = x + attend(norm(layer.around_self_attention, x))
    return x + ffn(norm(layer.around_feed_forward, x))


@pytest.mark.parametrize("normalization", ["post", "pre"])
@pytest.mark.parametrize("neighbourhood", [None, 3])
def test_encoder_against_numpy(normalization, neighbourhood):
    encoder = randomize(Encoder(2, sizes(normalization), neighbourhood), shape=X.shape)
    output = encoder(X, attention_mask=tf.constant(MASK))
    far = np.abs(np.subtract.outer(np.arange(5), np.arange(5))) > 1
    for b, length in enumerate((5, 3)):
        allowed = np.broadcast_to(MASK[b], (5, 5)) & ~(far if neighbourhood else np.zeros_like(far))
        x = X[b][:length]
        for layer in encoder.layers:
            x = plain_encoder_layer(layer, x, allowed[:length, :length])
        if encoder.final_norm:
            x = reference.layer_norm(x, *encoder.final_norm.get_weights())
        np.testing.assert_allclose(output[b][:length], x, atol=2e-5)


@pytest.mark.parametrize(
    ("kind", "normalization", "options", "count"),
    [(EncoderLayer, "post", {}, 1), (Encoder, "pre", {"num_layers": 2, "neighbourhood": 3}, 2)],
)
def test_encoder_as_a_layer(kind, normalization, options, count):
    weights = count * (ATTENTION + FEED_FORWARD + 2 * NORM) + (NORM if kind is Encoder else 0)
    config = options | {"config": sizes(normalization)}
    run_layer_test(kind, config, (X,), X.shape, weights, {"attention_mask": MASK})
