"""The static shapes of micro-batches: few, since each is compiled.

Vaswani et al. (2017), section 5.1: "Sentence pairs were batched together by approximate sequence
length. Each training batch contained a set of sentence pairs containing approximately 25000 source
tokens and 25000 target tokens."

A micro-batch is computed by one device at a time. Its tokens are packed into a fixed number of
vectors, its capacity (see `kernels.packing`), which is full for any lengths. Only attention depends
on rows and lengths, so a few lengths are enough.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from t2t_repro.config.values import Count, Range, configurable
from t2t_repro.data.token_store import TokenStore
from t2t_repro.errors import UserError
from t2t_repro.text.subword_model import SubwordPair
from t2t_repro.vocabulary import PAD_ID

# Matrix units take eight numbers at a time.
_MULTIPLE = 8

# XLA on a GPU sums over many vectors in two steps. If their number has a divisor between half of
# its root and its root, the first step is fused with the computation of the summands.
_MANY = 2**14

# The shortest shape holds about this share of all tokens.
_SHARE_OF_THE_SHORTEST = 0.15

# A shape has enough rows to be filled by sentences of this quantile of its lengths. More rows would
# fill a few micro-batches of very short sentences, but attention would have more empty rows.
_ROWS_QUANTILE = 0.1


class EpochStores(Protocol):
    """Makes the token store of each epoch, in which all sentences are segmented again.

    Attributes:
        expected_lengths: [sentences] of source and target, for which the shapes are chosen. No
            sentence of an epoch is longer than the longest of these.
    """

    expected_lengths: tuple[NDArray[np.integer], NDArray[np.integer]]

    def __call__(self, epoch: int) -> TokenStore:
        """Returns the store of an epoch; sentence i is the i-th of the epoch's sentences."""

    def close(self) -> None:
        """Ends background work."""


class Segmentation(Protocol):
    """A way to segment sentences again in every epoch, as in gin/bpe_dropout.py."""

    def epoch_stores(
        self,
        store: TokenStore,
        subwords: SubwordPair,
        seed: int,
        sentences: Callable[[int], NDArray[np.int64]],
        longest: int,
    ) -> EpochStores | None:
        """Returns the stores of all epochs.

        None if every sentence stays as it is.

        Args:
            store: the sentences as prepared.
            subwords: subword models of the data.
            seed: seed of the run.
            sentences: returns the indices in `store` of an epoch's sentences, ascending; an index
                may occur more than once.
            longest: most ids of a sentence that becomes longer than it is in `store`.

        Raises:
            UserError: the subwords cannot be segmented in this way.
        """


@configurable("Batches")
@dataclass(frozen=True)
class BatchSettings:
    """The settings of `Batches`.

    Attributes:
        tokens_per_batch: real source tokens, or real target tokens if there are more, of a full
            global batch (paper, section 5.1: about 25,000 each).
        max_shapes: most shapes of a micro-batch.
        segmentation: segments all sentences again in every epoch, such as `SubwordDropout` in
            gin/bpe_dropout.py.
    """

    tokens_per_batch: Count = 25_000
    max_shapes: Annotated[int, Range(least=1, most=100)] = 6
    segmentation: Segmentation | None = None


class BatchShape(NamedTuple):
    """Static shape of a micro-batch: source [rows, source_length], target [rows, target_length].

    Attributes:
        rows: most sentence pairs.
        lengths: most tokens of a source sentence, and of a target sentence.
        tokens: most tokens of all source sentences together, and of all target sentences.
    """

    rows: int
    lengths: tuple[int, int]
    tokens: tuple[int, int]

    @property
    def capacity(self) -> tuple[int, int]:
        """The numbers of source and target vectors: `tokens`, and one for padding, rounded up."""
        source, target = self.tokens
        return _rounded_capacity(source + 1), _rounded_capacity(target + 1)


def choose_shapes(
    source_lengths: ArrayLike,
    target_lengths: ArrayLike,
    *,
    tokens_per_micro_batch: int,
    max_shapes: int,
) -> tuple[BatchShape, ...]:
    """Chooses the shapes of micro-batches for a corpus.

    The lengths grow by the same factor from shape to shape, up to the longest sentence. The side
    with fewer tokens in a shape's sentences has a smaller limit, so that both are full at once.

    Args:
        source_lengths: [sentences] ids of every source sentence, EOS included; at least one.
        target_lengths: [sentences] likewise.
        tokens_per_micro_batch: most tokens of the source sides, and of the target sides.
        max_shapes: most shapes; sentences of similar length need fewer.

    Returns:
        the shapes, the shortest first; every sentence fits one of them.

    Raises:
        UserError: the longest sentence does not fit a micro-batch.
    """
    source, target = np.asarray(source_lengths), np.asarray(target_lengths)
    longest = int(source.max()), int(target.max())
    if tokens_per_micro_batch < max(longest):
        sentence = f"a sentence of {max(longest)}"
        problem = f"a micro-batch of {tokens_per_micro_batch} tokens has no room for {sentence}"
        fix = "lower TrainStep.micro_batches or prepare.max_length"
        raise UserError(f"{problem}: raise Batches.tokens_per_batch, or {fix}.")
    of_longer_side = _choose_lengths(np.maximum(source, target), max_shapes)
    # [shapes, 2] of source and target: no side is longer than its own longest sentence.
    lengths = np.minimum(of_longer_side[:, None], [_round_up(length) for length in longest])
    shape_of = assign_shapes(lengths, source, target)
    # A whole corpus may have fewer tokens than a micro-batch has room for.
    tokens = min(tokens_per_micro_batch, max(int(source.sum()), int(target.sum())))
    return tuple(
        _shape(source[shape_of == index], target[shape_of == index], shape_lengths, tokens)
        for index, shape_lengths in enumerate(lengths.tolist())
    )


def _choose_lengths(longer_side: NDArray[np.integer], count: int) -> NDArray[np.int64]:
    """Chooses the length of each shape: of the longest sentence, on its longer side, that it takes.

    Args:
        longer_side: [sentences] ids of the longer side of every pair; at least one.
        count: most shapes.

    Returns:
        [shapes], ascending: multiples of 8, which grow by about the same factor.
    """
    ordered = np.sort(longer_side)
    tokens = np.cumsum(ordered)
    shortest = ordered[np.searchsorted(tokens, _SHARE_OF_THE_SHORTEST * tokens[-1])]
    # From the longest sentence down, so that a single shape has its length.
    chosen = np.geomspace(ordered[-1], shortest, count).round().astype(np.int64)
    edges = np.unique(_round_up(chosen))
    # Leaves out lengths that no sentence needs.
    return edges[np.unique(np.searchsorted(edges, ordered))]


def _shape(source: NDArray, target: NDArray, lengths: list[int], tokens: int) -> BatchShape:
    """Returns the shape of micro-batches of some sentences.

    Args:
        source: [sentences] ids of every source sentence, EOS included; at least one.
        target: [sentences] likewise.
        lengths: the most tokens of a source sentence and of a target sentence that the shape takes.
        tokens: most tokens of a micro-batch, on the side that has more.
    """
    totals = int(source.sum()), int(target.sum())
    # In the proportion of the sides, so that both are full at once. At least the lengths, so that
    # any sentence fits: shorter ones may join, with another proportion.
    limits = [max(round(tokens * total / max(totals)), *lengths) for total in totals]
    source_rows = math.ceil(limits[0] / np.quantile(source, _ROWS_QUANTILE))
    target_rows = math.ceil(limits[1] / np.quantile(target, _ROWS_QUANTILE))
    rows = min(source_rows, target_rows)
    return BatchShape(rows, (lengths[0], lengths[1]), (limits[0], limits[1]))


def assign_shapes(
    lengths: NDArray[np.integer], source: NDArray[np.integer], target: NDArray[np.integer]
) -> NDArray[np.int8]:
    """Returns the index of the first shape that each sentence pair fits, [sentences].

    Args:
        lengths: [shapes, 2] `BatchShape.lengths`, ascending; every pair must fit the last.
        source: [sentences] ids of every source sentence, EOS included.
        target: [sentences] likewise.
    """
    # From every possible length of a side to its shape: far fewer lengths than sentences. There are
    # at most 100 shapes, so int8 is enough.
    tables = [np.searchsorted(side, np.arange(side[-1] + 1)).astype(np.int8) for side in lengths.T]
    return np.maximum(tables[0][source], tables[1][target])


def capacity_needed(source: ArrayLike, target: ArrayLike) -> NDArray[np.int32]:
    """Returns the capacity [2] that the fullest micro-batch needs, not rounded.

    On each side it is the number of tokens, and one for padding.

    Args:
        source: [micro_batches, rows, source_length] padded ids.
        target: [micro_batches, rows, target_length] likewise.
    """
    counts = [np.count_nonzero(np.not_equal(ids, PAD_ID), axis=(1, 2)) for ids in (source, target)]
    return np.array([1 + side.max(initial=0) for side in counts], np.int32)


def group_by_length(lengths: ArrayLike, tokens_per_batch: int) -> list[NDArray[np.int64]]:
    """Groups sentences of similar length, for work that needs no static shapes.

    Args:
        lengths: [sentences] ids of every sentence; a sentence without ids is in no group.
        tokens_per_batch: most padded ids of a group; a longer sentence is a group by itself.

    Returns:
        the sentence indices of every group, the shortest sentences first.
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    groups: list[list[int]] = []
    order = np.argsort(lengths, kind="stable")
    for index in order[lengths[order] > 0]:
        # The longest sentence so far: the group would be padded to its length.
        if not groups or (len(groups[-1]) + 1) * lengths[index] > tokens_per_batch:
            groups.append([])
        groups[-1].append(int(index))
    return [np.array(group) for group in groups]


def _rounded_capacity(vectors: int) -> int:
    """Rounds a number of vectors up, so that sums over them are fast (see `_MULTIPLE`, `_MANY`).

    Below `_MANY` it is a multiple of 8. From there on it is a multiple of the largest power of 2
    that is at most its root: 20,000 becomes 157 · 128 = 20,096.
    """
    if vectors < _MANY:
        return _round_up(vectors)
    return _round_up(vectors, 2 ** ((vectors.bit_length() - 1) // 2))


def _round_up(number: Any, multiple: int = _MULTIPLE) -> Any:
    """Rounds an integer, or each of an array of them, up to a multiple of `multiple`."""
    return -(-number // multiple) * multiple
