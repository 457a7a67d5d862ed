"""The best one-id extensions of some hypotheses.

Replaces log_softmax and tf.math.top_k, which sorts all extensions: on a CPU a vocabulary takes them
several times as long.
"""

import math

import tensorflow as tf


def best_extensions(log_probs: tf.Tensor, logits: tf.Tensor, k: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes what `decoding.beam_search.best_extensions` does.

    The k best are in those k of several groups of neighbouring ids whose maxima are best. Looking
    for maxima is far cheaper than sorting.

    Args:
        log_probs: [batch, beam] float32, of the hypotheses.
        logits: [batch, beam, vocab] float32, beam and vocab statically known.
        k: how many, at most beam·vocab.

    Returns:
        log-probabilities [batch, k], the best first, and indices [batch, k] into beam·vocab, int32.
        Of equal ones the one with the lower index comes first.
    """
    _, beam, vocab = logits.shape
    size = _group_size(beam, vocab, k)
    count = math.ceil(vocab / size)
    if rest := count * size - vocab:
        logits = tf.pad(logits, [[0, 0], [0, 0], [0, rest]], constant_values=-math.inf)
    groups = tf.reshape(logits, [-1, beam, count, size])
    maxima = tf.reduce_max(groups, axis=-1)  # [batch, beam, count]
    normalizers = _log_normalizers(logits, maxima)  # [batch, beam]
    # Rounding is monotonic: the maxima of the sums are the sums of the maxima.
    of_groups = log_probs[..., None] + (maxima - normalizers[..., None])
    _, best = tf.math.top_k(tf.reshape(of_groups, [-1, beam * count]), k)
    # In the order of their indices, so that equal values stay in it.
    best = tf.sort(best, axis=-1)  # [batch, k]
    hypotheses = best // count
    candidates = tf.gather(tf.reshape(groups, [-1, beam * count, size]), best, batch_dims=1)
    before, normalizers = (
        tf.gather(of_each, hypotheses, batch_dims=1)[..., None]
        for of_each in (log_probs, normalizers)
    )
    candidates = before + (candidates - normalizers)  # [batch, k, size]
    found, places = tf.math.top_k(tf.reshape(candidates, [-1, k * size]), k)
    groups_found = tf.gather(best, places // size, batch_dims=1)
    ids = groups_found % count * size + places % size
    return found, groups_found // count * vocab + ids


def _log_normalizers(logits: tf.Tensor, maxima: tf.Tensor) -> tf.Tensor:
    """Log Σ exp(logits), [batch, beam], from maxima [batch, beam, count] of groups."""
    _, beam, count = maxima.shape
    # The largest p is 1 / Σ exp(z - max z).
    p = tf.reshape(tf.nn.softmax(logits), [-1, beam, count, logits.shape[-1] // count])
    best = tf.argmax(maxima, axis=-1, output_type=tf.int32)
    largest = tf.reduce_max(tf.gather(p, best, batch_dims=2), axis=-1)
    return tf.reduce_max(maxima, axis=-1) - tf.math.log(largest)


def _group_size(beam: int, vocab: int, k: int) -> int:
    """The size with which about as many groups as candidates are sorted.

    Mostly a divisor of `vocab`. Any other size pads the logits, by a copy: it is taken where that
    costs less than sorting more.
    Of equal values the first wins: with k ids or more, padding, which is last, is never found.
    """
    best = round(math.sqrt(beam * vocab / k))
    divisors = [size for size in range(1, vocab + 1) if vocab % size == 0]
    enough = [size for size in divisors if beam * vocab // size >= k]
    divisor = min(enough, key=lambda size: abs(math.log(size / best)))
    divides_badly = _sorted(divisor, beam, vocab, k) > 4 * _sorted(best, beam, vocab, k)
    return best if divides_badly and k <= vocab else divisor


def _sorted(size: int, beam: int, vocab: int, k: int) -> int:
    """How many numbers are sorted."""
    return beam * math.ceil(vocab / size) + k * size
