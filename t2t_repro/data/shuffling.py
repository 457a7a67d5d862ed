"""The order of an epoch: a pure function of the seed and the epoch's number.

An epoch is one shuffle of sentence indices, dealt out by shape (see `data.batch_shapes`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from t2t_repro.data.batch_shapes import BatchShape, batches_needed


@dataclass(frozen=True)
class EpochPlan:
    """The batches of one epoch, in order.

    Attributes:
        shape_of_batch: [batches] index of every batch's shape.
        order: [sentences] all sentence indices; those of one batch lie side by side.
        starts: [batches] where each batch begins in `order`.
        stops: [batches] where it ends.
    """

    shape_of_batch: NDArray[np.int64]
    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]

    def __len__(self) -> int:
        """The number of batches."""
        return len(self.shape_of_batch)

    def batch(self, index: int) -> NDArray[np.int64]:
        """Returns the sentence indices of one batch, [at most the shape's rows], never empty."""
        return self.order[self.starts[index] : self.stops[index]]


def epoch_plan(
    shapes: tuple[BatchShape, ...], assignment: NDArray[np.integer], seed: int, epoch: int
) -> EpochPlan:
    """Returns the batches of an epoch: every sentence once, in an order drawn from (seed, epoch).

    One shuffle of all sentences, dealt into batches by shape, then one of the batches. The batches
    of a shape differ by at most one sentence, so empty rows are spread as thinly as they can be.

    Args:
        shapes: the shapes of the run.
        assignment: [sentences] index of each sentence's shape.
        seed: seed of the run, not negative.
        epoch: number of the epoch, from 0.

    Returns:
        The plan: the same for the same arguments, on every machine.
    """
    generator = np.random.default_rng([seed, epoch])
    shuffled = generator.permutation(len(assignment))
    # A stable sort keeps the shuffled order within a shape; on int16 NumPy sorts by radix.
    by_shape = np.argsort(assignment[shuffled].astype(np.int16), kind="stable")
    sentences = np.bincount(assignment, minlength=len(shapes))
    batches = batches_needed(sentences, np.array([shape.rows for shape in shapes]))
    sizes = np.concatenate(
        [_even_parts(whole, parts) for whole, parts in zip(sentences, batches, strict=True)]
    )
    stops = np.cumsum(sizes)
    shape_of_batch = np.repeat(np.arange(len(shapes)), batches)
    at = generator.permutation(len(stops))
    return EpochPlan(shape_of_batch[at], shuffled[by_shape], (stops - sizes)[at], stops[at])


def _even_parts(whole: int, parts: int) -> NDArray[np.int64]:
    """Splits a number into [parts] that differ by at most one and add up to it."""
    if not parts:
        return np.zeros(0, dtype=np.int64)
    return (np.arange(parts) < whole % parts) + np.int64(whole // parts)
