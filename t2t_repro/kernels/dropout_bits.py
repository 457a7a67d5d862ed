"""Random bits for dropout: 16 for every element.

Replaces a draw of 32 bits an element, as Keras's dropout has it: on a CPU random bits are most of
what dropout costs. Both draw for every element of its own; which elements fall is another draw.
"""

import tensorflow as tf

LEVELS = 2**16


def random_levels(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Draws 0 ... 2^16 - 1, each as probable as the other.

    Args:
        shape: of what is drawn, int32.
        seed: [2], integers.

    Returns:
        uint16 of that shape, a function of the seed.
    """
    count = tf.reduce_prod(shape)
    pairs = tf.random.stateless_uniform(
        [(count + 1) // 2],
        tf.bitcast(tf.cast(seed, tf.uint32), tf.int32),
        minval=None,
        maxval=None,
        dtype=tf.uint32,
    )
    return tf.reshape(tf.reshape(tf.bitcast(pairs, tf.uint16), [-1])[:count], shape)
