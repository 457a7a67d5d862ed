"""Philox, a generator of random bits, written out: every element draws its own.

TensorFlow's operations have it too (Salmon et al. 2011, Philox4x32-10). But of those XLA makes
kernels that write all bits to a GPU's memory. What is written out here goes into the kernel that
needs the bits.
"""

from collections.abc import Sequence

import tensorflow as tf

ROUNDS = 10
_FACTORS = 0xD2511F53, 0xCD9E8D57
_KEY_STEPS = [[step * i % 2**32 for i in range(ROUNDS)] for step in (0x9E3779B9, 0xBB67AE85)]

Words = Sequence[tf.Tensor]


def philox(counter: Words, key: Words | tuple[int, int]) -> Words:
    """Computes ten rounds of a cipher.

    A round makes of the words c and k

        (c_0, c_1, c_2, c_3) → (high(M_1 c_2) ⊕ c_1 ⊕ k_0, low(M_1 c_2),
                                high(M_0 c_0) ⊕ c_3 ⊕ k_1, low(M_0 c_0)),

    high and low being the halves of a product of 64 bits. After each, W_i is added to k_i.

    Args:
        counter: c, four words, uint32.
        key: k, two words.

    Returns:
        four words of random bits, a function of counter and key.
    """
    # Those of all rounds together: of sums one by one XLA makes kernels one by one.
    keys = [tf.constant(steps, tf.uint32) + k for k, steps in zip(key, _KEY_STEPS, strict=True)]
    for k_0, k_1 in zip(*map(tf.unstack, keys), strict=True):
        (low_0, high_0), (low_1, high_1) = (
            halves(tf.cast(word, tf.uint64) * tf.constant(factor, tf.uint64))
            for word, factor in zip(counter[::2], _FACTORS, strict=True)
        )
        counter = (high_1 ^ counter[1] ^ k_0, low_1, high_0 ^ counter[3] ^ k_1, low_0)
    return counter


def halves(bits: tf.Tensor) -> Words:
    """The lower and the upper 32 bits of 64, as uint32."""
    return tf.cast(bits, tf.uint32), tf.cast(shifted(bits, 32), tf.uint32)


def joined(words: Words) -> Words:
    """Of each two words one number of 64 bits, the lower half first: what `halves` divides."""
    wide = [tf.cast(word, tf.uint64) for word in words]
    return [
        low | tf.bitwise.left_shift(high, tf.constant(32, tf.uint64))
        for low, high in zip(wide[::2], wide[1::2], strict=True)
    ]


def shifted(bits: tf.Tensor, places: int | tf.Tensor) -> tf.Tensor:
    """Shifts unsigned integers to the right: bits >> places."""
    return tf.bitwise.right_shift(bits, tf.cast(places, bits.dtype))
