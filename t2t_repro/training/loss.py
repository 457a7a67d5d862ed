"""Label-smoothed cross entropy (paper, section 5.4), as sums over target tokens."""

import math
from typing import Any, NamedTuple

import tensorflow as tf

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


@tf.custom_gradient
def smoothed_cross_entropy(
    logits: tf.Tensor, labels: tf.Tensor, label_smoothing: tf.Tensor
) -> tuple[tuple[tf.Tensor, tf.Tensor], Any]:
    """Cross entropy against 1 - ε on the label and ε / (V - 1) on every other entry.

    With z the logits, y the label and low = ε / (V - 1),

        -Σ_v q_v log softmax(z)_v = nll + low · (V z_y - Σ_v z_v),   nll = -log softmax(z)_y,

    so the soft targets are never made. The gradient, softmax(z) - q, is written out for the same
    reason: derived, it takes several passes over [tokens, vocab].

    Args:
        logits: [tokens, vocab], float32.
        labels: [tokens], int32.
        label_smoothing: ε, scalar float32.

    Returns:
        the cross entropy [tokens] and the nll [tokens]; the nll passes no gradient.
    """
    vocab = tf.shape(logits)[1]
    low = label_smoothing / tf.cast(vocab - 1, logits.dtype)
    nll, softmax_minus_label = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(
        features=logits, labels=labels
    )
    label_logits = tf.gather(logits, labels, batch_dims=1)
    scaled = tf.cast(vocab, logits.dtype) * label_logits - tf.reduce_sum(logits, axis=1)

    def gradient(upstream: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, None, None]:
        spread = (softmax_minus_label - low) * upstream[:, None]
        rows = tf.stack([tf.range(tf.shape(labels)[0]), labels], axis=1)
        on_label = upstream * low * tf.cast(vocab, logits.dtype)
        return tf.tensor_scatter_nd_add(spread, rows, on_label), None, None

    return (nll + low * scaled, nll), gradient


def loss_sums(logits: tf.Tensor, target: tf.Tensor, label_smoothing: float) -> LossSums:
    """Sums the loss of a batch over its target tokens.

    Args:
        logits: [batch, target_length, vocab], any floating dtype.
        target: [batch, target_length], token ids; PAD counts for nothing.
        label_smoothing: ε.

    Returns:
        the sums.

    Raises:
        ValueError: if the shapes do not fit each other.
    """
    if logits.shape.rank != 3 or target.shape.rank != 2:
        raise ValueError(
            f"logits {logits.shape} and target {target.shape}: expected "
            "[batch, target_length, vocab] and [batch, target_length]."
        )
    vocab_size = logits.shape[-1]
    labels = tf.reshape(tf.cast(target, tf.int32), [-1])
    flat = tf.reshape(tf.cast(logits, tf.float32), [-1, vocab_size])
    cross_entropy, nll = smoothed_cross_entropy(flat, labels, tf.constant(label_smoothing))
    weights = tf.cast(labels != PAD_ID, tf.float32)
    excess = cross_entropy - smoothing_entropy(vocab_size, label_smoothing)
    return LossSums(
        loss=tf.reduce_sum(excess * weights),
        nll=tf.reduce_sum(nll * weights),
        tokens=tf.reduce_sum(weights),
    )
