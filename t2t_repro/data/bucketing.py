"""Which sentences make a batch: an epoch as a pure function.

An epoch is one shuffle of sentence indices, dealt out by shape (see `data.batch_shapes`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from t2t_repro.data.batch_shapes import BatchShape, batches_needed, checked_lengths, first_cover


@dataclass(frozen=True)
class PaddingReport:
    """How well a choice of shapes fits a corpus, counted over a whole epoch.

    Attributes:
        sentences: number of sentence pairs.
        shapes: number of shapes.
        batches: number of batches.
        source_tokens: source ids, EOS included, padding not.
        target_tokens: likewise.
        cells: source and target cells of all batches, padding and empty rows included.
    """

    sentences: int
    shapes: int
    batches: int
    source_tokens: int
    target_tokens: int
    cells: int

    @property
    def real_share(self) -> float:
        """The share of cells that hold a token, between 0 and 1."""
        return (self.source_tokens + self.target_tokens) / self.cells

    def __str__(self) -> str:
        return (
            f"{self.sentences:,} sentence pairs in {self.batches:,} batches of {self.shapes} "
            f"shapes: {self.real_share:.1%} real tokens, on average "
            f"{self.source_tokens / self.batches:,.0f} source and "
            f"{self.target_tokens / self.batches:,.0f} target tokens a batch"
        )


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
        """The sentence indices of one batch, [at most the shape's rows], never empty."""
        return self.order[self.starts[index] : self.stops[index]]


def assign_shapes(
    shapes: tuple[BatchShape, ...], source_lengths: ArrayLike, target_lengths: ArrayLike
) -> NDArray[np.int16]:
    """The shape that each sentence pair is batched in: the first one that covers it.

    `choose_shapes` lists the shapes with the cheapest row first, so the first is the best.

    Args:
        shapes: the shapes of the run.
        source_lengths: [sentences] ids of every source sentence, EOS included.
        target_lengths: [sentences] likewise.

    Returns:
        [sentences] index of each pair's shape.

    Raises:
        ValueError: arrays of unlike shapes, or a sentence that no shape covers.
    """
    source, target = checked_lengths(source_lengths, target_lengths)
    assignment = first_cover([shape[1:] for shape in shapes], source, target)
    if (assignment == len(shapes)).any():
        lost = int(np.argmax(assignment == len(shapes)))
        raise ValueError(
            f"no shape covers sentence {lost} with {source[lost]} source and {target[lost]} target "
            "ids; leave it out, or choose the shapes from these lengths."
        )
    return assignment


def group_by_length(lengths: ArrayLike, tokens_per_batch: int) -> list[NDArray[np.int64]]:
    """Groups sentences of similar length, for passes over a corpus that need no static shapes.

    Args:
        lengths: [sentences] ids of every sentence; one without ids is in no group.
        tokens_per_batch: most padded ids of a group; a sentence beyond it is a group by itself.

    Returns:
        The sentence indices of every group, the shortest sentences first.
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    groups: list[list[int]] = []
    for index in np.argsort(lengths, kind="stable"):
        if not lengths[index]:
            continue
        if not groups or (len(groups[-1]) + 1) * lengths[index] > tokens_per_batch:
            groups.append([])
        groups[-1].append(int(index))
    return [np.array(group) for group in groups]


def epoch_plan(
    shapes: tuple[BatchShape, ...], assignment: NDArray[np.integer], seed: int, epoch: int
) -> EpochPlan:
    """The batches of an epoch: every sentence once, in an order drawn from (seed, epoch).

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


def padding_report(
    shapes: tuple[BatchShape, ...], source_lengths: ArrayLike, target_lengths: ArrayLike
) -> PaddingReport:
    """Counts tokens and padding of a whole epoch, empty rows included.

    Args:
        shapes: the shapes of the run.
        source_lengths: [sentences] ids of every source sentence, EOS included.
        target_lengths: [sentences] likewise.

    Returns:
        The counts; they are the same in every epoch.

    Raises:
        ValueError: a sentence that no shape covers.
    """
    source, target = checked_lengths(source_lengths, target_lengths)
    assignment = assign_shapes(shapes, source, target)
    sentences = np.bincount(assignment, minlength=len(shapes))
    batches = batches_needed(sentences, np.array([shape.rows for shape in shapes]))
    return PaddingReport(
        sentences=len(source),
        shapes=len(shapes),
        batches=int(batches.sum()),
        source_tokens=int(source.sum()),
        target_tokens=int(target.sum()),
        cells=int(batches @ np.array([shape.cells for shape in shapes])),
    )


def _even_parts(whole: int, parts: int) -> NDArray[np.int64]:
    """Splits a number into [parts] that differ by at most one and add up to it."""
    if not parts:
        return np.zeros(0, dtype=np.int64)
    return (np.arange(parts) < whole % parts) + np.int64(whole // parts)
