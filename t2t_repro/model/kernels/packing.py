"""Vectors without those of padding: the tokens of a batch, one behind the other.

Replaces [batch, length, d_model] as the ids lie, in training. All but attention works position by
position and does not care; attention asks for the heads of whole sentences. So how vectors lie in
memory is known to the vectors (`Packed`) and to the two places where heads are split and joined.
A tenth to a third of [batch, length] is padding, and no work goes into it.

There is room for a number of vectors, `slots`. Slot 0 stands for all padding, and the tokens follow
it. The number of slots, unlike that of tokens, may be known to a compiler: then all shapes are.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

import tensorflow as tf

from t2t_repro.vocabulary import PAD_ID

Call = TypeVar("Call", bound=Callable[..., Any])


class Packed(NamedTuple):
    """Vectors [1, slots, width], and where each stands in [batch, length].

    All padding can share one vector: no token reads what padding computes, and padding gets no
    gradient. (Padding follows a sentence: as a key it is masked, or hidden by the causal mask; and
    a row with a target has a source.) Slots beyond the last token stand for padding, too.

    Gathering rows into heads costs what transposing padded vectors costs. To Keras this is a plain
    structure of tensors.

    Attributes:
        vectors: [1, slots, width].
        places: of the tokens.
    """

    vectors: tf.Tensor
    places: "PackedLayout"

    @property
    def shape(self) -> tf.TensorShape:
        """[1, slots, width]."""
        return self.vectors.shape

    @property
    def length(self) -> tf.Tensor:
        """Length of the sentences, padding included."""
        return self.places.length

    def map(self, function: Callable[[tf.Tensor], tf.Tensor]) -> "Packed":
        """Applies to the vectors what treats all of them alike."""
        return Packed(function(self.vectors), self.places)

    def __add__(self, other: "Packed") -> "Packed":  # type: ignore[override]
        return self.map(lambda vectors: vectors + other.vectors)

    def split_heads(self, num_heads: int) -> tf.Tensor:
        """The vectors, of width heads·depth → [batch, heads, length, depth]."""
        return self.places.split_heads(self.vectors, num_heads)

    def with_heads(self, heads: tf.Tensor) -> "Packed":
        """[batch, heads, length, depth] → vectors of width heads·depth, packed as these are."""
        return Packed(self.places.join_heads(heads), self.places)


Vectors: TypeAlias = tf.Tensor | Packed
"""[batch, length, width], or packed."""


def positionwise(call: Call) -> Call:
    """Lets a layer's `call`, which treats every vector alike, read packed vectors too."""

    @functools.wraps(call)
    def of_any(self: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        return map_positions(lambda vectors: call(self, vectors, *args, **kwargs), x)

    return of_any  # type: ignore[return-value]


def map_positions(function: Callable[[tf.Tensor], tf.Tensor], x: Vectors) -> Vectors:
    """Applies what treats every vector alike to vectors, packed or not."""
    return x.map(function) if isinstance(x, Packed) else function(x)


def with_empty_row(ids: tf.Tensor) -> tf.Tensor:
    """Adds a row of PAD to ids [batch, length], where slots without a token stand."""
    return tf.pad(ids, [[0, 1], [0, 0]], constant_values=PAD_ID)


class PackedLayout(NamedTuple):
    """Which slot stands where in [batch, length], and back.

    Attributes:
        batch: scalar.
        length: scalar, padding included.
        position_of_slot: [slots], where in [batch · length] each slot stands; without a token, at
            the end.
        holds_token: [slots], boolean.
        slot_of_position: [batch · length], which slot stands there; 0 for padding.
    """

    batch: tf.Tensor
    length: tf.Tensor
    position_of_slot: tf.Tensor
    holds_token: tf.Tensor
    slot_of_position: tf.Tensor

    @classmethod
    def of(cls, ids: tf.Tensor, num_slots: int | tf.Tensor | None = None) -> "PackedLayout":
        """Says where the tokens of ids go, one behind the other.

        Args:
            ids: [batch, length], PAD behind the tokens of a row, and at the end of the last one:
                see `with_empty_row`.
            num_slots: how many vectors there is room for, at least one more than there are tokens
                (not checked); by default just as many.
        """
        batch, length = tf.unstack(tf.shape(ids))
        is_token = tf.reshape(tf.cast(tf.not_equal(ids, PAD_ID), tf.int32), [-1])
        tokens = tf.reduce_sum(is_token)
        num_slots = tokens + 1 if num_slots is None else tf.cast(num_slots, tf.int32)
        slot_of_token = tf.cumsum(is_token) * is_token
        # Static, where a boolean mask would have as many entries as there are tokens.
        found = tf.math.unsorted_segment_max(tf.range(batch * length), slot_of_token, num_slots)
        number = tf.range(num_slots)
        holds_token = (number > 0) & (number <= tokens)
        position_of_slot = tf.where(holds_token, found, batch * length - 1)
        # The same as `slot_of_token`, which XLA would add up anew wherever it is read.
        slot_of_position = tf.math.unsorted_segment_max(
            tf.where(holds_token, number, 0), position_of_slot, batch * length
        )
        return cls(batch, length, position_of_slot, holds_token, tf.maximum(slot_of_position, 0))

    @property
    def positions(self) -> tf.Tensor:
        """[slots], the position in its sentence of each token."""
        return self.position_of_slot % self.length

    def pack_ids(self, ids: tf.Tensor) -> tf.Tensor:
        """[batch, length] ids → [1, slots], as the vectors lie; PAD where there is no token."""
        packed = tf.gather(tf.reshape(ids, [-1]), self.position_of_slot)
        return tf.where(self.holds_token, packed, PAD_ID)[None]

    def split_heads(self, x: tf.Tensor, num_heads: int) -> tf.Tensor:
        """[1, slots, heads·depth] → [batch, heads, length, depth]."""
        depth = x.shape[-1] // num_heads
        there, back = self._head_rows(num_heads)
        heads = _move(tf.reshape(x, [-1, depth]), there, back)
        return tf.reshape(heads, [self.batch, num_heads, self.length, depth])

    def join_heads(self, heads: tf.Tensor) -> tf.Tensor:
        """[batch, heads, length, depth] → [1, slots, heads·depth]."""
        _, num_heads, _, depth = heads.shape
        there, back = self._head_rows(num_heads)
        rows = _move(tf.reshape(heads, [-1, depth]), back, there)
        return tf.reshape(rows, [1, -1, num_heads * depth])

    def _head_rows(self, num_heads: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Where each row of [batch, heads, length] is found in [slots, heads], and back."""
        head = tf.range(num_heads)
        slot = tf.reshape(self.slot_of_position, [self.batch, 1, self.length])
        there = slot * num_heads + head[:, None]
        sentence = self.position_of_slot // self.length
        back = (sentence[:, None] * num_heads + head) * self.length + self.positions[:, None]
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
