"""The static shapes of a batch's slices: few, as each is compiled.

Vaswani et al. (2017), section 5.1: "Sentence pairs were batched together by approximate sequence
length. Each training batch contained a set of sentence pairs containing approximately 25000 source
tokens and 25000 target tokens."

A slice is what one device computes at a time. Its tokens are packed (see `kernels.packing`) into
slots, which are full whatever the lengths. Only attention sees rows and lengths, so that a few
lengths are enough.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from t2t_repro.errors import UserError
from t2t_repro.vocabulary import PAD_ID

# Matrix units take eight numbers at a time.
_MULTIPLE = 8

# XLA on a GPU sums over many tokens in two steps. Where their number has a divisor between half of
# its root and its root, the first step also computes what is summed.
_MANY = 2**14

# The shortest shape holds about this share of all tokens.
_SHARE_OF_THE_SHORTEST = 0.15

# The rows of a shape are as many as fill its slots with sentences of this quantile of its lengths:
# a few slices of very short sentences are not filled, and attention has fewer empty rows.
_ROWS_QUANTILE = 0.1


class BatchShape(NamedTuple):
    """The static shape of a slice: source [rows, source_length], target [rows, target_length].

    Attributes:
        rows: most sentence pairs.
        source_length: most tokens of a source sentence.
        target_length: most tokens of a target sentence.
        source_tokens: most tokens of all source sentences together.
        target_tokens: likewise.
    """

    rows: int
    source_length: int
    target_length: int
    source_tokens: int
    target_tokens: int

    @property
    def lengths(self) -> tuple[int, int]:
        """Most tokens of a source sentence, and of a target sentence."""
        return self.source_length, self.target_length

    @property
    def tokens(self) -> tuple[int, int]:
        """Most tokens of all source sentences together, and of all target sentences."""
        return self.source_tokens, self.target_tokens

    @property
    def capacity(self) -> tuple[int, int]:
        """Into how many vectors source and target are packed: one more than there are tokens."""
        source, target = self.tokens
        return _slots(source + 1), _slots(target + 1)


def choose_shapes(
    source_lengths: ArrayLike,
    target_lengths: ArrayLike,
    *,
    tokens_per_slice: int,
    max_shapes: int = 6,
) -> tuple[BatchShape, ...]:
    """Chooses the shapes of slices for a corpus.

    The lengths grow by the same factor from shape to shape, up to the longest sentence. The side
    that has fewer tokens in a shape's sentences has less room, so that both are full at once.

    Args:
        source_lengths: [sentences] ids of every source sentence, EOS included.
        target_lengths: [sentences] likewise.
        tokens_per_slice: of source or target, whichever has more.
        max_shapes: most shapes; sentences of similar length need fewer.

    Returns:
        The shapes, the shortest first; every sentence has one.

    Raises:
        ValueError: no sentences, arrays of unlike shapes, or a sentence without ids.
        UserError: a slice has no room for the longest sentence.
    """
    sides = _checked_lengths(source_lengths, target_lengths)
    longest = [int(side.max()) for side in sides]
    if tokens_per_slice < max(longest):
        raise UserError(
            f"a slice of {tokens_per_slice} tokens has no room for a sentence of {max(longest)}: "
            "raise Batches.tokens_per_batch, lower TrainStep.micro_batches or prepare.max_length."
        )
    lengths = np.minimum(
        _lengths(np.maximum(*sides), max_shapes)[:, None], [_round_up(n) for n in longest]
    )
    shape_of = _shape_of(lengths, *sides)
    tokens = min(tokens_per_slice, max(int(side.sum()) for side in sides))
    return tuple(
        _shape([side[shape_of == index] for side in sides], pair, tokens)
        for index, pair in enumerate(lengths.tolist())
    )


def _lengths(longer_side: NDArray[np.integer], count: int) -> NDArray[np.int64]:
    """At most so many lengths in geometric progression, multiples of 8; the last covers all."""
    ordered = np.sort(longer_side)
    tokens = np.cumsum(ordered)
    shortest = ordered[np.searchsorted(tokens, _SHARE_OF_THE_SHORTEST * tokens[-1])]
    chosen = np.geomspace(ordered[-1], shortest, count).round().astype(np.int64)
    edges = np.unique(_round_up(chosen))
    # A shape without a sentence of its own is none.
    return edges[np.unique(np.searchsorted(edges, ordered))]


def _shape(sides: Sequence[NDArray[np.integer]], lengths: list[int], tokens: int) -> BatchShape:
    """The shape of some sentences, given by their lengths on both sides.

    Args:
        sides: [sentences] twice.
        lengths: of the shape.
        tokens: of the fuller side.
    """
    totals = [int(side.sum()) for side in sides]
    # Shorter sentences, which may come to this shape too, have another proportion.
    limits = [max(round(tokens * total / max(totals)), *lengths) for total in totals]
    rows = min(
        math.ceil(limit / np.quantile(side, _ROWS_QUANTILE))
        for side, limit in zip(sides, limits, strict=True)
    )
    return BatchShape(rows, *lengths, *limits)


def assign_shapes(
    shapes: Sequence[BatchShape], source_lengths: ArrayLike, target_lengths: ArrayLike
) -> NDArray[np.int8]:
    """Returns the [sentences] index of the first shape that covers each sentence pair.

    Args:
        shapes: from `choose_shapes`, of the same lengths.
        source_lengths: [sentences] ids of every source sentence, EOS included.
        target_lengths: [sentences] likewise.
    """
    lengths = np.array([shape.lengths for shape in shapes])
    return _shape_of(lengths, *_checked_lengths(source_lengths, target_lengths))


def _shape_of(
    lengths: NDArray[np.int64], source: NDArray[np.integer], target: NDArray[np.integer]
) -> NDArray[np.int8]:
    """Lengths are [shapes, 2], growing."""
    # By a table: there are far fewer lengths than sentences.
    first = [
        np.searchsorted(of_side, np.arange(of_side[-1] + 1)).astype(np.int8)
        for of_side in lengths.T
    ]
    return np.maximum(first[0][source], first[1][target])


def slots_needed(source: ArrayLike, target: ArrayLike) -> NDArray[np.int32]:
    """Counts the slots that the fullest of some slices needs, [2], of ids [slices, rows, length].

    One more than there are tokens: see `kernels.packing`.
    """
    counts = [np.count_nonzero(np.not_equal(ids, PAD_ID), axis=(1, 2)) for ids in (source, target)]
    return np.array([1 + of_side.max(initial=0) for of_side in counts], np.int32)


def _checked_lengths(*sides: ArrayLike) -> list[NDArray[np.integer]]:
    source, target = map(np.asarray, sides)
    if source.ndim != 1 or source.shape != target.shape or not len(source):
        raise ValueError(
            f"source_lengths {source.shape} and target_lengths {target.shape}: expected "
            "[sentences] of both."
        )
    if min(source.min(), target.min()) < 1:
        raise ValueError("a sentence has no ids, expected one, EOS, at least.")
    return [source, target]


def _slots(vectors: int) -> int:
    """Rounds up: few to a multiple of 8, many to one of the largest power of 2 below their root."""
    if vectors < _MANY:
        return _round_up(vectors)
    return _round_up(vectors, 2 ** ((vectors.bit_length() - 1) // 2))


def _round_up(number: Any, multiple: int = _MULTIPLE) -> Any:
    """Of an integer, or of an array of them."""
    return -(-number // multiple) * multiple
