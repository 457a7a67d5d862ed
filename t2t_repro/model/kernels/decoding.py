"""Two kernels of decoding: the best extensions of hypotheses, and a cache written in place."""

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray


def best_extensions(
    log_probs: tf.Tensor,
    logits: tf.Tensor,
    k: int,
    forbidden: Sequence[int] = (),
    normalized: bool = False,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes `decoding.beam_search.best_extensions` without sorting all extensions.

    Replaces log_softmax and tf.math.top_k, which take several times as long on a CPU. Ids are
    divided into groups of neighbours: the k best are in the k groups with the best maxima, and
    finding maxima is far cheaper than sorting.

    Args:
        log_probs: [batch, beam] float32, of the hypotheses.
        logits: [batch, beam, vocab] float32; beam and vocab are statically known.
        k: the number of extensions, at most beam·vocab.
        forbidden: ids that extend no hypothesis; the others keep their probability.
        normalized: True if the logits are log-probabilities.

    Returns:
        log-probabilities [batch, k], the best first, and indices [batch, k] into beam·vocab, int32.
        Of equal ones the lower index comes first.
    """
    _, beam, vocab = logits.shape
    # Each hypothesis has `count` groups of `size` ids; the last may be padded.
    size = _group_size(beam, vocab, k)
    count = math.ceil(vocab / size)
    if missing := count * size - vocab:
        logits = tf.pad(logits, [[0, 0], [0, 0], [0, missing]], constant_values=-math.inf)
    groups = tf.reshape(logits, [-1, beam, count, size])
    maxima = tf.reduce_max(groups, axis=-1)  # [batch, beam, count]
    # [batch, beam]
    normalizers = tf.zeros_like(log_probs) if normalized else _log_normalizers(logits, maxima)
    is_forbidden = np.isin(np.arange(count * size), forbidden).reshape(count, size)
    if forbidden:
        maxima = _maxima_without(is_forbidden, groups, maxima)
    # Rounding is monotonic: the maxima of the sums are the sums of the maxima.
    group_log_probs = log_probs[..., None] + (maxima - normalizers[..., None])
    _, best_groups = tf.math.top_k(tf.reshape(group_log_probs, [-1, beam * count]), k)
    # Sorted by index, so that of equal candidates the one with the lower index comes first.
    best_groups = tf.sort(best_groups, axis=-1)  # [batch, k], indices into beam·count
    hypotheses = best_groups // count
    # The candidates are all ids of these groups, [batch, k, size].
    candidates = tf.gather(tf.reshape(groups, [-1, beam * count, size]), best_groups, batch_dims=1)
    if forbidden:
        candidates = tf.where(tf.gather(is_forbidden, best_groups % count), -math.inf, candidates)
    hypothesis_log_probs = tf.gather(log_probs, hypotheses, batch_dims=1)[..., None]
    group_normalizers = tf.gather(normalizers, hypotheses, batch_dims=1)[..., None]
    candidate_log_probs = hypothesis_log_probs + (candidates - group_normalizers)
    best_log_probs, indices = tf.math.top_k(tf.reshape(candidate_log_probs, [-1, k * size]), k)
    # An index into k·size gives the group, which gives the hypothesis and the group's first id.
    groups_of_best = tf.gather(best_groups, indices // size, batch_dims=1)
    ids = groups_of_best % count * size + indices % size
    return best_log_probs, groups_of_best // count * vocab + ids


def _maxima_without(
    is_forbidden: NDArray[np.bool_], groups: tf.Tensor, maxima: tf.Tensor
) -> tf.Tensor:
    """Recomputes the maxima of the few groups with forbidden ids, without these.

    Args:
        is_forbidden: [count, size].
        groups: [batch, beam, count, size].
        maxima: [batch, beam, count], of all ids; the result has this shape.
    """
    (changed,) = np.nonzero(is_forbidden.any(axis=-1))
    allowed = tf.where(is_forbidden[changed], -math.inf, tf.gather(groups, changed, axis=2))
    # The changed groups take their maxima from those appended.
    indices = np.arange(len(is_forbidden))
    indices[changed] = len(indices) + np.arange(len(changed))
    both = tf.concat([maxima, tf.reduce_max(allowed, axis=-1)], axis=-1)
    return tf.gather(both, indices, axis=-1)


def _log_normalizers(logits: tf.Tensor, maxima: tf.Tensor) -> tf.Tensor:
    """Computes log Σ exp(logits) [batch, beam] of logits [batch, beam, count · size].

    `maxima` [batch, beam, count] are those of their groups.
    """
    _, beam, count = maxima.shape
    p_by_group = tf.reshape(tf.nn.softmax(logits), [-1, beam, count, logits.shape[-1] // count])
    # The largest p is 1 / Σ exp(z - max z), and stands in the group with the largest maximum.
    best_group = tf.argmax(maxima, axis=-1, output_type=tf.int32)
    largest_p = tf.reduce_max(tf.gather(p_by_group, best_group, batch_dims=2), axis=-1)
    return tf.reduce_max(maxima, axis=-1) - tf.math.log(largest_p)


def _group_size(beam: int, vocab: int, k: int) -> int:
    """Returns the size of the groups whose maxima are sorted.

    With the best size, as many groups as candidates are sorted. The size divides `vocab`, unless
    over four times as much is sorted then: padding the logits, which copies them, is cheaper.
    Padding comes last, so with at least k ids it is never among the best.
    """
    ideal = round(math.sqrt(beam * vocab / k))
    divisors = [size for size in range(1, vocab + 1) if vocab % size == 0]
    with_k_groups = [size for size in divisors if beam * vocab // size >= k]
    nearest = min(with_k_groups, key=lambda size: abs(math.log(size / ideal)))
    is_costly = _sort_cost(nearest, beam, vocab, k) > 4 * _sort_cost(ideal, beam, vocab, k)
    return ideal if is_costly and k <= vocab else nearest


def _sort_cost(size: int, beam: int, vocab: int, k: int) -> int:
    """Counts the numbers that are sorted with groups of `size` ids."""
    return beam * math.ceil(vocab / size) + k * size


def writable_zeros(shape: list[int | tf.Tensor], dtype: tf.DType) -> tf.Tensor:
    """Returns zeros that may be overwritten in place, unlike tf.zeros, a constant of the graph."""
    return tf.raw_ops.Empty(shape=shape, dtype=dtype, init=True)


def write_rows(rows: tf.Tensor, places: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
    """Overwrites the rows numbered `places` [new] by `new` [new, depth], in place.

    The given `rows` [rows, depth] must not be used again. Replaces tf.tensor_scatter_nd_update,
    which copies the whole cache at every step of decoding.
    """
    return tf.raw_ops.InplaceUpdate(x=rows, i=places, v=new)
