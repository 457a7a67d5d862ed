"""Masks of attention, boolean, `True` = may attend; and forbidden ids.

Every mask is broadcastable to [batch, query_length, key_length]; masks combine with `&`. Masks that
Keras attaches to tensors are [batch, length]: see `with_implicit_mask`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf
from keras import ops

from t2t_repro.vocabulary import PAD_ID


class AttentionWindow(NamedTuple):
    """The positions that a position may attend to, besides its own.

    Attributes:
        before: how many before its own, or a scalar tensor.
        after: how many after its own.
    """

    before: int | tf.Tensor
    after: int


def without_ids(scores: tf.Tensor, ids: Sequence[int]) -> tf.Tensor:
    """Sets the scores or logits [..., vocab] of forbidden ids, if any, to -inf."""
    if not ids:
        return scores
    all_ids = tf.range(tf.shape(scores)[-1])
    is_forbidden = tf.reduce_any(all_ids[:, None] == [*ids], axis=1)
    return tf.where(is_forbidden, tf.constant(float("-inf"), scores.dtype), scores)


def padding_mask(ids: tf.Tensor) -> tf.Tensor:
    """Allows attention to ids that are not PAD: [batch, key_length] → [batch, 1, key_length]."""
    return ops.expand_dims(ops.not_equal(ids, PAD_ID), 1)


def causal_mask(length: int | tf.Tensor, may_be_seen: tf.Tensor | None = None) -> tf.Tensor:
    """Allows position i to attend to positions j <= i (paper, section 3.2.3).

    A position may always see itself. Otherwise one whose keys are all masked would attend to all
    positions alike, later ones too.

    Args:
        length: positions of the sentences.
        may_be_seen: boolean, broadcastable to [batch, length, length]; None allows all.

    Returns:
        [1, length, length], or [batch, length, length] with `may_be_seen`; boolean.
    """
    return neighbourhood_mask(length, AttentionWindow(length, 0), may_be_seen)


def with_implicit_mask(mask: tf.Tensor | None, keys: tf.Tensor) -> tf.Tensor | None:
    """Combines a mask with Keras's implicit mask of the keys.

    Keras attaches a mask, boolean [batch, key_length], to the output of some layers, such as
    `Embedding(mask_zero=True)`, and of all later layers that support masking.

    Args:
        mask: broadcastable to [batch, query_length, key_length], or None.
        keys: [batch, key_length, width], the vectors attended to; packed ones have no such mask.

    Returns:
        both masks together, broadcastable like `mask`; None if there is neither.
    """
    # Keras has no public function that reads it.
    implicit = getattr(keys, "_keras_mask", None)
    if implicit is None:
        return mask
    for_all_queries = ops.expand_dims(implicit, 1)  # [batch, 1, key_length]
    return for_all_queries if mask is None else mask & for_all_queries


def window_of(neighbourhood: int, is_causal: bool = False) -> AttentionWindow:
    """Returns the window of a neighbourhood r: r // 2 positions before and after.

    If it is causal, there are none after.
    """
    return AttentionWindow(neighbourhood // 2, 0 if is_causal else neighbourhood // 2)


def neighbourhood_mask(
    length: int | tf.Tensor, window: AttentionWindow, may_be_seen: tf.Tensor | None = None
) -> tf.Tensor:
    """Allows a position to attend to itself, and to those in its window that may be seen.

    A position always sees itself, even if `may_be_seen` hides it.

    Args:
        length: positions of the sentences.
        window: the window of every position.
        may_be_seen: boolean, broadcastable to [batch, length, length]; None allows all.

    Returns:
        [1, length, length], or [batch, length, length] with `may_be_seen`; boolean.
    """
    positions = ops.arange(length)
    # j - i for query position i and key position j.
    distance = (positions[None, :] - positions[:, None])[None]
    is_near = (distance >= -window.before) & (distance <= window.after)
    return is_near if may_be_seen is None else is_near & (may_be_seen | (distance == 0))


def apply_mask(scores: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
    """Lowers forbidden scores by 1e9, as T2T does.

    Their softmax is then zero. The value is finite: a row without a permitted key, as in a batch's
    empty rows, gives a uniform distribution and not NaN.

    Args:
        scores: [batch, heads, query_length, key_length], as is the result.
        mask: broadcastable to [batch, query_length, key_length], boolean; None for no mask.
    """
    if mask is None:
        return scores
    # A mask [key_length] broadcasts without an axis of heads.
    for_heads = ops.expand_dims(mask, -3) if len(mask.shape) > 1 else mask
    penalties = ops.where(for_heads, 0.0, 1e9)
    # Subtracted, not selected: the gradient of a difference is free, and scores are far below 1e9.
    # Not added: outside of training TensorFlow on a CPU would fuse the sum into the product, which
    # then takes hundreds of times as long under a causal mask.
    return scores - ops.cast(penalties, scores.dtype)
