"""Computes long batches in groups of sentences of similar length, inside a graph."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def in_groups(
    lengths: tf.Tensor,
    tokens_per_group: int,
    compute: Callable[[tf.Tensor, tf.Tensor], Any],
    results: Any,
) -> Any:
    """Computes results for the sentences of a batch, a group at a time.

    So a long sentence does not pad all others, and memory is bounded for requests of any size. The
    groups are those of `data.batch_shapes.group_by_length`.

    Args:
        lengths: [batch] int32; a sentence of length 0 is in no group.
        tokens_per_group: the most padded tokens of a group; a longer sentence is a group by itself.
        compute: (rows [group], the largest of their lengths) -> nested tensors [group, ...].
        results: nested tensors [batch, ...], for sentences of length 0.

    Returns:
        `results`, with the computed values of all other sentences.
    """
    order = tf.argsort(lengths, stable=True)
    ordered = tf.gather(lengths, order)

    def is_any_left(first: tf.Tensor, results: Any) -> tf.Tensor:
        return first < tf.size(order)

    def advance(first: tf.Tensor, results: Any) -> tuple:
        widths = ordered[first:]
        fits = (tf.range(tf.size(widths)) + 1) * widths <= tokens_per_group
        size = tf.maximum(tf.math.count_nonzero(fits, dtype=tf.int32), 1)
        rows = order[first : first + size]
        computed = compute(rows, widths[size - 1])
        results = tf.nest.map_structure(
            lambda old, new: tf.tensor_scatter_nd_update(old, rows[:, None], new), results, computed
        )
        return first + size, results

    first = tf.math.count_nonzero(lengths == 0, dtype=tf.int32)
    return tf.while_loop(is_any_left, advance, (first, results))[1]
