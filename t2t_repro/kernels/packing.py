"""Vectors without those of padding: the tokens of a batch, one behind the other.

Replaces [batch, length, d_model] as the ids lie, in training. All but attention works position by
position and does not care; attention asks for the heads of whole sentences. So how vectors lie in
memory is known to the vectors (`Packed`) and to the two places where heads are split and joined.
A tenth to a third of a batch is padding, and no work goes into it.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

import tensorflow as tf

from t2t_repro.vocabulary import PAD_ID

Call = TypeVar("Call", bound=Callable[..., Any])


class Packed(NamedTuple):
    """Vectors [1, packed, width], and where each stands in [batch, length].

    Where there is padding, one vector before the tokens stands for all of it. Nothing is lost by
    that: what padding computes reaches no token, and no gradient reaches it. (Padding follows a
    sentence: as a key it is masked, or hidden by causality; and where there is a target there is a
    source.)

    The number of tokens is known to no compiler, so that XLA cannot compile it. Moving rows to
    their heads costs what the transposition of padded vectors costs. Keras takes it for what it
    is, tensors in a structure.

    Attributes:
        vectors: [1, packed, width].
        places: of the tokens.
    """

    vectors: tf.Tensor
    places: "_Places"

    @classmethod
    def of(cls, x: tf.Tensor, ids: tf.Tensor) -> "Packed":
        """Packs vectors [batch, length, width] of ids [batch, length], PAD behind the tokens."""
        places = _Places.of(ids)
        return cls(places.take(x), places)

    @property
    def shape(self) -> tf.TensorShape:
        """[1, packed, width]."""
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

    def pack_ids(self, ids: tf.Tensor) -> tf.Tensor:
        """[batch, length] ids → [1, packed], as the vectors lie."""
        return self.places.take(ids[..., None])[..., 0]

    def split_heads(self, num_heads: int) -> tf.Tensor:
        """The vectors, of width heads·depth → [batch, heads, length, depth]."""
        return self.places.split_heads(self.vectors, num_heads)

    def with_heads(self, context: tf.Tensor) -> "Packed":
        """[batch, heads, length, depth] → vectors of width heads·depth that lie as these do."""
        return Packed(self.places.join_heads(context), self.places)


Vectors: TypeAlias = tf.Tensor | Packed
"""[batch, length, width], or packed."""


def positionwise(call: Call) -> Call:
    """Lets a layer's `call`, which treats every vector alike, read packed vectors too."""

    @functools.wraps(call)
    def of_any(self: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        return each_vector(lambda vectors: call(self, vectors, *args, **kwargs), x)

    return of_any  # type: ignore[return-value]


def each_vector(function: Callable[[tf.Tensor], tf.Tensor], x: Vectors) -> Vectors:
    """Applies what treats every vector alike to vectors, packed or not."""
    return x.map(function) if isinstance(x, Packed) else function(x)


class _Places(NamedTuple):
    """Which vector of [1, packed] stands where in [batch, length], and back.

    Attributes:
        batch: scalar.
        length: scalar, padding included.
        places: [packed], where in [batch · length] each vector stands.
        rows: [batch · length], which vector stands there.
    """

    batch: tf.Tensor
    length: tf.Tensor
    places: tf.Tensor
    rows: tf.Tensor

    @classmethod
    def of(cls, ids: tf.Tensor) -> "_Places":
        """Of ids [batch, length]."""
        batch, length = tf.unstack(tf.shape(ids))
        is_token = tf.reshape(tf.not_equal(ids, PAD_ID), [-1])
        padding, tokens = tf.where(~is_token)[:1, 0], tf.where(is_token)[:, 0]
        places = tf.cast(tf.concat([padding, tokens], axis=0), tf.int32)
        counted = tf.cast(is_token, tf.int32)
        rows = (tf.cumsum(counted) - 1 + tf.size(padding)) * counted
        return cls(batch, length, places, rows)

    def take(self, x: tf.Tensor) -> tf.Tensor:
        """[batch, length, width] → [1, packed, width]."""
        return _move(tf.reshape(x, [-1, x.shape[-1]]), self.places, self.rows)[None]

    def split_heads(self, x: tf.Tensor, num_heads: int) -> tf.Tensor:
        """[1, packed, heads·depth] → [batch, heads, length, depth]."""
        depth = x.shape[-1] // num_heads
        there, back = self._head_rows(num_heads)
        heads = _move(tf.reshape(x, [-1, depth]), there, back)
        return tf.reshape(heads, [self.batch, num_heads, self.length, depth])

    def join_heads(self, context: tf.Tensor) -> tf.Tensor:
        """[batch, heads, length, depth] → [1, packed, heads·depth]."""
        _, heads, _, depth = context.shape
        there, back = self._head_rows(heads)
        rows = _move(tf.reshape(context, [-1, depth]), back, there)
        return tf.reshape(rows, [1, -1, heads * depth])

    def _head_rows(self, num_heads: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Where each row of [batch, heads, length] is found in [tokens, heads], and back."""
        head = tf.range(num_heads)
        row = tf.reshape(self.rows, [self.batch, 1, self.length])
        there = row * num_heads + head[:, None]
        sentence, position = self.places // self.length, self.places % self.length
        back = (sentence[:, None] * num_heads + head) * self.length + position[:, None]
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
