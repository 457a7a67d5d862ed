"""The order of an epoch: a pure function of the seed and the epoch's number.

Sentences are sorted by length, with some noise, and cut into slices wherever the next one does not
fit. So the sentences of a batch are of similar length, its slices are as good as full, and no two
epochs have the same batches.
"""

import itertools
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from t2t_repro.data.batch_shapes import BatchShape, assign_shapes

# A sentence is taken for so much longer than it is, at most.
_NOISE = 0.2

# So many batches share what is left in the end: they are alike in size, and so are their slices.
_LAST_BATCHES = 4

# The fill of a slice is chosen to 1/1024 of its capacity.
_PARTS = 1024


@dataclass(frozen=True)
class EpochPlan:
    """The batches of one epoch, in order.

    Attributes:
        order: [sentences] all sentence indices; those of a slice lie side by side.
        cuts: [batches, slices + 1] where in `order` the slices of a batch begin and end.
        shape_of_batch: [batches] index of every batch's shape.
    """

    order: NDArray[np.int64]
    cuts: NDArray[np.int64]
    shape_of_batch: NDArray[np.int64]

    def __len__(self) -> int:
        """The number of batches."""
        return len(self.cuts)

    def sentences(self, batch: int) -> NDArray[np.int64]:
        """Returns the sentence indices of a batch."""
        return self.order[self.cuts[batch, 0] : self.cuts[batch, -1]]

    def micro_batches(self, batch: int) -> list[NDArray[np.int64]]:
        """Returns the sentence indices of every slice of a batch; a slice may have none."""
        cuts = itertools.pairwise(self.cuts[batch])
        return [self.order[start:stop] for start, stop in cuts]


def epoch_plan(
    shapes: Sequence[BatchShape],
    source_lengths: ArrayLike,
    target_lengths: ArrayLike,
    micro_batches: int,
    seed: int,
    epoch: int,
) -> EpochPlan:
    """Returns the batches of an epoch: every sentence once, drawn from (seed, epoch).

    Args:
        shapes: of slices, from `choose_shapes`.
        source_lengths: [sentences] ids of every source sentence, EOS included.
        target_lengths: [sentences] likewise.
        micro_batches: how many slices a batch has.
        seed: seed of the run, not negative.
        epoch: number of the epoch, from 0.

    Returns:
        The plan: the same for the same arguments, on every machine.
    """
    generator = np.random.default_rng([seed, epoch])
    source, target = np.asarray(source_lengths), np.asarray(target_lengths)
    shape_of = assign_shapes(shapes, source, target)
    order = _sorted_by_length(np.maximum(source, target), generator)
    order = order[np.argsort(shape_of[order], kind="stable")]
    cutter = _SliceCutter(source[order], target[order], micro_batches)
    ends = np.cumsum(np.bincount(shape_of, minlength=len(shapes)))
    shape_of_batch, cuts, index = [], [[0]], 0
    while cuts[-1][-1] < len(order):
        batch = cutter.batch(cuts[-1][-1], shapes[index])
        if batch[-1] > ends[index]:
            # Too few are left of this shape for a batch: they join those of the next.
            index += 1
            continue
        shape_of_batch.append(index)
        cuts.append(batch)
    at = generator.permutation(len(shape_of_batch))
    return EpochPlan(order, np.array(cuts[1:])[at], np.array(shape_of_batch)[at])


def _sorted_by_length(
    lengths: NDArray[np.integer], generator: np.random.Generator
) -> NDArray[np.int64]:
    """Sorts sentences, each taken for somewhat longer than it is."""
    noisy = lengths * (1.0 + _NOISE * generator.random(len(lengths), np.float32))
    # As 16 bits, which NumPy sorts by radix.
    return np.argsort((noisy * (2**16 / noisy.max() * 0.99)).astype(np.uint16), kind="stable")


class _SliceCutter:
    """Cuts an order of sentences into slices.

    Args:
        source: [sentences] their lengths, in this order.
        target: [sentences] likewise.
        micro_batches: of a batch.
    """

    def __init__(
        self, source: NDArray[np.integer], target: NDArray[np.integer], micro_batches: int
    ) -> None:
        # [sentences + 1] of both sides: the tokens before each sentence.
        self._before = [
            np.concatenate([[0], np.cumsum(side, dtype=np.int64)]) for side in (source, target)
        ]
        self._slices = micro_batches
        self._sentences = len(source)

    def batch(self, start: int, shape: BatchShape) -> list[int]:
        """Cuts the batch that begins with a sentence: [slices + 1] where slices begin and end."""
        return self._cuts(start, shape, self._share(start, shape))

    def _share(self, start: int, shape: BatchShape) -> float:
        """The share of its capacity that a slice is filled to; the last batches are less full."""
        sides = zip(self._before, shape.tokens, strict=True)
        filled = [(self._sentences - start) / shape.rows]
        filled += [int(before[-1] - before[start]) / tokens for before, tokens in sides]
        # A cheap lower bound, so that batches are rarely counted one by one.
        if max(filled) > _LAST_BATCHES * self._slices:
            return 1.0
        fewest = self._batches_left(start, shape, 1.0, _LAST_BATCHES + 1)
        if fewest > _LAST_BATCHES:
            return 1.0
        least = bisect_left(
            range(_PARTS),
            True,
            lo=1,
            key=lambda part: self._batches_left(start, shape, part / _PARTS, fewest + 1) <= fewest,
        )
        return least / _PARTS

    def _batches_left(self, start: int, shape: BatchShape, share: float, most: int) -> int:
        """How many batches of slices as full as that the sentences from `start` on make."""
        count = 0
        while start < self._sentences and count < most:
            start = self._cuts(start, shape, share)[-1]
            count += 1
        return count

    def _cuts(self, start: int, shape: BatchShape, share: float) -> list[int]:
        cuts = [start]
        for _ in range(self._slices):
            cuts.append(self._end_of_slice(cuts[-1], shape, share))
        return cuts

    def _end_of_slice(self, start: int, shape: BatchShape, share: float) -> int:
        """Fills a share of a slice."""
        rows = min(math.ceil(share * shape.rows), self._sentences - start)
        taken = rows
        for before, tokens in zip(self._before, shape.tokens, strict=True):
            of_rows = before[start : start + rows + 1] - before[start]
            taken = min(taken, int(np.searchsorted(of_rows, int(share * tokens), side="right")) - 1)
        # One at least, if any is left: none has more tokens than a slice may.
        return start + max(taken, min(rows, 1))
