"""Packing: the vectors of a batch's tokens one after the other, without those of padding.

Replaces [batch, length, d_model] in training. A tenth to a third of that is padding. All layers
except attention treat positions independently, so they work on packed vectors unchanged; attention
unpacks them into sentences. Only `Packed` and the functions that split and join heads know how the
vectors lie in memory.

The number of vectors, `capacity`, is fixed. Slot 0 stands for all padding, and the tokens follow
it. Unlike the number of tokens, the capacity can be known to a compiler: then all shapes are.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

import tensorflow as tf

from t2t_repro.vocabulary import PAD_ID

Call = TypeVar("Call", bound=Callable[..., Any])


class Packed(NamedTuple):
    """Vectors [1, capacity, width], and where each belongs in [batch, length].

    All padding can share one vector: no token reads padding's result, and padding has no gradient.
    (Padding follows a sentence; as a key it is masked, or hidden by the causal mask; and a row with
    a target has a source.) Slots after the last token stand for padding, too.

    Gathering rows into heads costs as much as transposing padded vectors. To Keras this is a plain
    structure of tensors.

    Attributes:
        vectors: [1, capacity, width].
        layout: the slots of the tokens.
    """

    vectors: tf.Tensor
    layout: "PackedLayout"

    def map(self, function: Callable[[tf.Tensor], tf.Tensor]) -> "Packed":
        """Applies a function that treats all vectors alike."""
        return Packed(function(self.vectors), self.layout)

    def __add__(self, other: "Packed") -> "Packed":  # type: ignore[override]
        """Adds vectors of the same layout; a tuple's own + would join the fields."""
        return self.map(lambda vectors: vectors + other.vectors)


Vectors: TypeAlias = tf.Tensor | Packed
"""[batch, length, width], or packed."""


def positionwise(call: Call) -> Call:
    """Decorates a layer's `call`, which treats all vectors alike, to take packed ones too."""

    @functools.wraps(call)
    def call_any(self: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        return map_positions(lambda vectors: call(self, vectors, *args, **kwargs), x)

    return call_any  # type: ignore[return-value]


def map_positions(function: Callable[[tf.Tensor], tf.Tensor], x: Vectors) -> Vectors:
    """Applies a function that treats all vectors alike to vectors, packed or not."""
    return x.map(function) if isinstance(x, Packed) else function(x)


def first_rows(x: Vectors) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns which vectors of a batch, packed or not, begin a sentence; and the batch's length.

    Returns:
        [vectors] boolean, also true where a slot holds no token; and a scalar, padding included.
    """
    if isinstance(x, Packed):
        return ~x.layout.holds_token | (x.layout.positions == 0), x.layout.length
    batch, length, _ = tf.unstack(tf.shape(x))
    return tf.tile(tf.range(length) == 0, [batch]), length


def with_empty_row(ids: tf.Tensor) -> tf.Tensor:
    """Adds a last row of PAD to ids [batch, length], for a `PackedLayout`.

    Slots without a token stand at its last position.
    """
    return tf.pad(ids, [[0, 1], [0, 0]], constant_values=PAD_ID)


class PackedLayout(NamedTuple):
    """The slots of the positions of [batch, length], and the positions of the slots.

    Attributes:
        batch: scalar.
        length: scalar, padding included.
        position_of_slot: [capacity], the position in [batch·length] of each slot; the last one for
            slots without a token.
        holds_token: [capacity], boolean.
        slot_of_position: [batch·length], the slot of each position; 0 for padding.
    """

    batch: tf.Tensor
    length: tf.Tensor
    position_of_slot: tf.Tensor
    holds_token: tf.Tensor
    slot_of_position: tf.Tensor

    @classmethod
    def of(cls, ids: tf.Tensor, capacity: int | tf.Tensor) -> "PackedLayout":
        """Returns the layout in which the tokens of ids have slots 1, 2, ...

        Args:
            ids: [batch, length], PAD after the tokens of a row, and at the end of the last one: see
                `with_empty_row`.
            capacity: the number of slots, at least one more than there are tokens (not checked).
        """
        batch, length = tf.unstack(tf.shape(ids))
        is_token = tf.reshape(tf.cast(tf.not_equal(ids, PAD_ID), tf.int32), [-1])
        tokens = tf.reduce_sum(is_token)
        capacity = tf.cast(capacity, tf.int32)
        # Tokens are counted from 1, so that padding has slot 0.
        slot_of_token = tf.cumsum(is_token) * is_token
        # The shape is static, unlike that of a boolean mask.
        position = tf.math.unsorted_segment_max(tf.range(batch * length), slot_of_token, capacity)
        slot = tf.range(capacity)
        holds_token = (slot > 0) & (slot <= tokens)
        position_of_slot = tf.where(holds_token, position, batch * length - 1)
        # Slots without a token stand at a position of padding, whose slot is 0.
        filled = tf.where(holds_token, slot, 0)
        # Equals `slot_of_token`, which XLA would sum again wherever it is read. A position without
        # a slot gets the lowest integer, raised to 0 below.
        slot_of_position = tf.math.unsorted_segment_max(filled, position_of_slot, batch * length)
        return cls(batch, length, position_of_slot, holds_token, tf.maximum(slot_of_position, 0))

    @property
    def positions(self) -> tf.Tensor:
        """[capacity], the position of each token in its sentence."""
        return self.position_of_slot % self.length

    def pack_ids(self, ids: tf.Tensor) -> tf.Tensor:
        """Packs ids [batch, length] → [1, capacity]; PAD in slots without a token."""
        packed = tf.gather(tf.reshape(ids, [-1]), self.position_of_slot)
        return tf.where(self.holds_token, packed, PAD_ID)[None]

    def split_heads(self, x: tf.Tensor, num_heads: int) -> tf.Tensor:
        """Unpacks [1, capacity, heads·depth] → [batch, heads, length, depth]."""
        depth = x.shape[-1] // num_heads
        unpack, pack = self._head_rows(num_heads)
        heads = _gather_rows(tf.reshape(x, [-1, depth]), unpack, pack)
        return tf.reshape(heads, [self.batch, num_heads, self.length, depth])

    def join_heads(self, heads: tf.Tensor) -> tf.Tensor:
        """Packs [batch, heads, length, depth] → [1, capacity, heads·depth]."""
        _, num_heads, _, depth = heads.shape
        unpack, pack = self._head_rows(num_heads)
        rows = _gather_rows(tf.reshape(heads, [-1, depth]), pack, unpack)
        return tf.reshape(rows, [1, -1, num_heads * depth])

    def _head_rows(self, num_heads: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns row numbers that unpack [capacity, heads] to [batch, heads, length], and back."""
        head = tf.constant([*range(num_heads)])
        slot = tf.reshape(self.slot_of_position, [self.batch, 1, self.length])
        unpack = slot * num_heads + tf.expand_dims(head, 1)
        # (sentence · heads + head) · length + offset, where sentence · length + offset = position.
        position = tf.expand_dims(self.position_of_slot, 1)
        pack = position + (position // self.length * (num_heads - 1) + head) * self.length
        return tf.reshape(unpack, [-1]), tf.reshape(pack, [-1])


def _gather_rows(rows: tf.Tensor, sources: tf.Tensor, back: tf.Tensor) -> tf.Tensor:
    """Gathers rows [rows, depth] by `sources` [moved]; the gradient gathers them by `back` [rows].

    TensorFlow's gradient of a gather would sum slices, for rows that are read more than once. Here
    only padding is, and its gradient is zero. `back` is where each row was moved to.
    """

    @tf.custom_gradient
    def gather(rows: tf.Tensor) -> tuple[tf.Tensor, Any]:
        return tf.gather(rows, sources), lambda upstream: tf.gather(upstream, back)

    return gather(rows)
