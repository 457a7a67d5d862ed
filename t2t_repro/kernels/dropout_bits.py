"""Random bits for dropout: 16 for every element.

Replaces a draw of 32 bits an element, as Keras's dropout has it: on a CPU random bits are most of
what dropout costs. Both draw for every element of its own; which elements fall is another draw.

TensorFlow scrambles the seed at every draw, so that similar seeds give unrelated draws. For a GPU
XLA makes four kernels of that. Here it is done before, outside of XLA (`scrambled`).
"""

import tensorflow as tf

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
    count = tf.reduce_prod(shape)
    seed = tf.bitcast(tf.cast(seed, tf.int64), tf.uint64)
    pairs = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[(count + 1) // 2],
        key=seed[:1],
        counter=tf.concat([tf.zeros([1], tf.uint64), seed[1:]], axis=0),
        alg=tf.random.Algorithm.PHILOX.value,
        dtype=tf.uint32,
    )
    return tf.reshape(tf.reshape(tf.bitcast(pairs, tf.uint16), [-1])[:count], shape)


def scrambled(seed: tf.Tensor) -> tf.Tensor:
    """Makes of a seed what TensorFlow makes of it before it draws.

    Args:
        seed: [2], integers.

    Returns:
        [2] int64, for `random_levels`.
    """
    key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed)
    return tf.bitcast(tf.concat([key, counter[1:]], axis=0), tf.int64)
