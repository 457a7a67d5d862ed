"""Random bits for dropout, 16 per element.

Replaces a draw of 32 bits per element, as in Keras's dropout: on a CPU the draw is most of
dropout's cost. Both drop each element independently; they drop other elements.

In a train step that XLA compiles for a GPU, each element draws the same bits itself, so that
dropout starts no kernel and writes no random bits to memory.

TensorFlow scrambles the seed of every draw, so that similar seeds give unrelated bits. A train step
scrambles the seeds of all draws at once (`scrambled`): one by one they would be four kernels each.
"""

import tensorflow as tf

from t2t_repro.model.kernels import gpu
from t2t_repro.model.kernels.gpu import halves, joined, philox, shifted

# The number of values that a draw can have.
LEVELS = 2**16

# The Philox key with which TensorFlow scrambles seeds.
_SCRAMBLING_KEY = 0x3EC8F720, 0x02461E29


def random_levels(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Draws uint16 integers uniformly from 0 ... 2^16 - 1.

    They are a function of the seed [2]: Philox's key, and the upper half of its counter (the lower
    half counts the draws). A scrambled seed gives the bits that TensorFlow draws from the seed.
    """
    draw = _draw_element_by_element if gpu.fuses() else _draw_all_at_once
    return draw(shape, _unsigned(seed))


def _draw_all_at_once(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Draws by TensorFlow's operation: each uint32 gives a pair of levels."""
    count = tf.reduce_prod(shape)
    pairs = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[(count + 1) // 2],
        key=seed[:1],
        counter=tf.concat([tf.zeros([1], tf.uint64), seed[1:]], axis=0),
        alg=tf.random.Algorithm.PHILOX.value,
        dtype=tf.uint32,
    )
    levels = tf.reshape(tf.bitcast(pairs, tf.uint16), [-1])
    return tf.reshape(levels[:count], shape)  # Of an odd count the last level is left over.


def _draw_element_by_element(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Draws the same levels: each draw of Philox gives 128 bits, the levels of eight elements."""
    element = tf.cast(tf.range(tf.reduce_prod(shape)), tf.uint32)
    draw = shifted(element, 3)
    key, upper_half = (halves(part) for part in tf.unstack(seed))
    # The lower half of the counter is the number of the draw, whose upper word is 0.
    first, second = joined(philox((draw, tf.zeros_like(draw), *upper_half), key))
    # Of eight elements the first four have 16 bits each of the first 64, the others of the second.
    four_levels = tf.where(element & 4 == 0, first, second)
    level = shifted(four_levels, 16 * (element & 3)) & (LEVELS - 1)
    return tf.reshape(tf.cast(level, tf.uint16), shape)


def scrambled(seeds: tf.Tensor) -> tf.Tensor:
    """Scrambles seeds [draws, 2] by the formula of TensorFlow's `StatelessRandomGetKeyCounter`.

    The result is int64, of the same shape: Philox's key, and the upper half of its counter.
    """
    parts = tf.unstack(_unsigned(seeds), axis=1)
    # The seed is the counter: four words, of each part the lower half first.
    counter = [word for part in parts for word in halves(part)]
    words = philox(counter, _SCRAMBLING_KEY)
    return tf.bitcast(tf.stack(joined(words), axis=1), tf.int64)


def _unsigned(seeds: tf.Tensor) -> tf.Tensor:
    """Returns seeds as uint64, the type of Philox's key and counter: the same bits as int64."""
    return tf.bitcast(tf.cast(seeds, tf.int64), tf.uint64)
