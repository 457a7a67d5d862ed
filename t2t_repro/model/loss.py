"""Label-smoothed cross entropy (paper, section 5.4), as sums over target tokens.

`CrossEntropy` is for the trainer; `keras_model.LabelSmoothedCrossEntropy` is the same for Keras's
`fit`. Importing this module does not import TensorFlow, since a gin file may bind its class.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

from t2t_repro.config.values import Rate, configurable
from t2t_repro.model import kernels
from t2t_repro.vocabulary import PAD_ID

if TYPE_CHECKING:
    import tensorflow as tf


class LossSums(NamedTuple):
    """Sums over a batch's target tokens, without PAD.

    All are float32 scalars. Sums, not means: the mean over several batches, replicas or
    micro-batches is the sum of sums divided by the sum of tokens.

    Attributes:
        loss: label-smoothed cross entropy minus the smoothing's own entropy; in nats.
        nll: negative log-likelihood, without smoothing; in nats.
        tokens: the number of target tokens.
    """

    loss: "tf.Tensor"
    nll: "tf.Tensor"
    tokens: "tf.Tensor"


@configurable()
class CrossEntropy:
    """The paper's loss, with label smoothing ε.

    The label has the probability 1 - ε, every other entry ε / (V - 1).

    Args:
        label_smoothing: ε.
    """

    def __init__(self, label_smoothing: Rate = 0.1) -> None:
        self.label_smoothing = label_smoothing

    def __call__(self, vectors: "tf.Tensor", table: "tf.Tensor", labels: "tf.Tensor") -> LossSums:
        """Sums the loss of some tokens, from the decoder's output.

        Args:
            vectors: [tokens, d_model], the input of the softmax projection.
            table: [vocab, d_model], E, float32.
            labels: [tokens], token ids; PAD is ignored.

        Returns:
            the sums. Gradients flow through `loss` only.
        """
        import tensorflow as tf

        from t2t_repro.model.kernels import cross_entropy

        labels = tf.cast(labels, tf.int32)
        weights = tf.cast(labels != PAD_ID, tf.float32)
        tokens = tf.reduce_sum(weights)
        compute = kernels.fast(cross_entropy.summed_cross_entropy, summed_cross_entropy)
        loss, nll = compute(vectors, table, labels, weights, self.label_smoothing)
        entropy = smoothing_entropy(table.shape[0], self.label_smoothing)
        return LossSums(loss=loss - entropy * tokens, nll=nll, tokens=tokens)


def smoothing_entropy(vocab_size: int, label_smoothing: float) -> float:
    """Computes the entropy of the smoothed labels, the minimum of their cross entropy, in nats.

    -(1 - ε) log(1 - ε) - ε log(ε / (V - 1))
    """
    if label_smoothing == 0.0:
        return 0.0  # The limit; the formula would take the logarithm of 0.
    confidence = 1.0 - label_smoothing
    others = label_smoothing / (vocab_size - 1)
    return -confidence * math.log(confidence) - label_smoothing * math.log(others)


def smoothed_cross_entropy(
    logits: "tf.Tensor", labels: "tf.Tensor", label_smoothing: float
) -> "tuple[tf.Tensor, tf.Tensor]":
    """Computes -Σ_v q_v log p_v with p = softmax(logits) and smoothed labels q.

    Args:
        logits: [..., vocab], floating point.
        labels: [...] int32, y.
        label_smoothing: ε; q is 1 - ε at y, and ε / (V - 1) elsewhere.

    Returns:
        the cross entropy of every label, and its nll, -log p_y: [...], float32.
    """
    import tensorflow as tf

    vocab_size = logits.shape[-1]
    log_p = tf.nn.log_softmax(tf.cast(logits, tf.float32))
    q = tf.one_hot(labels, vocab_size, 1.0 - label_smoothing, label_smoothing / (vocab_size - 1))
    nll = -tf.gather(log_p, labels, batch_dims=labels.shape.rank)
    return -tf.reduce_sum(q * log_p, axis=-1), nll


def summed_cross_entropy(
    x: "tf.Tensor",
    table: "tf.Tensor",
    labels: "tf.Tensor",
    weights: "tf.Tensor",
    label_smoothing: float,
) -> "tuple[tf.Tensor, tf.Tensor]":
    """Sums `smoothed_cross_entropy` over tokens.

    The sum is Σ_t w_t (-Σ_v q_v log p_v), p = softmax(x_t E^T). `kernels.cross_entropy` runs in its
    place: an edit here, or of `smoothed_cross_entropy`, has no effect on training, unless
    T2T_REPRO_PLAIN=1 or the line with `kernels.fast` is changed.

    Args:
        x: [tokens, d_model], floating point; x E^T is computed in its dtype.
        table: [vocab, d_model], E, float32.
        labels: [tokens] int32, y.
        weights: [tokens] float32, w.
        label_smoothing: ε.

    Returns:
        the sum, and Σ_t w_t (-log p_y), the nll, which has no gradient; float32 scalars.
    """
    import tensorflow as tf

    logits = tf.matmul(x, tf.cast(table, x.dtype), transpose_b=True)
    losses, nll = smoothed_cross_entropy(logits, labels, label_smoothing)
    return tf.reduce_sum(weights * losses), tf.stop_gradient(tf.reduce_sum(weights * nll))
