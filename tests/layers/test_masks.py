import numpy as np
import tensorflow as tf

from t2t_repro.layers.masks import apply_mask, causal_mask, padding_mask


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
