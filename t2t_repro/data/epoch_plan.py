"""The order of an epoch: a pure function of the seed and the epoch's number.

Sentences are sorted by length with random noise, and cut into micro-batches that are as full as
possible. So the sentences of a batch have similar lengths, and every epoch has other batches.
"""

import itertools
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from t2t_repro.data.batch_shapes import BatchShape, assign_shapes

# The most noise, as a share of a sentence's length.
_NOISE = 0.2

# The last batches of an epoch share its last sentences evenly.
_LAST_BATCHES = 4

# The share of a micro-batch that is filled is a multiple of 1/1024.
_PARTS = 1024


@dataclass(frozen=True)
class EpochPlan:
    """The batches of one epoch, in order.

    Attributes:
        order: [sentences] all sentence indices; those of a micro-batch are adjacent.
        cuts: [batches, micro_batches + 1] where in `order` the micro-batches begin and end.
        shape_of_batch: [batches] index of every batch's shape.
    """

    order: NDArray[np.int64]
    cuts: NDArray[np.int64]
    shape_of_batch: NDArray[np.int64]

    def __len__(self) -> int:
        """Returns the number of batches."""
        return len(self.cuts)

    def sentences(self, batch: int) -> NDArray[np.int64]:
        """Returns the indices of a batch's sentences, [sentences]."""
        return self.order[self.cuts[batch, 0] : self.cuts[batch, -1]]

    def micro_batches(self, batch: int) -> list[NDArray[np.int64]]:
        """Returns the sentence indices of every micro-batch of a batch; one may have none."""
        return [self.order[start:stop] for start, stop in itertools.pairwise(self.cuts[batch])]


def epoch_plan(
    shapes: Sequence[BatchShape],
    source_lengths: ArrayLike,
    target_lengths: ArrayLike,
    micro_batches: int,
    seed: int,
    epoch: int,
) -> EpochPlan:
    """Plans the batches of an epoch: which sentences are in each, and in which order they come.

    Every sentence occurs once. The noise in the lengths and the order of the batches are drawn from
    (seed, epoch).

    Args:
        shapes: from `choose_shapes`.
        source_lengths: [sentences] ids of every source sentence, EOS included; at least one.
        target_lengths: [sentences] likewise.
        micro_batches: number in a batch.
        seed: seed of the run, not negative.
        epoch: number of the epoch, from 0.

    Returns:
        the plan; equal for equal arguments, on every machine.
    """
    generator = np.random.default_rng([seed, epoch])
    source, target = np.asarray(source_lengths), np.asarray(target_lengths)
    shape_of = assign_shapes(np.array([shape.lengths for shape in shapes]), source, target)
    by_length = _sort_with_noise(np.maximum(source, target), generator)
    # By shape, and by length with noise within a shape.
    order = by_length[np.argsort(shape_of[by_length], kind="stable")]
    cutter = _Cutter(source[order], target[order], micro_batches)
    # Where in `order` the sentences of each shape end.
    ends = np.cumsum(np.bincount(shape_of, minlength=len(shapes)))
    cuts, shape_of_batch = [], []
    start = index = 0
    while start < len(order):
        shape = shapes[index]
        batch_cuts = cutter.cuts(start, shape, cutter.share(start, shape))
        if batch_cuts[-1] > ends[index]:
            # Too few sentences of this shape are left for a batch: they join the next shape.
            index += 1
        else:
            cuts.append(batch_cuts)
            shape_of_batch.append(index)
            start = batch_cuts[-1]
    shuffled = generator.permutation(len(cuts))
    return EpochPlan(order, np.array(cuts)[shuffled], np.array(shape_of_batch)[shuffled])


def _sort_with_noise(lengths: NDArray, generator: np.random.Generator) -> NDArray[np.intp]:
    """Returns the indices that sort lengths [sentences], each increased at random by up to 20 %."""
    noisy = lengths * (1.0 + _NOISE * generator.random(len(lengths), np.float32))
    # Scaled to 16 bits, which NumPy sorts by radix; 0.99 keeps rounding from an overflow.
    return np.argsort((noisy * (2**16 / noisy.max() * 0.99)).astype(np.uint16), kind="stable")


class _Cutter:
    """Cuts sentences into micro-batches of consecutive ones.

    Args:
        source: [sentences] lengths of the sources.
        target: [sentences] lengths of the targets.
        micro_batches: number in a batch.
    """

    def __init__(
        self, source: NDArray[np.integer], target: NDArray[np.integer], micro_batches: int
    ) -> None:
        # [sentences + 1] of both sides: the number of tokens before each sentence, and of all.
        self._before = [np.pad(side, (1, 0)).cumsum(dtype=np.int64) for side in (source, target)]
        self._micro_batches = micro_batches
        self._sentences = len(source)

    def share(self, start: int, shape: BatchShape) -> float:
        """Returns the share to which the micro-batches of the batch from `start` on are filled.

        It is 1.0 while more than `_LAST_BATCHES` batches are left. The last ones share the last
        sentences evenly: theirs is the smallest share that needs no further batch, e.g. 0.75 for
        three batches where full ones would be 1.0, 1.0 and 0.25.
        """
        # A cheap lower bound of micro-batches, by rows and by tokens of each side, so that batches
        # are rarely counted one by one.
        sides = zip(self._before, shape.tokens, strict=True)
        needed = [(self._sentences - start) / shape.rows]
        needed += [int(before[-1] - before[start]) / tokens for before, tokens in sides]
        if max(needed) > _LAST_BATCHES * self._micro_batches:
            return 1.0
        fewest = self._batches_left(start, shape, 1.0, _LAST_BATCHES + 1)
        if fewest > _LAST_BATCHES:
            return 1.0

        def is_enough(part: int) -> bool:
            """Returns whether the `fewest` batches hold all sentences if filled to part/1024."""
            return self._batches_left(start, shape, part / _PARTS, fewest + 1) <= fewest

        # The smallest part from 1 on that is enough; `_PARTS` if none below it is.
        return bisect_left(range(_PARTS), True, lo=1, key=is_enough) / _PARTS

    def _batches_left(self, start: int, shape: BatchShape, share: float, most: int) -> int:
        """Counts the batches for all sentences from `start` on, and stops at `most`.

        All get this shape, with micro-batches that are filled to `share`.
        """
        count = 0
        while start < self._sentences and count < most:
            start = self.cuts(start, shape, share)[-1]
            count += 1
        return count

    def cuts(self, start: int, shape: BatchShape, share: float) -> list[int]:
        """Returns the cuts [micro_batches + 1] of the batch from `start` on, filled to `share`."""
        cuts = [start]
        for _ in range(self._micro_batches):
            cuts.append(self._end(cuts[-1], shape, share))
        return cuts

    def _end(self, start: int, shape: BatchShape, share: float) -> int:
        """Returns where the micro-batch that begins at `start` ends, if it is filled to `share`."""
        rows = min(math.ceil(share * shape.rows), self._sentences - start)
        count = rows
        for before, tokens in zip(self._before, shape.tokens, strict=True):
            # The tokens of the first 0, 1, ... `rows` sentences: the last index within the limit is
            # the number of sentences that fit.
            filled = before[start : start + rows + 1] - before[start]
            count = min(count, int(np.searchsorted(filled, int(share * tokens), side="right")) - 1)
        # At least one sentence, if any is left: each fits a micro-batch.
        return start + max(count, min(rows, 1))
