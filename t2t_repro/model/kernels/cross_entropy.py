"""Softmax and label-smoothed cross entropy, some tokens at a time.

Replaces `model.loss.summed_cross_entropy` and its automatic gradient. The logits of a whole batch,
and their gradients, would take most of a translation model's memory. Here they exist for some
tokens at a time, few enough for a CPU's cache.
"""

from typing import Any

import tensorflow as tf

from t2t_repro.model.kernels import gpu


def summed_cross_entropy(
    x: tf.Tensor, table: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, label_smoothing: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes -Σ_t w_t Σ_v q_v log softmax(x_t E^T)_v without keeping the logits.

    The arguments are those of `model.loss.summed_cross_entropy`: x [tokens, d_model], the table E
    [vocab, d_model] float32, labels y [tokens] int32, weights w [tokens] float32, and ε. The result
    is one sum, so its gradient p - q is computed in the same pass.

    The smoothed labels q are low = ε / (V - 1) everywhere, and 1 - ε = low + high at the label y.
    So without a tensor of q, the cross entropy of a token is

        log Σ_v exp z_v - low · x·Σ_v E_v - high · x·E_y,

    and of its gradients (p - q) E and (p - q)^T x only the parts p E and p^T x are as wide as the
    vocabulary.

    Returns:
        the sum, and Σ_t w_t (-log p_y), the nll; float32 scalars. The nll has no gradient.
    """
    low = label_smoothing / (table.shape[0] - 1)
    high = 1.0 - label_smoothing - low

    @tf.custom_gradient
    def compute(x: tf.Tensor, table: tf.Tensor) -> tuple[tuple[tf.Tensor, tf.Tensor], Any]:
        log_normalizers, p_table, p_x = _softmax_passes(x, table, weights)
        x32 = tf.cast(x, tf.float32)
        w = weights[:, None]
        label_rows = tf.gather(table, labels)
        table_sum = tf.reduce_sum(table, axis=0)
        label_logits = tf.reduce_sum(x32 * label_rows, axis=1)
        logit_sums = tf.linalg.matvec(x32, table_sum)
        nll = tf.reduce_sum(weights * (log_normalizers - label_logits))
        cross_entropies = log_normalizers - low * logit_sums - high * label_logits
        cross_entropy = tf.reduce_sum(weights * cross_entropies)
        # The gradients are computed here, where the products with p are at hand, for an upstream
        # gradient of 1; `gradient` multiplies them by the upstream one.
        d_x = w * (tf.cast(p_table, tf.float32) - low * table_sum - high * label_rows)
        weighted_x = w * x32
        d_table = p_x - tf.math.unsorted_segment_sum(high * weighted_x, labels, table.shape[0])
        d_table -= low * tf.reduce_sum(weighted_x, axis=0)

        def gradient(upstream: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return tf.cast(d_x * upstream, x.dtype), d_table * upstream

        return (cross_entropy, nll), gradient

    return compute(x, table)


def _softmax_passes(
    x: tf.Tensor, table: tf.Tensor, weights: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Computes the parts of loss and gradient that need p, in blocks.

    Args:
        x: [tokens, d_model].
        table: [vocab, d_model], E.
        weights: [tokens], w.

    Returns:
        log Σ_v exp(x E^T)_v [tokens] in float32, p E [tokens, d_model] in the dtype of `x`, and
        p^T (w x) [vocab, d_model] in float32.
    """
    tokens, d_model = tf.shape(x)[0], x.shape[1]
    most_tokens, multiple = tokens_at_once(table.shape[0])
    # Blocks of equal size: a padded last one would cost as much as a full one. Without tokens there
    # is one block of size 0.
    blocks = tf.maximum(-(-tokens // most_tokens), 1)
    block_size = -(-tokens // (blocks * multiple)) * multiple
    table = tf.cast(table, x.dtype)

    def in_blocks(values: tf.Tensor) -> tf.Tensor:
        """Splits [tokens, width] → [blocks, block_size, width], zeros at the end."""
        padded = tf.pad(values, [[0, blocks * block_size - tokens], [0, 0]])
        return tf.reshape(padded, [blocks, block_size, values.shape[1]])

    x_blocks = in_blocks(x)
    weight_blocks = in_blocks(weights[:, None])
    softmax_parts = gpu.softmax_parts if gpu.has_gpu() else _softmax_parts

    def add_block(
        block: tf.Tensor, p_x: tf.Tensor, normalizers: tf.TensorArray, p_table: tf.TensorArray
    ) -> tuple:
        """Adds a block's part of p^T (w x), and writes its normalizers and its rows of p E."""
        x_block = x_blocks[block]
        logits = tf.cast(tf.matmul(x_block, table, transpose_b=True), tf.float32)
        # The softmax p is e / s, with e [block_size, vocab] and s [block_size, 1]. What is divided
        # by s is only as wide as the model: w x in p^T (w x), and the product e E in p E.
        e, s, log_normalizer = softmax_parts(logits)
        e = tf.cast(e, x.dtype)
        weighted = tf.cast(tf.cast(x_block, tf.float32) * (weight_blocks[block] / s), x.dtype)
        p_x += tf.cast(tf.matmul(e, weighted, transpose_a=True), tf.float32)
        block_p_table = tf.cast(tf.cast(tf.matmul(e, table), tf.float32) / s, x.dtype)
        normalizers = normalizers.write(block, tf.squeeze(log_normalizer, axis=1))
        return block + 1, p_x, normalizers, p_table.write(block, block_p_table)

    normalizers = tf.TensorArray(tf.float32, size=blocks, element_shape=[None])
    p_table = tf.TensorArray(x.dtype, size=blocks, element_shape=[None, d_model])
    _, p_x, normalizers, p_table = tf.while_loop(
        lambda block, *_: block < blocks,
        add_block,
        (tf.constant(0), tf.zeros(table.shape), normalizers, p_table),
        parallel_iterations=1,  # More would keep the logits of several blocks.
    )
    p_table = tf.reshape(p_table.stack(), [-1, d_model])[:tokens]
    return tf.reshape(normalizers.stack(), [-1])[:tokens], p_table, p_x


def _softmax_parts(logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Computes `gpu.softmax_parts` with e = p and s = 1.

    On a CPU oneDNN's softmax is faster than TensorFlow's exp. log Σ_v exp z_v is z - log p at the
    largest logit.
    """
    p = tf.nn.softmax(logits)
    largest, largest_p = (tf.reduce_max(v, axis=1, keepdims=True) for v in (logits, p))
    return p, tf.ones([]), largest - tf.math.log(largest_p)


def tokens_at_once(vocab_size: int) -> tuple[int, int]:
    """Returns the most tokens of a block, and a number of which its size must be a multiple."""
    # As many logits as fill a GPU, or as fit in a CPU's cache (16 MiB). On a GPU tokens come in
    # multiples of 8: XLA would copy others to pad them.
    logits, multiple = (2**28, 8) if gpu.has_gpu() else (2**22, 1)
    return max(1, logits // vocab_size), multiple
