"""Dropout (paper, section 5.4)."""

import keras
import tensorflow as tf

from t2t_repro.model import kernels
from t2t_repro.model.kernels import dropout_bits
from t2t_repro.model.kernels.packing import positionwise


def random_levels(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Draws int32 integers uniformly from 0 ... 2^16 - 1.

    They are a function of the seed, [2] integers. `kernels.dropout_bits.random_levels` runs in its
    place, with other draws: an edit here has no effect, unless T2T_REPRO_PLAIN=1 or the line with
    `kernels.fast` is changed.
    """
    # The lower 32 bits of each integer; the operation takes signed ones.
    seed = tf.bitcast(tf.cast(seed, tf.uint32), tf.int32)
    return tf.random.stateless_uniform(shape, seed, 0, dropout_bits.LEVELS, tf.int32)


_random_levels = kernels.fast(dropout_bits.random_levels, random_levels)


@keras.saving.register_keras_serializable(package="t2t_repro")
class Dropout(keras.layers.Dropout):
    """x · keep / (1 - p), keep ~ Bernoulli(1 - p) drawn for each element.

    The rate p is rounded to a multiple of 2^-16. In the trainer the seed is a function of the run's
    seed, the step and the micro-batch, and so of the replica; see
    `training.gradients.MicroBatchGradients`.
    """

    @positionwise
    def call(self, inputs: tf.Tensor, training: bool | None = False) -> tf.Tensor:
        """Drops elements of `inputs`, of any shape, and scales the others; in training only."""
        if not training or self.rate == 0:
            return inputs
        x = tf.convert_to_tensor(inputs)
        dropped_levels = round(self.rate * dropout_bits.LEVELS)
        keep = _random_levels(tf.shape(x), self.seed_generator.next()) >= dropped_levels
        scale = dropout_bits.LEVELS / (dropout_bits.LEVELS - dropped_levels)
        return x * tf.where(keep, tf.cast(scale, x.dtype), tf.zeros([], x.dtype))
