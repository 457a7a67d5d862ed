"""Random bits for dropout: 16 for every element.

Replaces a draw of 32 bits an element, as Keras's dropout has it: on a CPU random bits are most of
what dropout costs. Both draw for every element of its own; which elements fall is another draw.

In a train step that XLA compiles for a GPU, each element draws its bits itself, the same ones: so
dropout starts no kernel, and of the bits nothing is written but what they decide.

TensorFlow scrambles the seed at every draw, so that similar seeds give unrelated draws. Here the
seeds of all draws are scrambled together (`scrambled`): one by one they would be four kernels each.
"""

import tensorflow as tf

from t2t_repro.model.kernels import gpu
from t2t_repro.model.kernels.philox import halves, joined, philox, shifted

LEVELS = 2**16

# TensorFlow's own.
_SCRAMBLING_KEY = 0x3EC8F720, 0x02461E29


def random_levels(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Draws 0 ... 2^16 - 1, each as probable as the other.

    Args:
        shape: of what is drawn, int32.
        seed: [2], integers: Philox's key, and what the upper half of its counter is. (Draws count
            in the lower half.) For what TensorFlow draws with a seed, scrambled.

    Returns:
        uint16 of that shape, a function of the seed.
    """
    return (_element_by_element if gpu.fuses() else _all_at_once)(shape, _unsigned(seed))


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
    first, second = joined(philox((count, tf.zeros_like(count), *upper_half), key))
    of_four = tf.where(number & 4 == 0, first, second)
    level = shifted(of_four, 16 * (number & 3)) & (LEVELS - 1)
    return tf.reshape(tf.cast(level, tf.uint16), shape)


def scrambled(seeds: tf.Tensor) -> tf.Tensor:
    """Makes of seeds what TensorFlow makes of each before it draws.

    Args:
        seeds: [draws, 2], integers.

    Returns:
        [draws, 2] int64, each for `random_levels`.
    """
    counter = [word for part in tf.unstack(_unsigned(seeds), axis=1) for word in halves(part)]
    scrambled_parts = joined(philox(counter, _SCRAMBLING_KEY))
    return tf.bitcast(tf.stack(scrambled_parts, axis=1), tf.int64)


def _unsigned(seeds: tf.Tensor) -> tf.Tensor:
    return tf.bitcast(tf.cast(seeds, tf.int64), tf.uint64)
