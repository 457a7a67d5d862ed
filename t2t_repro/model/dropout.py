"""Dropout (paper, section 5.4)."""

import keras
import tensorflow as tf

from t2t_repro.model import kernels
from t2t_repro.model.kernels import dropout_bits
from t2t_repro.model.kernels.packing import positionwise


def random_levels(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Draws integers uniformly from 0 ... 2^16 - 1.

    Args:
        shape: of the result, int32.
        seed: [2] integers.

    Returns:
        int32 of that shape, a function of the seed.
    """
    seed = tf.bitcast(tf.cast(seed, tf.uint32), tf.int32)
    return tf.random.stateless_uniform(shape, seed, 0, dropout_bits.LEVELS, tf.int32)


_random_levels = kernels.fast(dropout_bits.random_levels, random_levels)


@keras.saving.register_keras_serializable(package="t2t_repro")
class Dropout(keras.layers.Dropout):
    """x · keep / (1 - p), keep ~ Bernoulli(1 - p) drawn for each element.

    The rate p is rounded to a multiple of 2^-16.
    """

    @positionwise
    def call(self, inputs: tf.Tensor, training: bool | None = False) -> tf.Tensor:
        """Drops elements of `inputs`, of any shape, in training."""
        if not training or self.rate == 0:
            return inputs
        x = tf.convert_to_tensor(inputs)
        dropped = round(self.rate * dropout_bits.LEVELS)
        if dropped == dropout_bits.LEVELS:
            return tf.zeros_like(x)
        keep = _random_levels(tf.shape(x), self.seed_generator.next()) >= dropped
        scale = dropout_bits.LEVELS / (dropout_bits.LEVELS - dropped)
        return x * tf.where(keep, tf.cast(scale, x.dtype), tf.zeros([], x.dtype))
