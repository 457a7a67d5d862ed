"""Groups in a graph, against the plain function that groups in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.data.batch_shapes import group_by_length
from t2t_repro.formats.saved_model.servable import in_groups


def groups_and_results(lengths, tokens):
    """The groups that `compute` was called with, and 100 + its row for every one computed."""
    seen = []

    def compute(rows, length):
        seen.append((rows.numpy().tolist(), int(length)))
        return rows + 100

    ids = tf.constant(lengths, tf.int32)
    return seen, in_groups(ids, tokens, compute, tf.zeros_like(ids)).numpy().tolist()


@pytest.mark.parametrize("tokens", [1, 12, 10**6])
def test_the_groups_are_those_of_the_plain_function(tokens):
    generator = np.random.default_rng(1)
    lengths = generator.integers(0, 9, 30).tolist()
    seen, results = groups_and_results(lengths, tokens)
    assert [rows for rows, _ in seen] == [g.tolist() for g in group_by_length(lengths, tokens)]
    assert [length for _, length in seen] == [max(lengths[r] for r in rows) for rows, _ in seen]
    assert results == [100 + row if length else 0 for row, length in enumerate(lengths)]


def test_in_a_graph_of_any_size():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def double(lengths):
        return in_groups(lengths, 6, lambda rows, _: tf.gather(lengths, rows) * 2, lengths)

    for lengths in ([], [0, 4, 9, 1, 1, 1, 2], [5]):
        assert double(tf.constant(lengths, tf.int32)).numpy().tolist() == [2 * n for n in lengths]
