"""Who may attend to whom: boolean masks, `True` = may attend.

Every mask is broadcastable to [batch, query_length, key_length]; masks combine with `&`. The
masks that Keras attaches to tensors are [batch, length]: see `with_implicit_mask`.
"""

from typing import NamedTuple

import tensorflow as tf
from keras import ops

from t2t_repro.errors import UserError
from t2t_repro.vocabulary import PAD_ID


class AttentionWindow(NamedTuple):
    """How far a position sees.

    Attributes:
        before: positions before its own.
        after: positions after its own.
    """

    before: int
    after: int


def padding_mask(ids: tf.Tensor) -> tf.Tensor:
    """Allows attention to every position that holds a token.

    Args:
        ids: [batch, key_length], token ids.

    Returns:
        [batch, 1, key_length], boolean.
    """
    return ops.expand_dims(ops.not_equal(ids, PAD_ID), 1)


def causal_mask(length: int | tf.Tensor, may_be_seen: tf.Tensor | None = None) -> tf.Tensor:
    """Allows position i to attend to positions j <= i (paper, section 3.2.3).

    Args:
        length: of the sentences.
        may_be_seen: boolean, broadcastable to [batch, length, length]; None for all. A position may
            always see itself: with every key masked it would attend to all of them alike, later
            ones too.

    Returns:
        [1, length, length], or [batch, length, length] with what may be seen; boolean.
    """
    distance = _distances(length)
    return _seen(distance <= 0, distance, may_be_seen)


def with_implicit_mask(mask: tf.Tensor | None, keys: tf.Tensor) -> tf.Tensor | None:
    """Combines a mask with the implicit mask that Keras attached to the keys, if there is one.

    Keras attaches such a mask, boolean [batch, key_length], to the output of some layers, such as
    `Embedding(mask_zero=True)`, and of all layers behind them that support masking.

    Args:
        mask: broadcastable to [batch, query_length, key_length], or None for no mask.
        keys: [batch, key_length, width], what is attended to.

    Returns:
        broadcastable to [batch, query_length, key_length], or None for no mask.
    """
    implicit = getattr(keys, "_keras_mask", None)
    if implicit is None:
        return mask
    implicit = ops.expand_dims(implicit, 1)
    return implicit if mask is None else mask & implicit


def reach_of(neighbourhood: int, is_causal: bool = False) -> AttentionWindow:
    """Says how far a position sees in a neighbourhood of size r (paper, section 4).

    Args:
        neighbourhood: r.
        is_causal: whether what comes is hidden.

    Raises:
        UserError: if r is below 1.
    """
    if neighbourhood < 1:
        raise UserError(
            f"neighbourhood is {neighbourhood}, expected at least 1, the position itself: "
            "leave it out, or give None, for attention to all positions."
        )
    return AttentionWindow(neighbourhood // 2, 0 if is_causal else neighbourhood // 2)


def neighbourhood_mask(
    length: int | tf.Tensor, reach: AttentionWindow, may_be_seen: tf.Tensor | None = None
) -> tf.Tensor:
    """Allows attention to positions within reach that may be seen, and to a position itself always.

    Args:
        length: of the sentences.
        reach: how far a position sees.
        may_be_seen: boolean, broadcastable to [batch, length, length]; None for all.

    Returns:
        [1, length, length], or [batch, length, length] with what may be seen; boolean.
    """
    distance = _distances(length)
    is_near = (distance >= -reach.before) & (distance <= reach.after)
    return _seen(is_near, distance, may_be_seen)


def _distances(length: int | tf.Tensor) -> tf.Tensor:
    """How far key position j is behind query position i, j - i: [1, length, length]."""
    positions = ops.arange(length)
    return (positions[None, :] - positions[:, None])[None]


def _seen(is_within: tf.Tensor, distance: tf.Tensor, may_be_seen: tf.Tensor | None) -> tf.Tensor:
    return is_within if may_be_seen is None else is_within & (may_be_seen | (distance == 0))


def apply_mask(scores: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
    """Makes forbidden scores so low that their softmax is zero.

    The low value is finite (T2T's -1e9): a row without a single permitted key, as in a batch's
    empty rows, gives a uniform distribution and not NaN.

    Args:
        scores: [batch, heads, query_length, key_length], floating point.
        mask: broadcastable to [batch, query_length, key_length], boolean, or None for no mask.

    Returns:
        [batch, heads, query_length, key_length], the dtype of `scores`.
    """
    if mask is None:
        return scores
    # Subtracted, not selected: the gradient of a difference is free, and no score is large beside
    # 1e9. Not added: outside of training TensorFlow on a CPU would fuse the sum into the product,
    # which takes hundreds of times as long under a causal mask.
    of_heads = ops.expand_dims(mask, -3) if len(mask.shape) > 1 else mask
    high = ops.where(of_heads, 0.0, 1e9)
    return scores - ops.cast(high, scores.dtype)
