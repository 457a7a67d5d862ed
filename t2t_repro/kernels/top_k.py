"""The k largest of very many numbers.

Replaces tf.math.top_k, which sorts all of them: on a CPU a vocabulary takes it several times as
long.
"""

import math

import tensorflow as tf


def top_k(values: tf.Tensor, k: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes what tf.math.top_k does.

    The k largest are in those k of several groups of neighbours whose maxima are largest. Looking
    for maxima is far cheaper than sorting.

    Args:
        values: [..., width], width statically known.
        k: how many.

    Returns:
        the values [..., k], the largest first, and their indices, int32. Of equal values the one
        with the lower index comes first.
    """
    width = values.shape[-1]
    size = _group_size(width, k)
    if size < 4 or width < 4 * k * size:
        return tf.math.top_k(values, k)
    groups = tf.reshape(values, [*_leading(values), width // size, size])
    _, best = tf.math.top_k(tf.reduce_max(groups, axis=-1), k)
    # In the order of their indices, so that equal values stay in it.
    best = tf.sort(best, axis=-1)  # [..., k]
    rank = values.shape.rank - 1
    candidates = tf.gather(groups, best, batch_dims=rank)  # [..., k, size]
    found, places = tf.math.top_k(tf.reshape(candidates, [*_leading(values), k * size]), k)
    return found, tf.gather(best, places // size, batch_dims=rank) * size + places % size


def _leading(values: tf.Tensor) -> list[tf.Tensor]:
    return tf.unstack(tf.shape(values))[:-1]


def _group_size(width: int, k: int) -> int:
    """The divisor of `width` for which about as many groups as candidates are sorted."""
    best = math.sqrt(width / k)
    divisors = (size for size in range(1, width + 1) if width % size == 0)
    return min(divisors, key=lambda size: abs(math.log(size / best)))
