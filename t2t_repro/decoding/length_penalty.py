"""Length penalties: what log P(y) is divided by, so that long translations are not held back."""

from collections.abc import Callable

import gin
import tensorflow as tf

LengthPenalty = Callable[[tf.Tensor, float], tf.Tensor]
"""lp(length, alpha): takes lengths of any shape, integers, EOS included; returns float32 of that
shape, positive and never less for a longer one (beam search ends early by that)."""


@gin.configurable(denylist=["length", "alpha"])
def wu_penalty(length: tf.Tensor, alpha: float) -> tf.Tensor:
    """Computes lp(length) = ((5 + length) / 6)^alpha (Wu et al. 2016, equation 14).

    The paper's (section 6.1), with alpha = 0.6.

    Args:
        length: number of ids in a hypothesis, EOS included; any shape, any integer dtype.
        alpha: strength; 0 means no penalty.

    Returns:
        float32, the shape of `length`.
    """
    return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)


@gin.configurable(denylist=["length", "alpha"])
def power_penalty(length: tf.Tensor, alpha: float) -> tf.Tensor:
    """Computes lp(length) = length^alpha, as fairseq and Marian do.

    With alpha = 1 a hypothesis's score is the mean log-probability of its ids. It favours long
    translations more than `wu_penalty` does with the same alpha.

    Args:
        length: number of ids in a hypothesis, EOS included; any shape, any integer dtype.
        alpha: strength; 0 means no penalty.

    Returns:
        float32, the shape of `length`; of no ids, that of one.
    """
    return tf.pow(tf.maximum(tf.cast(length, tf.float32), 1.0), alpha)
