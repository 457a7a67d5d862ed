"""Programs for GPUs only; their kernels were counted after compiling them for an H100.

On a CPU a fast kernel makes few passes over memory. On a GPU XLA fuses passes; there it pays to
start few kernels, each of which takes some microseconds, and to write little to memory:

    relu                  keeps its output only, not its input too: [tokens, d_ff] less per layer
    layer_norm_gradient   writes x̂ in the dtype of x instead of float32
    softmax_parts         divides vectors of d_model instead of those of the vocabulary
    philox                dropout starts no kernel and writes no random bits
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla  # There is no public optimization_barrier.

_compiled = ContextVar("compiled", default=False)

# The constants of Philox4x32-10; see `philox`.
_PHILOX_FACTORS = 0xD2511F53, 0xCD9E8D57
_PHILOX_STEPS = [[step * i % 2**32 for i in range(10)] for step in (0x9E3779B9, 0xBB67AE85)]

Words = Sequence[tf.Tensor]
"""uint32 tensors of one shape."""


def has_gpu() -> bool:
    """Returns whether TensorFlow sees a GPU: operations traced now will run on it."""
    return bool(tf.config.list_physical_devices("GPU"))


@contextmanager
def compiled(by_xla: bool) -> Iterator[None]:
    """Sets whether XLA compiles the graph that is traced within the context."""
    token = _compiled.set(by_xla)
    try:
        yield
    finally:
        _compiled.reset(token)


def fuses() -> bool:
    """Returns whether XLA fuses operations traced now into kernels of a GPU."""
    return _compiled.get() and has_gpu()


def optimization_barrier(*tensors: tf.Tensor) -> list[tf.Tensor]:
    """Returns the same tensors behind a barrier, where XLA compiles for a GPU.

    XLA fuses nothing across it, and does not merge equal computations on its two sides. The barrier
    has no gradient.
    """
    return list(xla.optimization_barrier(*tensors)) if fuses() else list(tensors)


def relu(x: tf.Tensor) -> tf.Tensor:
    """Computes max(0, x), on a GPU with a gradient that reads the result alone.

    The gradient is 1 where the result is not 0. That of tf.nn.relu reads the input, so XLA would
    keep the input in memory, and could not fuse max(0, x) into the product before it.
    """
    return _relu(x) if has_gpu() else tf.nn.relu(x)


@tf.custom_gradient
def _relu(x: tf.Tensor) -> tuple[tf.Tensor, Any]:
    """Computes `relu`, whose gradient needs the result alone."""
    y = tf.nn.relu(x)

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        return tf.where(tf.not_equal(y, 0), upstream, tf.zeros_like(upstream))

    return y, gradient


def layer_norm_gradient(
    x: tf.Tensor,
    upstream: tf.Tensor,
    gamma: tf.Tensor,
    normalize: Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]],
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Computes ∂x, ∂γ and ∂β of `gradients.layer_norm`, float32, for XLA to fuse.

    XLA would write x̂ ∂y in float32, which ∂γ and ∂x both read. Behind the barriers it writes x̂ in
    the dtype of x for ∂γ only; the kernel of ∂x computes x̂ again.

    Args:
        x: [..., d_model].
        upstream: ∂y, the shape of `x`.
        gamma: [d_model], float32.
        normalize: x → x̂ and 1 / sqrt(σ² + ε), float32.
    """
    dtype = x.dtype
    # The x̂ of the forward pass would have to be kept until now.
    x, upstream = optimization_barrier(x, upstream)
    upstream = tf.cast(upstream, tf.float32)
    x_hat, scale = normalize(x)
    g = upstream * gamma
    mean_g, mean_g_x_hat = (tf.reduce_mean(v, axis=-1, keepdims=True) for v in (g, g * x_hat))
    d_x = (g - mean_g - x_hat * mean_g_x_hat) * scale
    (rounded_x_hat,) = optimization_barrier(tf.cast(x_hat, dtype))
    gamma_terms = upstream * tf.cast(rounded_x_hat, tf.float32)
    shape = [-1, upstream.shape[-1]]  # [vectors, d_model], of any number of axes.
    d_gamma = tf.reduce_sum(tf.reshape(gamma_terms, shape), axis=0)
    d_beta = tf.reduce_sum(tf.reshape(upstream, shape), axis=0)
    return d_x, d_gamma, d_beta


def softmax_parts(logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Computes the numerator and denominator of a softmax, and its log normalizer.

    They are e [tokens, vocab] and s [tokens, 1] with softmax(z) = e / s, and log Σ_v exp z_v. The
    division by s can then be made where vectors are as wide as the model. The logits z are float32.
    """
    largest = tf.reduce_max(logits, axis=1, keepdims=True)
    e = tf.exp(logits - largest)
    s = tf.reduce_sum(e, axis=1, keepdims=True)
    return e, s, largest + tf.math.log(s)


def philox(counter: Words, key: Words | tuple[int, int]) -> Words:
    """Computes four words of random bits by Philox4x32-10 (Salmon et al., 2011).

    Every element needs a counter of its own. XLA makes kernels of TensorFlow's operation that write
    all random bits to memory; what is written here is fused into the kernel that uses the bits.
    Each of 10 rounds replaces the four words c of the counter, with the two words k of the key:

        (c_0, c_1, c_2, c_3) → (high(M_1 c_2) ⊕ c_1 ⊕ k_0, low(M_1 c_2),
                                high(M_0 c_0) ⊕ c_3 ⊕ k_1, low(M_0 c_0)),

    with the high and low halves of 64-bit products, and M of `_PHILOX_FACTORS`. After each round
    the constant W_i is added to k_i; `_PHILOX_STEPS` has its multiples.
    """
    # The keys of all rounds at once: XLA would make a kernel of each sum.
    keys_0 = tf.constant(_PHILOX_STEPS[0], tf.uint32) + key[0]
    keys_1 = tf.constant(_PHILOX_STEPS[1], tf.uint32) + key[1]
    for k_0, k_1 in zip(tf.unstack(keys_0), tf.unstack(keys_1), strict=True):
        c_0, c_1, c_2, c_3 = counter
        low_0, high_0 = _product_halves(c_0, _PHILOX_FACTORS[0])
        low_1, high_1 = _product_halves(c_2, _PHILOX_FACTORS[1])
        counter = (high_1 ^ c_1 ^ k_0, low_1, high_0 ^ c_3 ^ k_1, low_0)
    return counter


def _product_halves(word: tf.Tensor, factor: int) -> Words:
    """Returns the lower and the upper 32 bits of the 64-bit product of a word and a factor."""
    return halves(tf.cast(word, tf.uint64) * tf.constant(factor, tf.uint64))


def halves(bits: tf.Tensor) -> Words:
    """Returns the lower and the upper 32 bits of 64, as uint32."""
    return tf.cast(bits, tf.uint32), tf.cast(shifted(bits, 32), tf.uint32)


def joined(words: Words) -> Words:
    """Joins pairs of words, the lower half first, to uint64: the inverse of `halves`."""
    wide = [tf.cast(word, tf.uint64) for word in words]
    pairs = zip(wide[::2], wide[1::2], strict=True)
    return [low | tf.bitwise.left_shift(high, tf.constant(32, tf.uint64)) for low, high in pairs]


def shifted(bits: tf.Tensor, places: int | tf.Tensor) -> tf.Tensor:
    """Shifts unsigned integers to the right: bits >> places."""
    return tf.bitwise.right_shift(bits, tf.cast(places, bits.dtype))
