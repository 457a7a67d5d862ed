"""Packed is padded without the padding: the same vectors, heads, outputs and gradients."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.model.attention import MultiHeadAttention
from t2t_repro.model.kernels.packing import Packed, PackedLayout, with_empty_row
from t2t_repro.model.loss import CrossEntropy
from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.transformer import Transformer
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


@given(padded_ids(), st.integers(0, 3))
def test_tokens_stand_behind_one_slot_for_all_padding(ids, more):
    ids = with_empty_row(tf.constant(ids)).numpy()
    tokens = np.count_nonzero(ids)
    places = PackedLayout.of(tf.constant(ids), tokens + 1 + more)
    np.testing.assert_array_equal(places.pack_ids(ids)[0], [0, *ids[ids != 0], *[0] * more])
    np.testing.assert_array_equal(places.positions[1 : tokens + 1], np.nonzero(ids)[1])
    assert places.length == ids.shape[1]
    # What holds no token stands where there is padding.
    free = np.delete(places.position_of_slot, np.arange(1, tokens + 1))
    assert len(free) == 1 + more
    assert not ids.ravel()[free].any()


def small_model(layer=None, **options):
    config = LayerConfig(8, 12, HEADS, dropout=0.0, **layer or {})
    return randomize(Transformer(VOCAB, 2, config, **options))


def loss_and_gradients(model, source, target, capacity=None):
    weights = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape() as tape:
        sums = model.loss_sums(source, target, CrossEntropy(0.1), training=True, capacity=capacity)
    return sums, tape.gradient(sums.loss, weights)


MORE = {
    "neighbourhood": 3,
    "positional_encoding": "halves",
    "layer": {"attention_biases": True},
    "logits_bias": True,
}


@pytest.mark.parametrize("options", [{}, MORE, {"layer": {"decoder_self_attention": "ssru"}}])
@settings(max_examples=6)
@given(st.data())
def test_the_model_has_the_same_loss_and_gradients(options, data):
    # The rows that fill a batch up are empty on both sides.
    source = tf.constant(data.draw(padded_ids()))
    empty = [not row.any() for row in source.numpy()]
    target = tf.constant(data.draw(padded_ids(empty)))
    model = small_model(**options)
    expected = loss_and_gradients(model, source, target)
    # As many slots as the tokens of each side need, or a few more.
    slots = [1 + np.count_nonzero(ids) + data.draw(st.integers(0, 3)) for ids in (source, target)]
    found = loss_and_gradients(model, source, target, slots)
    for one, other in zip(*map(tf.nest.flatten, (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_a_graph_that_knows_no_length_has_the_same_loss_and_gradients():
    source, target = np.array([[5, 4, 1, 0], [3, 1, 0, 0]]), np.array([[7, 1, 0], [6, 8, 1]])
    layer = {"decoder_self_attention": "ssru"}
    model = small_model(layer, positional_encoding="learned", max_length=9)
    ids = tf.TensorSpec([None, None], tf.int32)
    step = tf.function(loss_and_gradients).get_concrete_function(
        model, ids, ids, tf.TensorSpec([2], tf.int32)
    )
    batch = [tf.constant(ids, tf.int32) for ids in (source, target)]
    found, expected = step(*batch, tf.constant([6, 7])), loss_and_gradients(model, *batch)
    for one, other in zip(*map(tf.nest.flatten, (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_what_padding_holds_reaches_no_token():
    ids = np.array([[5, 4, 0, 0], [3, 2, 1, 1], [0, 0, 0, 0]])
    attention = MultiHeadAttention(HEADS, DEPTH, DEPTH)
    attention.build((None, None, 8))
    vectors = np.full((1, 9, 8), 7.0, np.float32)
    vectors[0, 1:7] = np.random.default_rng(0).normal(size=(6, 8))
    packed = Packed(tf.constant(vectors), PackedLayout.of(tf.constant(ids), 9))
    with tf.GradientTape() as tape:
        tape.watch(packed.vectors)
        output = attention(packed, attention_mask=tf.constant(ids != 0)[:, None])
        loss = tf.reduce_sum(output.vectors[:, 1:7] ** 2)
    gradient = tape.gradient(loss, packed.vectors).numpy()
    assert not gradient[0, [0, 7, 8]].any()
    assert gradient[0, 1:7].any(axis=1).all()
