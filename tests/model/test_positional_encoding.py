import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.model.positional_encoding import SINUSOIDS, PositionalEncoding
from tests.layer_test import run_layer_test
from tests.oracle import VARIANTS, oracle_arrays

X = np.random.default_rng(0).normal(size=(2, 5, 6)).astype(np.float32)


@pytest.mark.parametrize("d_model", [2, 6, 512])
def test_interleaved_is_the_papers_formula(d_model):
    encoding = SINUSOIDS["interleaved"](tf.range(300), d_model)
    angles = np.arange(300)[:, None] / 10000 ** (2 * np.arange(d_model // 2) / d_model)
    np.testing.assert_allclose(encoding[:, 0::2], np.sin(angles), atol=1e-4)
    np.testing.assert_allclose(encoding[:, 1::2], np.cos(angles), atol=1e-4)
    halves = np.concatenate([encoding[:, 0::2], encoding[:, 1::2]], axis=1)
    np.testing.assert_array_equal(SINUSOIDS["halves"](tf.range(300), d_model), halves)


def test_concatenated_of_few_pairs_has_the_ends_of_the_angles():
    two = np.stack([of(np.arange(9) / n) for of in (np.sin, np.cos) for n in (1, 10000)], axis=1)
    np.testing.assert_allclose(SINUSOIDS["concatenated"](tf.range(9), 4), two, atol=1e-6)
    np.testing.assert_allclose(SINUSOIDS["concatenated"](tf.range(9), 2), two[:, ::2], atol=1e-6)


@pytest.mark.parametrize("variant", VARIANTS)
def test_concatenated_is_what_t2t_computed(variant):
    expected = oracle_arrays(variant)["timing_signal_20"]
    np.testing.assert_allclose(SINUSOIDS["concatenated"](tf.range(20), 32), expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["interleaved", "halves", "concatenated", "learned"])
def test_encoding_is_added_at_every_place(kind):
    layer = PositionalEncoding(kind, max_length=9)
    output = layer(X)
    expected = X + layer.encode(tf.range(5)).numpy()
    np.testing.assert_allclose(output, expected, atol=1e-6)
    # One position alone, as the decoder encodes it step by step.
    np.testing.assert_allclose(layer.encode(tf.constant([3])), (output - X)[0, 3:4], atol=1e-6)


def test_learned_positions_are_rows_of_the_table():
    layer = PositionalEncoding("learned", max_length=1000)
    layer.build((None, None, 64))
    assert layer.table.numpy().std() == pytest.approx(64**-0.5, rel=0.02)
    np.testing.assert_array_equal(layer.encode(tf.constant([7, 2])), layer.table.numpy()[[7, 2]])


def test_more_positions_than_were_learned():
    layer = PositionalEncoding("learned", max_length=4)
    with pytest.raises(ValueError, match="x has 5 positions, expected at most max_length=4"):
        layer(X)


def test_positional_encoding_as_a_layer():
    run_layer_test(
        PositionalEncoding, {"kind": "learned", "max_length": 9}, (X,), X.shape, num_weights=9 * 6
    )
