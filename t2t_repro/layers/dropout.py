"""Dropout (paper, section 5.4), from half as many random bits as Keras draws."""

import keras
import tensorflow as tf

_LEVELS = 2**16


@keras.saving.register_keras_serializable(package="t2t_repro")
class Dropout(keras.layers.Dropout):
    """x · keep / (1 - p), keep ~ Bernoulli(1 - p) for every element of its own.

    The rate p is rounded to a multiple of 2^-16. On a CPU random bits are most of dropout's cost:
    Keras draws 32 for every element, here it is 16.
    """

    def call(self, inputs: tf.Tensor, training: bool | None = False) -> tf.Tensor:
        """Drops elements of `inputs`, of any shape, in training."""
        if not training or self.rate == 0:
            return inputs
        x = tf.convert_to_tensor(inputs)
        dropped = round(self.rate * _LEVELS)
        if dropped == _LEVELS:
            return tf.zeros_like(x)
        kept = random_levels(tf.shape(x), self.seed_generator.next()) >= dropped
        return x * (tf.cast(kept, x.dtype) * (_LEVELS / (_LEVELS - dropped)))


def random_levels(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Draws 0 ... 2^16 - 1, all alike probable.

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
