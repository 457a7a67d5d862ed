"""Packed is padded without the padding: the same vectors, heads, outputs and gradients."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.kernels.packing import Packed
from t2t_repro.layers.attention import MultiHeadAttention, join_heads, split_heads
from t2t_repro.layers.dropout import Dropout
from t2t_repro.layers.feed_forward import FeedForward
from t2t_repro.layers.layer_config import LayerConfig
from t2t_repro.layers.layer_norm import LayerNorm
from t2t_repro.models.transformer import Transformer
from t2t_repro.training.loss import CrossEntropy
from tests.layer_test import randomize

HEADS, DEPTH, VOCAB = 2, 3, 11


@st.composite
def padded_ids(draw, empty=None):
    """[rows, length] ids: sentences of any lengths, full ones and, where `empty`, empty ones."""
    if empty is None:
        empty = draw(st.lists(st.booleans(), min_size=1, max_size=4))
    lengths = [0 if is_empty else draw(st.integers(1, 5)) for is_empty in empty]
    rows = len(lengths)
    width = max(1, max(lengths) + draw(st.integers(0, 2)))
    seed = draw(st.integers(0, 99))
    ids = np.random.default_rng(seed).integers(1, VOCAB, (rows, width))
    return np.where(np.arange(width) < np.array(lengths)[:, None], ids, 0).astype(np.int32)


def vectors_for(ids, width, seed=0):
    return np.random.default_rng(seed).normal(size=(*ids.shape, width)).astype(np.float32)


@settings(deadline=None)
@given(padded_ids())
def test_tokens_stand_behind_one_vector_for_all_padding(ids):
    x = vectors_for(ids, 4)
    packed = Packed.of(tf.constant(x), tf.constant(ids))
    vectors = packed.vectors.numpy()
    one = int((ids == 0).any())
    assert packed.shape == vectors.shape == (1, one + np.count_nonzero(ids), 4)
    np.testing.assert_array_equal(vectors[0, one:], x[ids != 0])
    packed_ids = packed.pack_ids(tf.constant(ids))
    np.testing.assert_array_equal(packed_ids[0], [0] * one + [*ids[ids != 0]])
    assert packed.length == ids.shape[1]


@settings(deadline=None)
@given(padded_ids())
def test_heads_are_those_of_padded_vectors(ids):
    x = vectors_for(ids, HEADS * DEPTH)
    packed = Packed.of(tf.constant(x), tf.constant(ids))
    heads = split_heads(packed, HEADS).numpy()
    expected = split_heads(tf.constant(x), HEADS).numpy()
    assert heads.shape == expected.shape
    is_token = np.broadcast_to((ids != 0)[:, None], heads.shape[:3])
    np.testing.assert_array_equal(heads[is_token], expected[is_token])
    joined = join_heads(tf.constant(expected), packed).vectors.numpy()
    one = int((ids == 0).any())
    np.testing.assert_array_equal(joined[:, one:], packed.vectors[:, one:])
    np.testing.assert_array_equal(join_heads(tf.constant(expected), tf.constant(x)), x)


def test_what_treats_vectors_alike_reads_packed_ones():
    ids = np.array([[5, 4, 0, 0], [3, 2, 1, 1]], np.int32)
    x = tf.constant(vectors_for(ids, 8))
    packed = Packed.of(x, tf.constant(ids))
    for layer in (LayerNorm(), FeedForward(5), Dropout(0.0)):
        expected = layer(x).numpy()[ids != 0]
        np.testing.assert_allclose(layer(packed).vectors[0, 1:], expected, atol=1e-6)
    np.testing.assert_array_equal((packed + packed).vectors, 2 * packed.vectors)


def small_model(**options):
    config = LayerConfig(d_model=8, d_ff=12, num_heads=HEADS, dropout=0.0)
    model = Transformer(VOCAB, 2, config, **options)
    model.build()
    randomize(model)
    return model


def loss_and_gradients(model, source, target, packed):
    weights = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape() as tape:
        sums = model.loss_sums(source, target, CrossEntropy(0.1), training=True, packed=packed)
    return sums, tape.gradient(sums.loss, weights)


@pytest.mark.parametrize("options", [{}, {"neighbourhood": 3}])
@settings(max_examples=15, deadline=None)
@given(st.data())
def test_the_model_has_the_same_loss_and_gradients(options, data):
    # The rows that fill a batch up are empty on both sides.
    source = tf.constant(data.draw(padded_ids()))
    empty = [not row.any() for row in source.numpy()]
    target = tf.constant(data.draw(padded_ids(empty)))
    model = small_model(**options)
    expected = loss_and_gradients(model, source, target, packed=False)
    found = loss_and_gradients(model, source, target, packed=True)
    for one, other in zip(*map(tf.nest.flatten, (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_what_padding_holds_reaches_no_token():
    ids = tf.constant([[5, 4, 0, 0], [3, 2, 1, 1]])
    attention = MultiHeadAttention(HEADS, DEPTH, DEPTH)
    attention.build((None, None, 8))
    packed = Packed.of(tf.constant(vectors_for(ids, 8)), ids)
    with tf.GradientTape() as tape:
        tape.watch(packed.vectors)
        output = attention(packed, attention_mask=(ids != 0)[:, None])
        loss = tf.reduce_sum(output.vectors[:, 1:] ** 2)
    gradient = tape.gradient(loss, packed.vectors).numpy()
    assert not gradient[0, 0].any()
    assert gradient[0, 1:].any(axis=1).all()
