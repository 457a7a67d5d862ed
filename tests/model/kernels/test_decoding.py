import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.decoding import beam_search
from t2t_repro.model import cache
from t2t_repro.model.kernels import decoding
from t2t_repro.model.kernels.decoding import best_extensions


@settings(max_examples=60)
@given(
    vocab=st.sampled_from([2, 7, 96, 512, 1000, 1009, 4000]),
    beam=st.integers(1, 5),
    levels=st.sampled_from([2, 20, 10**6]),
    seed=st.integers(0, 2**32 - 1),
    forbidden=st.sampled_from([(), (0,), (0, 2, 5, 6, 700)]),
    normalized=st.booleans(),
)
def test_they_are_those_of_a_sort(vocab, beam, levels, seed, forbidden, normalized):
    """Ties included: few levels give many. An id beyond the vocabulary is none of it."""
    generator = np.random.default_rng(seed)
    logits = generator.integers(0, levels, (2, beam, vocab)).astype(np.float32) * 20 / levels
    log_probs = generator.normal(size=(2, beam)).astype(np.float32)
    log_probs[0, 1:] = -np.inf  # as at the first step
    k = 2 * beam if beam > 1 else 1
    found, expected = (
        search(tf.constant(log_probs), tf.constant(logits), k, forbidden, normalized)
        for search in (best_extensions, beam_search.best_extensions)
    )
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-5)
    assert found[1].dtype == tf.int32
    if levels < 10**6 or vocab < 100:  # Among thousands, rounding may make equal what was not.
        np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("jit_compile", [None, True])
def test_in_a_graph_with_unknown_rows(jit_compile):
    vocab = 1009
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(3, 2, vocab)).astype(np.float32)
    logits[0, 0, :1000] = -np.inf
    # As where a beginning is given: the only id is the last but one.
    logits[1, :, : vocab - 2] = -np.inf
    logits[1, :, vocab - 1] = -np.inf
    log_probs = np.zeros((3, 2), np.float32)
    signature = [tf.TensorSpec([None, 2]), tf.TensorSpec([None, 2, vocab])]
    graph = tf.function(
        lambda log_probs, logits: best_extensions(log_probs, logits, 5),
        input_signature=signature,
        jit_compile=jit_compile,
    )
    found = graph(log_probs, logits)
    expected = beam_search.best_extensions(tf.constant(log_probs), tf.constant(logits), 5)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
    np.testing.assert_array_equal(found[1], expected[1])


def test_wide_beams_never_find_what_stands_behind_the_last_id():
    beam, vocab = 1100, 1009
    logits = np.full((1, beam, vocab), -np.inf, np.float32)
    logits[:, :, vocab - 1] = 0
    log_probs = -tf.range(float(beam))[None]
    found = best_extensions(log_probs, tf.constant(logits), 2 * beam)
    expected = beam_search.best_extensions(log_probs, tf.constant(logits), 2 * beam)
    np.testing.assert_array_equal(found[1], expected[1])


@settings(max_examples=30)
@given(rows=st.integers(1, 6), depth=st.integers(1, 3), data=st.data())
def test_rows_are_written_as_a_copy_would_have_them(rows, depth, data):
    places = data.draw(st.lists(st.integers(0, rows - 1), unique=True))
    before = np.arange(rows * depth, dtype=np.float32).reshape(rows, depth)
    new = -np.ones((len(places), depth), np.float32)
    arguments = tf.constant(places, tf.int32), tf.constant(new)
    copied = cache.write_rows(tf.constant(before), *arguments)
    zeros = decoding.writable_zeros([rows, depth], tf.float32)
    assert not zeros.numpy().any()
    in_place = decoding.write_rows(zeros + before, *arguments)
    np.testing.assert_array_equal(in_place, copied)
    before[places] = -1
    np.testing.assert_array_equal(copied, before)
