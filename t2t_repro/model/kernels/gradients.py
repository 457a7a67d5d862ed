"""A bias, a look-up, a softmax and layer norm with their gradients written out."""

import functools
from typing import Any

import tensorflow as tf

from t2t_repro.model.kernels import gpu


def add_bias(x: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Computes x + b, with a gradient summed in float32.

    x is [vectors, units], and the gradient by b is Σ_i ∂x_i. Replaces tf.nn.bias_add, whose
    gradient TensorFlow sums in bfloat16 on a CPU. Such a sum stops growing: with 8,000 vectors it
    is off by 10 %, and by 22 % if their mean is a tenth of their spread. A product with ones is
    summed in float32, in half the time.
    """
    if gpu.has_gpu() or x.dtype != tf.bfloat16:
        return tf.nn.bias_add(x, bias)
    return _summed_in_float32(x, bias)


@tf.custom_gradient
def _summed_in_float32(x: tf.Tensor, bias: tf.Tensor) -> tuple[tf.Tensor, Any]:
    """Adds a bias, whose gradient is a product with ones (see `add_bias`)."""

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        ones = tf.ones([1, tf.shape(upstream)[0]], upstream.dtype)
        return upstream, tf.squeeze(tf.matmul(ones, upstream), axis=0)

    return tf.nn.bias_add(x, bias), gradient


@tf.custom_gradient
def look_up(table: tf.Tensor, ids: tf.Tensor) -> tuple[tf.Tensor, Any]:
    """Gathers rows of a table by ids, with a dense gradient.

    The table is [vocab, d_model], and ids have any shape. Replaces tf.gather, whose gradient
    consists of slices. The gradient of the softmax by the same table is dense; added to slices, it
    would become slices too, one per row beside one per token. This saves memory, and little time.
    """
    rows = table.shape[0]

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, None]:
        flat = tf.reshape(upstream, [-1, upstream.shape[-1]])
        return tf.math.unsorted_segment_sum(flat, tf.reshape(ids, [-1]), rows), None

    return tf.gather(table, ids), gradient


@tf.custom_gradient
def softmax(scores: tf.Tensor) -> tuple[tf.Tensor, Any]:
    """Computes e^z / Σ e^z over a query's scores z, in float32, with a gradient that keeps less.

    Replaces the automatic gradient of `model.attention.softmax`. Scores and result are [batch,
    heads, query_length, key_length], of one dtype. In mixed precision the automatic gradient keeps
    float32 weights beside those in bfloat16: three times as much memory, which is large for long
    sentences. With w the result and g the gradient by it, the gradient by the scores is
    w (g - Σ w g).
    """
    weights = tf.cast(tf.nn.softmax(tf.cast(scores, tf.float32)), scores.dtype)

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        # Otherwise TensorFlow would cast in the forward pass, and keep both.
        with tf.control_dependencies([upstream]):
            w = tf.cast(weights, tf.float32)
        g = tf.cast(upstream, tf.float32)
        sum_w_g = tf.reduce_sum(w * g, axis=-1, keepdims=True)
        return tf.cast(w * (g - sum_w_g), scores.dtype)

    return weights, gradient


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Computes γ x̂ + β with x̂ = (x - μ) / sqrt(σ² + ε), in float32; the result has x's dtype.

    x is [..., d_model]; γ and β are [d_model], float32. Replaces the automatic differentiation of
    `model.layer_norm.layer_norm`. The closed form makes half as many passes over memory, on which a
    CPU's time depends. With g = γ ∂y, and means over the last axis, its gradient is

        ∂x = (g - mean(g) - x̂ mean(g x̂)) / sqrt(σ² + ε),  ∂γ = Σ ∂y x̂,  ∂β = Σ ∂y.
    """
    normalize = functools.partial(_normalize, epsilon=epsilon)

    # A function of those arguments alone that have a gradient.
    @tf.custom_gradient
    def compute(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tuple[tf.Tensor, Any]:
        x_hat, scale = normalize(x)

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            if gpu.has_gpu():
                # Computes x̂ from x again, rather than keep it in memory since the forward pass; and
                # rounds that of ∂γ to x's dtype, rather than write it in float32.
                d_x, d_gamma, d_beta = gpu.layer_norm_gradient(x, upstream, gamma, normalize)
            else:
                d_x, d_gamma, d_beta = _layer_norm_gradient(x_hat, scale, upstream, gamma)
            return tf.cast(d_x, x.dtype), d_gamma, d_beta

        return tf.cast(x_hat * gamma + beta, x.dtype), gradient

    return compute(x, gamma, beta)


def _normalize(x: tf.Tensor, epsilon: float) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes x̂ [..., d_model] and 1 / sqrt(σ² + ε) [..., 1], in float32."""
    x = tf.cast(x, tf.float32)
    centred = x - tf.reduce_mean(x, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    scale = tf.math.rsqrt(variance + epsilon)
    return centred * scale, scale


def _layer_norm_gradient(
    x_hat: tf.Tensor, scale: tf.Tensor, upstream: tf.Tensor, gamma: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Computes ∂x, ∂γ and ∂β of `layer_norm`, float32, in few passes over memory.

    The arguments are x̂ and 1 / sqrt(σ² + ε) of the forward pass, ∂y, and γ.
    """
    upstream = tf.cast(upstream, tf.float32)
    gamma_terms = upstream * x_hat
    # The means of g and g x̂ as products: nothing as large as x is written for them.
    share = gamma / tf.cast(tf.size(gamma), gamma.dtype)
    mean_g, mean_g_x_hat = (tf.linalg.matvec(v, share)[..., None] for v in (upstream, gamma_terms))
    d_x = (upstream * gamma - mean_g - x_hat * mean_g_x_hat) * scale
    # Sums over all but the last axis, several times as fast as reduce_sum.
    shape = [-1, upstream.shape[-1]]  # [vectors, d_model], of any number of axes.
    d_gamma = tf.raw_ops.BiasAddGrad(out_backprop=tf.reshape(gamma_terms, shape))
    d_beta = tf.raw_ops.BiasAddGrad(out_backprop=tf.reshape(upstream, shape))
    return d_x, d_gamma, d_beta
