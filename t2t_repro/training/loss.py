"""Label-smoothed cross entropy (paper, section 5.4), as sums over target tokens."""

import math
from typing import Any, NamedTuple

import tensorflow as tf

from t2t_repro.layers.embedding import look_up
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


def loss_sums(
    vectors: tf.Tensor, table: tf.Tensor, target: tf.Tensor, label_smoothing: float
) -> LossSums:
    """Sums the loss of a batch over its target tokens, from the decoder's output.

    With z = x E^T the logits of a token, y its label and low = ε / (V - 1), the cross entropy
    against 1 - ε on the label and low on every other entry is

        -Σ_v q_v log softmax(z)_v = nll + low · (V z_y - Σ_v z_v),   nll = -log softmax(z)_y,

    whose second term is low · x · (V E_y - Σ_v E_v): neither the soft targets nor the logits of
    the whole batch are ever made.

    Args:
        vectors: [batch, target_length, d_model], what the softmax projection reads.
        table: [vocab, d_model], E.
        target: [batch, target_length], token ids; PAD counts for nothing.
        label_smoothing: ε.

    Returns:
        the sums.

    Raises:
        ValueError: if the shapes do not fit each other.
    """
    if vectors.shape.rank != 3 or target.shape.rank != 2 or table.shape[1] != vectors.shape[2]:
        raise ValueError(
            f"vectors {vectors.shape}, table {table.shape}, target {target.shape}: expected "
            "[batch, target_length, d_model], [vocab, d_model] and [batch, target_length]."
        )
    vocab_size, d_model = table.shape
    labels = tf.reshape(tf.cast(target, tf.int32), [-1])
    weights = tf.cast(labels != PAD_ID, tf.float32)
    x = tf.reshape(vectors, [-1, d_model])
    nll = summed_nll(x, tf.cast(table, x.dtype), labels, weights)
    tokens = tf.reduce_sum(weights)
    if label_smoothing == 0.0:
        return LossSums(loss=nll, nll=nll, tokens=tokens)
    x = tf.cast(x, tf.float32)
    spread = vocab_size * look_up(table, labels) - tf.reduce_sum(table, axis=0)
    low = label_smoothing / (vocab_size - 1)
    smoothing = low * tf.reduce_sum(weights * tf.reduce_sum(x * spread, axis=1))
    entropy = smoothing_entropy(vocab_size, label_smoothing)
    return LossSums(loss=nll + smoothing - entropy * tokens, nll=nll, tokens=tokens)


@tf.custom_gradient
def summed_nll(
    x: tf.Tensor, table: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor
) -> tuple[tf.Tensor, Any]:
    """Computes -Σ_t w_t log softmax(x_t E^T)_{y_t} without keeping the logits.

    Logits of a whole batch, and as many gradients of them, are what a translation model needs most
    memory for. Here they live for some tokens at a time, which on a CPU stay in its cache. Since
    what is asked for is one sum, its gradient is computed in the same pass.

    Args:
        x: [tokens, d_model].
        table: [vocab, d_model], E, the dtype of `x`.
        labels: [tokens] int32, y.
        weights: [tokens] float32, w.

    Returns:
        the sum, a float32 scalar.
    """
    tokens = tf.shape(x)[0]
    at_once = max(1, _logits_at_once() // table.shape[0])
    blocks = -(-tokens // at_once)

    def in_blocks(values: tf.Tensor) -> tf.Tensor:
        missing = [[0, blocks * at_once - tokens]] + [[0, 0]] * (values.shape.rank - 1)
        return tf.reshape(tf.pad(values, missing), [blocks, at_once, *values.shape[1:]])

    x_blocks, label_blocks, weight_blocks = (in_blocks(v) for v in (x, labels, weights))

    def add_block(
        block: tf.Tensor, total: tf.Tensor, d_table: tf.Tensor, d_x: tf.TensorArray
    ) -> tuple:
        x, weights = x_blocks[block], weight_blocks[block]
        logits = tf.cast(tf.matmul(x, table, transpose_b=True), tf.float32)
        nll, softmax_minus_label = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(
            features=logits, labels=label_blocks[block]
        )
        d_logits = tf.cast(softmax_minus_label, x.dtype)
        row_weights = tf.cast(weights, x.dtype)[:, None]
        d_block = tf.matmul(d_logits, table) * row_weights
        d_table += tf.cast(tf.matmul(d_logits, x * row_weights, transpose_a=True), tf.float32)
        total += tf.reduce_sum(weights * nll)
        return block + 1, total, d_table, d_x.write(block, d_block)

    _, total, d_table, d_x_blocks = tf.while_loop(
        lambda block, *_: block < blocks,
        add_block,
        (
            tf.constant(0),
            tf.zeros([]),
            tf.zeros(table.shape),
            tf.TensorArray(x.dtype, size=blocks, element_shape=[at_once, x.shape[1]]),
        ),
        parallel_iterations=1,
    )
    d_x = tf.reshape(d_x_blocks.stack(), [-1, x.shape[1]])[:tokens]

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, None, None]:
        d_total = tf.cast(upstream, x.dtype)
        return d_x * d_total, tf.cast(d_table, table.dtype) * d_total, None, None

    return total, gradient


def _logits_at_once() -> int:
    """As many as fill a GPU, or as stay in a CPU's cache (16 MiB)."""
    return 2**28 if tf.config.list_physical_devices("GPU") else 2**22
