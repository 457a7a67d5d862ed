import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.kernels.top_k import top_k


@settings(max_examples=60, deadline=None)
@given(
    width=st.sampled_from([1, 7, 96, 512, 1000, 1009, 4000]),
    k=st.integers(1, 8),
    levels=st.sampled_from([2, 20, 10**6]),
    seed=st.integers(0, 2**32 - 1),
)
def test_top_k_is_tensorflows(width, k, levels, seed):
    """Ties included: few levels give many."""
    values = np.random.default_rng(seed).integers(0, levels, (2, 3, width)).astype(np.float32)
    k = min(k, width)
    found, expected = top_k(tf.constant(values), k), tf.math.top_k(values, k)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("jit_compile", [None, True])
def test_in_a_graph_with_unknown_rows(jit_compile):
    values = np.random.default_rng(0).normal(size=(3, 2, 1024)).astype(np.float32)
    values[0, 0, :1000] = -np.inf
    signature = [tf.TensorSpec([None, 2, 1024])]
    graph = tf.function(lambda v: top_k(v, 5), input_signature=signature, jit_compile=jit_compile)
    for ours, expected in zip(graph(values), tf.math.top_k(values, 5), strict=True):
        np.testing.assert_array_equal(ours, expected)
