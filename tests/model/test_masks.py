import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.model.attention import MultiHeadAttention
from t2t_repro.model.encoder import Encoder
from t2t_repro.model.masks import apply_mask, causal_mask, padding_mask


def test_padding_mask_allows_tokens():
    mask = padding_mask(tf.constant([[5, 1, 0], [0, 0, 0]])).numpy()
    assert mask.tolist() == [[[True, True, False]], [[False, False, False]]]


def test_causal_mask_allows_the_past_and_the_present():
    mask = causal_mask(5).numpy()
    assert mask.shape == (1, 5, 5)
    for i in range(5):
        for j in range(5):
            assert mask[0, i, j] == (j <= i)


def test_apply_mask_leaves_what_is_allowed_and_forbids_the_rest():
    scores = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)
    mask = np.random.default_rng(1).random((2, 1, 5)) < 0.5
    masked = apply_mask(tf.constant(scores), tf.constant(mask)).numpy()
    allowed = np.broadcast_to(mask[:, None], scores.shape)
    np.testing.assert_array_equal(masked[allowed], scores[allowed])
    assert (masked[~allowed] == np.float32(-1e9)).all()
    assert apply_mask(scores, None) is scores


@pytest.mark.parametrize("shape", [(3,), (3, 3), (2, 1, 3)])
@pytest.mark.parametrize(
    "layer",
    [MultiHeadAttention(3, 2, 2), Encoder(1, {"d_model": 6, "d_ff": 5, "num_heads": 3})],
    ids=["attention", "encoder"],
)
def test_a_mask_is_what_it_is_broadcast_to(layer, shape):
    """Also with as many heads as positions."""
    rng = np.random.default_rng(2)
    x = tf.constant(rng.normal(size=(2, 3, 6)), tf.float32)
    mask = rng.random(shape) < 0.5
    whole = np.broadcast_to(mask, (2, 3, 3))
    expected = layer(x, attention_mask=tf.constant(whole))
    np.testing.assert_allclose(layer(x, attention_mask=tf.constant(mask)), expected, atol=1e-6)
    assert np.abs(layer(x) - expected).max() > 1e-3
