"""Long batches inside a graph: sentences of similar length are computed together."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def in_groups(
    lengths: tf.Tensor,
    tokens_per_group: int,
    compute: Callable[[tf.Tensor, tf.Tensor], Any],
    results: Any,
) -> Any:
    """Computes something of sentences, a group of similar length at a time.

    So one long sentence doesn't make all others as long, and memory has a bound whatever a request
    holds. The groups are those of `data.batch_shapes.group_by_length`.

    Args:
        lengths: [batch] int32; a sentence of length 0 is in no group.
        tokens_per_group: most padded tokens of a group; a longer sentence is a group by itself.
        compute: (rows [group], the largest of their lengths) -> nested tensors [group, ...].
        results: nested tensors [batch, ...], what sentences of length 0 get.

    Returns:
        `results`, with what was computed of the others.
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
        found = compute(rows, widths[size - 1])
        results = tf.nest.map_structure(
            lambda old, new: tf.tensor_scatter_nd_update(old, rows[:, None], new), results, found
        )
        return first + size, results

    first = tf.math.count_nonzero(lengths == 0, dtype=tf.int32)
    return tf.while_loop(is_any_left, advance, (first, results))[1]
