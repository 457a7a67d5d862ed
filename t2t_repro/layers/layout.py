"""How the vectors of a batch lie in memory: padded, or packed so that no work goes into padding.

All but attention works position by position and does not care. So a layout is asked where vectors
are made, where heads are split for attention, and where they are joined again.
"""

from typing import Any, Protocol

import tensorflow as tf
from keras import ops

from t2t_repro.vocabulary import PAD_ID


class Layout(Protocol):
    """What attention and the stacks ask of a layout."""

    def length(self, x: tf.Tensor) -> int | tf.Tensor:
        """Length, padding included, of the sentences whose vectors are `x`."""

    def arrange_ids(self, ids: tf.Tensor) -> tf.Tensor:
        """[batch, length] → the ids in this layout."""

    def arrange(self, x: tf.Tensor) -> tf.Tensor:
        """[batch, length, width] → the vectors in this layout."""

    def pad(self, x: tf.Tensor) -> tf.Tensor:
        """Vectors → [batch, length, width]."""

    def split_heads(self, x: tf.Tensor, num_heads: int) -> tf.Tensor:
        """Vectors of width heads·depth → [batch, heads, length, depth]."""

    def join_heads(self, context: tf.Tensor) -> tf.Tensor:
        """[batch, heads, length, depth] → vectors of width heads·depth."""


class Padded:
    """[batch, length, d_model], as the ids lie."""

    def length(self, x: tf.Tensor) -> int | tf.Tensor:
        """Length of the sentences: the second axis."""
        return ops.shape(x)[1]

    def arrange_ids(self, ids: tf.Tensor) -> tf.Tensor:
        """[batch, length] → the same."""
        return ids

    def arrange(self, x: tf.Tensor) -> tf.Tensor:
        """[batch, length, width] → the same."""
        return x

    def pad(self, x: tf.Tensor) -> tf.Tensor:
        """[batch, length, width] → the same."""
        return x

    def split_heads(self, x: tf.Tensor, num_heads: int) -> tf.Tensor:
        """[batch, length, heads·depth] → [batch, heads, length, depth]."""
        shape = (-1, ops.shape(x)[1], num_heads, x.shape[-1] // num_heads)
        return ops.transpose(ops.reshape(x, shape), (0, 2, 1, 3))

    def join_heads(self, context: tf.Tensor) -> tf.Tensor:
        """[batch, heads, length, depth] → [batch, length, heads·depth]."""
        _, heads, _, depth = context.shape
        context = ops.transpose(context, (0, 2, 1, 3))
        return ops.reshape(context, (-1, ops.shape(context)[1], heads * depth))


PADDED = Padded()


class Packed:
    """[1, packed, d_model]: the tokens of all sentences, one behind the other.

    Where there is padding, one vector before them stands for all of it. Nothing is lost by that:
    what padding computes reaches no token, and no gradient reaches it. (Padding follows a sentence:
    as a key it is masked, or hidden by causality; and where there is a target there is a source.)

    The number of tokens is known to no compiler, so that XLA cannot compile it. Moving rows to
    their heads costs what `Padded`'s transposition costs.

    Args:
        ids: [batch, length], token ids, PAD after the end of every sentence.
    """

    def __init__(self, ids: tf.Tensor) -> None:
        self._batch, self._length = tf.unstack(tf.shape(ids))
        is_token = tf.reshape(tf.not_equal(ids, PAD_ID), [-1])
        padding, tokens = tf.where(~is_token)[:1, 0], tf.where(is_token)[:, 0]
        self._places = tf.cast(tf.concat([padding, tokens], axis=0), tf.int32)
        counted = tf.cast(is_token, tf.int32)
        self._rows = (tf.cumsum(counted) - 1 + tf.size(padding)) * counted

    def length(self, x: tf.Tensor) -> tf.Tensor:
        """Length of the sentences, padding included, whatever `x`."""
        return self._length

    def arrange_ids(self, ids: tf.Tensor) -> tf.Tensor:
        """[batch, length] → [1, packed]."""
        return tf.gather(tf.reshape(ids, [-1]), self._places)[None]

    def arrange(self, x: tf.Tensor) -> tf.Tensor:
        """[batch, length, width] → [1, packed, width]."""
        return _move(tf.reshape(x, [-1, x.shape[-1]]), self._places, self._rows)[None]

    def pad(self, x: tf.Tensor) -> tf.Tensor:
        """[1, packed, width] → [batch, length, width]."""
        rows = _move(x[0], self._rows, self._places)
        return tf.reshape(rows, [self._batch, self._length, x.shape[-1]])

    def split_heads(self, x: tf.Tensor, num_heads: int) -> tf.Tensor:
        """[1, packed, heads·depth] → [batch, heads, length, depth]."""
        depth = x.shape[-1] // num_heads
        there, back = self._head_rows(num_heads)
        heads = _move(tf.reshape(x, [-1, depth]), there, back)
        return tf.reshape(heads, [self._batch, num_heads, self._length, depth])

    def join_heads(self, context: tf.Tensor) -> tf.Tensor:
        """[batch, heads, length, depth] → [1, packed, heads·depth]."""
        _, heads, _, depth = context.shape
        there, back = self._head_rows(heads)
        rows = _move(tf.reshape(context, [-1, depth]), back, there)
        return tf.reshape(rows, [1, -1, heads * depth])

    def _head_rows(self, num_heads: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Where each row of [batch, heads, length] is found in [tokens, heads], and back."""
        head = tf.range(num_heads)
        row = tf.reshape(self._rows, [self._batch, 1, self._length])
        there = row * num_heads + head[:, None]
        sentence, position = self._places // self._length, self._places % self._length
        back = (sentence[:, None] * num_heads + head) * self._length + position[:, None]
        return tf.reshape(there, [-1]), tf.reshape(back, [-1])


def _move(rows: tf.Tensor, there: tf.Tensor, back: tf.Tensor) -> tf.Tensor:
    """Gathers rows; the gradient gathers them back.

    TensorFlow's own gradient of a gather adds up slices, for rows that are read more than once.
    Here only padding is, and its gradient is zero.

    Args:
        rows: [rows, depth].
        there: [moved], which row is read.
        back: [rows], where a row was moved to; one of the places if there are several.

    Returns:
        [moved, depth].
    """

    @tf.custom_gradient
    def gather(rows: tf.Tensor) -> tuple[tf.Tensor, Any]:
        return tf.gather(rows, there), lambda upstream: tf.gather(upstream, back)

    return gather(rows)
