"""Attention to a neighbourhood against attention to all positions under an n × n mask."""

from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.model.attention import MultiHeadAttention
from t2t_repro.model.encoder import Encoder, EncoderLayer
from t2t_repro.model.masks import apply_mask, causal_mask, padding_mask, window_of
from t2t_repro.model.restricted_attention import RestrictedSelfAttention
from tests import reference
from tests.layer_test import output_and_gradients, run_layer_test

D_MODEL = 6


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def padding(length, lengths):
    """[batch, 1, length], whether there is a token."""
    return padding_mask(tf.sequence_mask(lengths, length, dtype=tf.int32))


def whole_mask(r, is_causal, seen):
    """The same as a mask of all pairs, [batch, length, length]: every position sees itself."""
    length = seen.shape[-1]
    is_near = reference.neighbourhood(length, r)
    if is_causal:
        is_near = np.tril(is_near)
    return tf.constant(is_near & (np.asarray(seen) | np.eye(length, dtype=bool)))


def pair_of_layers(sizes: tuple[int, int, int], r: int, is_causal: bool = False):
    """The layer (of heads, d_k, d_v), and attention to all positions with the same weights."""
    restricted = RestrictedSelfAttention(*sizes, neighbourhood=r, is_causal=is_causal)
    whole = MultiHeadAttention(*sizes)
    for layer in (restricted, whole):
        layer.build((None, None, D_MODEL))
    whole.set_weights(restricted.get_weights())
    return restricted, whole


def assert_is_masked_attention(sizes, r, is_causal, lengths, length):
    restricted, whole = pair_of_layers(sizes, r, is_causal)
    x, direction = (normal(len(lengths), length, D_MODEL, seed=seed) for seed in (1, 2))
    seen = padding(length, lengths)
    of = partial(output_and_gradients, direction=direction)
    found = of(restricted, x, attention_mask=seen)
    expected = of(whole, x, attention_mask=whole_mask(r, is_causal, seen))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5, rtol=1e-4)


@settings(max_examples=10)
@given(data=st.data())
def test_it_is_attention_under_a_mask(data):
    length = data.draw(st.integers(1, 150), "length")
    lengths = data.draw(st.lists(st.integers(0, length), min_size=1, max_size=3), "lengths")
    r, is_causal = data.draw(st.integers(1, 170), "r"), data.draw(st.booleans(), "is causal")
    sizes = [data.draw(st.integers(1, 3), name) for name in ("heads", "d_k", "d_v")]
    assert_is_masked_attention(sizes, r, is_causal, lengths, length)


@pytest.mark.parametrize(("r", "is_causal"), [(1, True), (5, False), (33, False), (66, True)])
def test_at_the_seams_of_blocks(r, is_causal):
    for length in (32, 65):
        assert_is_masked_attention((2, 3, 4), r, is_causal, [length, length // 2], length)


@pytest.mark.parametrize(("r", "expected"), [(1, 1), (2, 3), (7, 7)])
def test_r_positions_are_seen_itself_in_the_middle(r, expected):
    """Of an even r one more, since what is centred has a middle."""
    reach = window_of(r)
    assert reach.before == reach.after
    assert sum(reach) + 1 == expected == reference.neighbourhood(40, r)[20].sum()
    assert window_of(r, is_causal=True) == (reach.before, 0)


def test_a_position_sees_itself_even_if_it_is_padding():
    mask = causal_mask(3, np.array([[[False, True, False]]]))
    np.testing.assert_array_equal(mask, [[[1, 0, 0], [0, 1, 0], [0, 1, 1]]])


def shapes_in(graph):
    """Every tensor's shape in a graph and in the functions it calls."""
    functions = graph._functions.values()
    for part in (graph, *(function.graph for function in functions)):
        for operation in part.get_operations():
            for tensor in operation.outputs:
                yield operation.name, tensor.shape


def tables_of_pairs(layer, length):
    """Names of tensors with two axes as long as the sequence, forward and backward."""
    seen = padding(length, [length])
    step = tf.function(lambda x: output_and_gradients(layer, x, attention_mask=seen))
    graph = step.get_concrete_function(tf.TensorSpec([1, length, D_MODEL])).graph
    found = list(shapes_in(graph))
    # What has no known shape cannot be judged; only lists of sizes may have none.
    unknown = [name for name, shape in found if shape.rank is None or None in shape.as_list()]
    assert not unknown
    return [name for name, shape in found if sum(size >= length for size in shape) > 1]


@pytest.mark.parametrize("is_causal", [False, True])
def test_no_tensor_has_an_entry_for_every_pair(is_causal):
    length = 300
    sizes = {"d_model": D_MODEL, "d_ff": 8, "num_heads": 2, "dropout": 0.1}
    restricted, whole = pair_of_layers((2, 3, 3), 8, is_causal)
    assert tables_of_pairs(whole, length)
    assert not tables_of_pairs(restricted, length)
    assert not tables_of_pairs(EncoderLayer(sizes, neighbourhood=8), length)


def test_as_a_layer():
    run_layer_test(
        RestrictedSelfAttention,
        {"num_heads": 2, "d_k": 3, "d_v": 5, "neighbourhood": 4},
        (normal(2, 71, D_MODEL),),
        (2, 71, D_MODEL),
        2 * D_MODEL * (3 + 3 + 5 + 5),
        masks={"attention_mask": np.asarray(padding(71, [71, 40]))},
    )


# Masks of all kinds


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
