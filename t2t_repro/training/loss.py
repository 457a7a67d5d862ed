"""Label-smoothed cross entropy (paper, section 5.4), as sums over target tokens."""

import math
from typing import NamedTuple

import gin
import tensorflow as tf

from t2t_repro import kernels
from t2t_repro.errors import UserError
from t2t_repro.kernels import cross_entropy
from t2t_repro.vocabulary import PAD_ID


class LossSums(NamedTuple):
    """Sums over the target tokens of a batch, PAD left out; all float32 scalars.

    Sums and not means: a mean over several batches, replicas or slices is the sum of sums over
    the sum of tokens.

    Attributes:
        loss: the label-smoothed cross entropy, the smoothing's own entropy taken off; in nats.
        nll: the negative log-likelihood, without smoothing; in nats.
        tokens: the number of target tokens.
    """

    loss: tf.Tensor
    nll: tf.Tensor
    tokens: tf.Tensor


@gin.configurable
class CrossEntropy:
    """The paper's loss: the truth has the probability 1 - ε, every other entry ε / (V - 1).

    Args:
        label_smoothing: ε.

    Raises:
        UserError: it is no share below 1.
    """

    def __init__(self, label_smoothing: float = 0.1) -> None:
        is_number = isinstance(label_smoothing, int | float)
        if not is_number or not 0.0 <= label_smoothing < 1.0:
            raise UserError(
                f"CrossEntropy.label_smoothing is {label_smoothing!r}, expected 0 or more, below 1."
            )
        self.label_smoothing = label_smoothing

    def __call__(self, vectors: tf.Tensor, table: tf.Tensor, labels: tf.Tensor) -> LossSums:
        """Sums the loss of some tokens, from the decoder's output.

        Args:
            vectors: [tokens, d_model], what the softmax projection reads.
            table: [vocab, d_model], E, float32.
            labels: [tokens], token ids; PAD counts for nothing.

        Returns:
            the sums. Gradients flow through `loss` alone.

        Raises:
            ValueError: if the shapes do not fit each other.
        """
        if vectors.shape.rank != 2 or labels.shape.rank != 1 or table.shape[1] != vectors.shape[1]:
            raise ValueError(
                f"vectors {vectors.shape}, table {table.shape}, labels {labels.shape}: expected "
                "[tokens, d_model], [vocab, d_model] and [tokens]."
            )
        labels = tf.cast(labels, tf.int32)
        weights = tf.cast(labels != PAD_ID, tf.float32)
        tokens = tf.reduce_sum(weights)
        loss, nll = _summed_cross_entropy(vectors, table, labels, weights, self.label_smoothing)
        entropy = smoothing_entropy(table.shape[0], self.label_smoothing)
        return LossSums(loss=loss - entropy * tokens, nll=nll, tokens=tokens)


def smoothing_entropy(vocab_size: int, label_smoothing: float) -> float:
    """Entropy of the smoothed target distribution, the least cross entropy there can be; in nats.

    -(1 - ε) log(1 - ε) - ε log(ε / (V - 1))
    """
    if label_smoothing == 0.0:
        return 0.0
    confidence = 1.0 - label_smoothing
    return -confidence * math.log(confidence) - label_smoothing * math.log(
        label_smoothing / (vocab_size - 1)
    )


def summed_cross_entropy(
    x: tf.Tensor,
    table: tf.Tensor,
    labels: tf.Tensor,
    weights: tf.Tensor,
    label_smoothing: float,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes -Σ_t w_t Σ_v q_v log p_v with p = softmax(x_t E^T) and smoothed labels q.

    Args:
        x: [tokens, d_model], of any floating-point dtype; x E^T is computed in it.
        table: [vocab, d_model], E, float32.
        labels: [tokens] int32, y.
        weights: [tokens] float32, w.
        label_smoothing: ε; q is 1 - ε at y, and ε / (V - 1) elsewhere.

    Returns:
        the sum, and Σ_t w_t (-log p_y), the nll, which has no gradient; float32 scalars.
    """
    vocab_size = table.shape[0]
    logits = tf.matmul(x, tf.cast(table, x.dtype), transpose_b=True)
    log_p = tf.nn.log_softmax(tf.cast(logits, tf.float32))
    q = tf.one_hot(labels, vocab_size, 1.0 - label_smoothing, label_smoothing / (vocab_size - 1))
    nll = -tf.gather(log_p, labels, batch_dims=1)
    cross_entropy = tf.reduce_sum(weights * -tf.reduce_sum(q * log_p, axis=1))
    return cross_entropy, tf.stop_gradient(tf.reduce_sum(weights * nll))


_summed_cross_entropy = kernels.fast(cross_entropy.summed_cross_entropy, summed_cross_entropy)
