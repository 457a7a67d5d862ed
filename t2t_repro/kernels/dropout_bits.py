"""Random bits for dropout: 16 for every element.

Replaces a draw of 32 bits an element, as Keras's dropout has it: on a CPU random bits are most of
what dropout costs. Both draw for every element of its own; which elements fall is another draw.

On a GPU, where XLA compiles, each element draws its bits itself, the same ones: so dropout starts
no kernel, and of the bits nothing is written but what they decide.

TensorFlow scrambles the seed at every draw, so that similar seeds give unrelated draws. For a GPU
XLA makes four kernels of that. Here it is done before, outside of XLA (`scrambled`).
"""

import tensorflow as tf

from t2t_repro.kernels import gpu
from t2t_repro.kernels.philox import halves, philox, shifted

LEVELS = 2**16


def random_levels(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Draws 0 ... 2^16 - 1, each as probable as the other.

    Args:
        shape: of what is drawn, int32.
        seed: [2], integers: Philox's key, and what the upper half of its counter is. (Draws count
            in the lower half.) For what TensorFlow draws with a seed, scrambled.

    Returns:
        uint16 of that shape, a function of the seed.
    """
    seed = tf.bitcast(tf.cast(seed, tf.int64), tf.uint64)
    return (_element_by_element if gpu.fuses() else _all_at_once)(shape, seed)


def _all_at_once(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    count = tf.reduce_prod(shape)
    pairs = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[(count + 1) // 2],
        key=seed[:1],
        counter=tf.concat([tf.zeros([1], tf.uint64), seed[1:]], axis=0),
        alg=tf.random.Algorithm.PHILOX.value,
        dtype=tf.uint32,
    )
    return tf.reshape(tf.reshape(tf.bitcast(pairs, tf.uint16), [-1])[:count], shape)


def _element_by_element(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """The same: every count of Philox draws eight levels, of which an element takes its own."""
    number = tf.cast(tf.range(tf.reduce_prod(shape)), tf.uint32)
    count = shifted(number, 3)
    key, upper_half = (halves(part) for part in tf.unstack(seed))
    words = philox((count, tf.zeros_like(count), *upper_half), key)
    first, second = (_joined(*words[i : i + 2]) for i in (0, 2))
    of_four = tf.where(number & 4 == 0, first, second)
    level = shifted(of_four, 16 * (number & 3)) & (LEVELS - 1)
    return tf.reshape(tf.cast(level, tf.uint16), shape)


def _joined(low: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
    """Two words as one of 64 bits."""
    low, high = (tf.cast(word, tf.uint64) for word in (low, high))
    return low | tf.bitwise.left_shift(high, tf.constant(32, tf.uint64))


def scrambled(seed: tf.Tensor) -> tf.Tensor:
    """Makes of a seed what TensorFlow makes of it before it draws.

    Args:
        seed: [2], integers.

    Returns:
        [2] int64, for `random_levels`.
    """
    key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed)
    return tf.bitcast(tf.concat([key, counter[1:]], axis=0), tf.int64)
