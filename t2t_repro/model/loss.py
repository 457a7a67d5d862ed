"""Label-smoothed cross entropy (paper, section 5.4), as sums over target tokens.

`CrossEntropy` is for the trainer, `LabelSmoothedCrossEntropy` the same for Keras's `fit`.
"""

import math
from typing import Any, NamedTuple

import gin
import keras
import tensorflow as tf

from t2t_repro.config.values import Rate, validated
from t2t_repro.model import kernels
from t2t_repro.model.kernels import cross_entropy
from t2t_repro.vocabulary import PAD_ID


class LossSums(NamedTuple):
    """Sums over the target tokens of a batch, without PAD; all float32 scalars.

    Sums, not means: the mean over several batches, replicas or micro-batches is the sum of sums
    divided by the sum of tokens.

    Attributes:
        loss: label-smoothed cross entropy minus the smoothing's own entropy; in nats.
        nll: negative log-likelihood, without smoothing; in nats.
        tokens: the number of target tokens.
    """

    loss: tf.Tensor
    nll: tf.Tensor
    tokens: tf.Tensor


@gin.configurable
@validated
class CrossEntropy:
    """The paper's loss: the label has the probability 1 - ε, every other entry ε / (V - 1).

    Args:
        label_smoothing: ε.

    Raises:
        UserError: ε is not in [0, 1).
    """

    def __init__(self, label_smoothing: Rate = 0.1) -> None:
        self.label_smoothing = label_smoothing

    def __call__(self, vectors: tf.Tensor, table: tf.Tensor, labels: tf.Tensor) -> LossSums:
        """Sums the loss of some tokens, from the decoder's output.

        Args:
            vectors: [tokens, d_model], the input of the softmax projection.
            table: [vocab, d_model], E, float32.
            labels: [tokens], token ids; PAD is ignored.

        Returns:
            The sums. Gradients flow through `loss` only.
        """
        labels = tf.cast(labels, tf.int32)
        weights = tf.cast(labels != PAD_ID, tf.float32)
        tokens = tf.reduce_sum(weights)
        loss, nll = _summed_cross_entropy(vectors, table, labels, weights, self.label_smoothing)
        entropy = smoothing_entropy(table.shape[0], self.label_smoothing)
        return LossSums(loss=loss - entropy * tokens, nll=nll, tokens=tokens)


@keras.saving.register_keras_serializable(package="t2t_repro")
@validated
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """The loss of `CrossEntropy` for Keras's `compile`: its mean over the tokens.

    Labels that are PAD are ignored. Several replicas take the mean of their means, as Keras does;
    the trainer counts every token equally.

    Args:
        label_smoothing: ε.
        name: of the loss.
        kwargs: Keras's `reduction`, by default the mean over the tokens of a batch, and `dtype`.

    Raises:
        UserError: ε is not in [0, 1).
    """

    def __init__(
        self, label_smoothing: Rate = 0.1, name: str = "label_smoothed_cross_entropy", **kwargs: Any
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.label_smoothing = label_smoothing

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """Computes the loss of every label.

        Args:
            y_true: [batch, length], token ids, PAD after the end.
            y_pred: [batch, length, vocab], logits.

        Returns:
            [batch, length], in nats, with Keras's mask of the tokens.

        Raises:
            ValueError: the shapes do not fit each other.
        """
        if y_pred.shape.rank != 3 or not y_pred.shape[:2].is_compatible_with(y_true.shape):
            raise ValueError(
                f"labels {y_true.shape}, logits {y_pred.shape}: expected [batch, length] and "
                "[batch, length, vocab]; the labels are the target that the model is given."
            )
        labels = tf.cast(y_true, tf.int32)
        losses, _ = smoothed_cross_entropy(y_pred, labels, self.label_smoothing)
        losses -= smoothing_entropy(y_pred.shape[-1], self.label_smoothing)
        # Keras then takes the mean over the mask.
        losses._keras_mask = labels != PAD_ID
        return losses

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


def smoothing_entropy(vocab_size: int, label_smoothing: float) -> float:
    """Computes the entropy of the smoothed labels, the minimum of their cross entropy; in nats.

    -(1 - ε) log(1 - ε) - ε log(ε / (V - 1))
    """
    if label_smoothing == 0.0:
        return 0.0
    confidence = 1.0 - label_smoothing
    return -confidence * math.log(confidence) - label_smoothing * math.log(
        label_smoothing / (vocab_size - 1)
    )


def smoothed_cross_entropy(
    logits: tf.Tensor, labels: tf.Tensor, label_smoothing: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes -Σ_v q_v log p_v with p = softmax(logits) and smoothed labels q.

    Args:
        logits: [..., vocab], floating point.
        labels: [...] int32, y.
        label_smoothing: ε; q is 1 - ε at y, and ε / (V - 1) elsewhere.

    Returns:
        The cross entropy of every label, and its nll, -log p_y: [...], float32.
    """
    vocab_size = logits.shape[-1]
    log_p = tf.nn.log_softmax(tf.cast(logits, tf.float32))
    q = tf.one_hot(labels, vocab_size, 1.0 - label_smoothing, label_smoothing / (vocab_size - 1))
    return -tf.reduce_sum(q * log_p, axis=-1), -tf.gather(
        log_p, labels, batch_dims=labels.shape.rank
    )


def summed_cross_entropy(
    x: tf.Tensor, table: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, label_smoothing: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Sums `smoothed_cross_entropy` over tokens: Σ_t w_t (-Σ_v q_v log p_v), p = softmax(x_t E^T).

    Args:
        x: [tokens, d_model], floating point; x E^T is computed in its dtype.
        table: [vocab, d_model], E, float32.
        labels: [tokens] int32, y.
        weights: [tokens] float32, w.
        label_smoothing: ε.

    Returns:
        The sum, and Σ_t w_t (-log p_y), the nll, which has no gradient; float32 scalars.
    """
    logits = tf.matmul(x, tf.cast(table, x.dtype), transpose_b=True)
    losses, nll = smoothed_cross_entropy(logits, labels, label_smoothing)
    return tf.reduce_sum(weights * losses), tf.stop_gradient(tf.reduce_sum(weights * nll))


_summed_cross_entropy = kernels.fast(cross_entropy.summed_cross_entropy, summed_cross_entropy)
