"""Random numbers that are hashes of the sentence and the position that they are drawn for.

A generator's numbers depend on how many were drawn before, and TensorFlow's stateless ones on the
shape that is drawn: a sentence's samples would depend on its batch. Here every number is a hash:
splitmix64 (Steele et al. 2014), a counter and a mixing function of 64 bits. It uses only integer
operations that TensorFlow has on all devices: wrapping products, shifts, exclusive or.
"""

import tensorflow as tf

from t2t_repro.vocabulary import PAD_ID


def _signed(bits: int) -> int:
    return bits - 2**64 if bits >= 2**63 else bits


_GOLDEN = _signed(0x9E3779B97F4A7C15)
_FIRST = _signed(0xBF58476D1CE4E5B9)
_SECOND = _signed(0x94D049BB133111EB)

_DIGITS = 53


def hashed(state: tf.Tensor, counter: tf.Tensor | int) -> tf.Tensor:
    """Hashes each pair of a state and a counter.

    Args:
        state: int64 of any shape, a hash or a number that differs between rows.
        counter: integers of a shape that broadcasts.

    Returns:
        int64, 64 random bits.
    """
    x = state + (tf.cast(counter, tf.int64) + 1) * _GOLDEN
    x = tf.bitwise.bitwise_xor(x, _shifted(x, 30)) * _FIRST
    x = tf.bitwise.bitwise_xor(x, _shifted(x, 27)) * _SECOND
    return tf.bitwise.bitwise_xor(x, _shifted(x, 31))


def exponentials(states: tf.Tensor, counters: tf.Tensor) -> tf.Tensor:
    """Draws exponentially distributed numbers with mean 1.

    Args:
        states: int64 of any shape, hashes.
        counters: integers of a shape that broadcasts; each gives another number.

    Returns:
        float32, above 0.
    """
    bits = hashed(states, counters)
    # Small numbers keep the most digits: the smallest one decides.
    uniform = (tf.cast(_shifted(bits, 64 - _DIGITS), tf.float32) + 0.5) * 2.0**-_DIGITS
    return -tf.math.log1p(-uniform)


def keys_of(ids: tf.Tensor) -> tf.Tensor:
    """Hashes the ids of each sentence; padding does not count.

    Args:
        ids: [batch, length], PAD after each sentence.

    Returns:
        [batch] int64.
    """
    positions = tf.range(tf.shape(ids)[1])
    of_ids = hashed(hashed(tf.cast(ids, tf.int64), 0), positions)
    return tf.reduce_sum(tf.where(ids != PAD_ID, of_ids, 0), axis=1)


def _shifted(x: tf.Tensor, bits: int) -> tf.Tensor:
    """Shifts an int64 right as an unsigned number: zeros come in from the left."""
    return tf.bitwise.bitwise_and(
        tf.bitwise.right_shift(x, tf.constant(bits, tf.int64)), 2 ** (64 - bits) - 1
    )
