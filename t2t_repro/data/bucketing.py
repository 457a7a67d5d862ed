"""Sentences by their lengths: which shape each is batched in, and how much padding that makes."""

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


def assign_shapes(
    shapes: tuple[BatchShape, ...], source_lengths: ArrayLike, target_lengths: ArrayLike
) -> NDArray[np.int16]:
    """Returns the shape that each sentence pair is batched in: the first one that covers it.

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
