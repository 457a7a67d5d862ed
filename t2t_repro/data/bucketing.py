"""Which sentences make a batch: few shapes, little padding, an epoch as a pure function.

Vaswani et al. (2017), section 5.1: "Sentence pairs were batched together by approximate sequence
length. Each training batch contained a set of sentence pairs containing approximately 25000 source
tokens and 25000 target tokens."

Every shape that a run uses is compiled, and its memory checked, before the first step; so there are
few. They are chosen for the corpus at hand: a sentence pair of s source and t target ids goes to the
cheapest shape with S ≥ s and T ≥ t, where it takes S + T cells of the batch, and `choose_shapes`
looks for the shapes with which a whole epoch takes fewest. An epoch is then one shuffle of sentence
indices, dealt out by shape.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from t2t_repro.errors import UserError

# The search for shapes looks at no more than this many lengths a side; others are rounded up.
_MOST_EDGES = 128

# Tries to improve a choice of shapes by removing some and choosing those anew. Measured: the gain
# flattens after about 20; they take a second or two, whatever the size of the corpus.
_RESTARTS = 24

# A batch may be made smaller than it could be, for fewer empty rows, by about this share.
_ROWS_GIVEN_UP = 0.05


class BatchShape(NamedTuple):
    """The static shape of a batch: source [rows, source_length], target [rows, target_length]."""

    rows: int
    source_length: int
    target_length: int

    @property
    def cells(self) -> int:
        """Source and target cells of a batch, padding included."""
        return self.rows * (self.source_length + self.target_length)


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


def within_limit(
    source_lengths: ArrayLike, target_lengths: ArrayLike, max_length: int
) -> NDArray[np.bool_]:
    """Which sentence pairs have at most `max_length` ids on either side.

    Args:
        source_lengths: [sentences] ids of every source sentence, EOS included.
        target_lengths: [sentences] likewise.
        max_length: the limit.

    Returns:
        [sentences] True where both sides are within it.
    """
    return (np.asarray(source_lengths) <= max_length) & (np.asarray(target_lengths) <= max_length)


def choose_shapes(
    source_lengths: ArrayLike,
    target_lengths: ArrayLike,
    *,
    tokens_per_batch: int = 25_000,
    max_shapes: int = 12,
    row_multiple: int = 8,
    max_length: int = 256,
) -> tuple[BatchShape, ...]:
    """Chooses the batch shapes with which an epoch of this corpus has least padding.

    Deterministic: the same histogram of lengths gives the same shapes.

    Args:
        source_lengths: [sentences] ids of every source sentence, EOS included.
        target_lengths: [sentences] likewise.
        tokens_per_batch: most source, and most target, cells of a batch:
            rows · max(source_length, target_length) stays within it.
        max_shapes: most shapes; a small corpus gets fewer.
        row_multiple: rows are a multiple of it, so that this many devices can share a batch.
        max_length: longest sentence the corpus may have.

    Returns:
        At most `max_shapes` shapes, cheapest row first; each has sentences of its own, and every
        sentence has a shape.

    Raises:
        ValueError: no sentences, arrays of unlike shapes, or a sentence of no or of more than
            `max_length` ids.
        UserError: the longest sentences leave no room for `row_multiple` rows in a batch.
    """
    source, target = _checked_lengths(source_lengths, target_lengths)
    longest = int(max(source.max(), target.max()))
    if longest > max_length:
        raise ValueError(
            f"a sentence has {longest} ids; expected at most max_length={max_length}: "
            "filter with within_limit first."
        )
    if longest * row_multiple > tokens_per_batch:
        raise UserError(
            f"tokens_per_batch is {tokens_per_batch}, but {row_multiple} sentences of {longest} "
            f"ids need {longest * row_multiple}: raise tokens_per_batch or lower max_length."
        )
    histogram = np.zeros((source.max() + 1, target.max() + 1), dtype=np.int64)
    counts = np.bincount(source * histogram.shape[1] + target, minlength=histogram.size)
    histogram += counts.reshape(histogram.shape)
    rectangles = _tighten(_search(histogram, max_shapes), histogram)
    return _fewest_cells(rectangles, histogram, tokens_per_batch, row_multiple)


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
    source, target = _checked_lengths(source_lengths, target_lengths)
    table = _assignment_table(
        [shape[1:] for shape in shapes], int(source.max()) + 1, int(target.max()) + 1
    )
    assignment = table[source, target]
    if (assignment == len(shapes)).any():
        lost = int(np.argmax(assignment == len(shapes)))
        raise ValueError(
            f"no shape covers sentence {lost} with {source[lost]} source and {target[lost]} target "
            "ids; leave it out, or choose the shapes from these lengths."
        )
    return assignment


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
    batches = _batches_needed(sentences, np.array([shape.rows for shape in shapes]))
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
    source, target = _checked_lengths(source_lengths, target_lengths)
    assignment = assign_shapes(shapes, source, target)
    sentences = np.bincount(assignment, minlength=len(shapes))
    batches = _batches_needed(sentences, np.array([shape.rows for shape in shapes]))
    return PaddingReport(
        sentences=len(source),
        shapes=len(shapes),
        batches=int(batches.sum()),
        source_tokens=int(source.sum()),
        target_tokens=int(target.sum()),
        cells=int(batches @ np.array([shape.cells for shape in shapes])),
    )


def _checked_lengths(
    source_lengths: ArrayLike, target_lengths: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Both sides' lengths as int64 [sentences], at least one sentence and one id each."""
    source = np.asarray(source_lengths, dtype=np.int64)
    target = np.asarray(target_lengths, dtype=np.int64)
    if source.ndim != 1 or source.shape != target.shape or not len(source):
        raise ValueError(
            f"source_lengths has shape {source.shape} and target_lengths {target.shape}; "
            "expected both [sentences], with at least one sentence."
        )
    if min(source.min(), target.min()) < 1:
        raise ValueError("a sentence has no ids; expected EOS in every one.")
    return source, target


def _batches_needed(sentences: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """ceil(sentences / rows), element by element."""
    return -(-sentences // rows)


def _even_parts(whole: int, parts: int) -> NDArray[np.int64]:
    """Splits a number into [parts] that differ by at most one and add up to it."""
    if not parts:
        return np.zeros(0, dtype=np.int64)
    return (np.arange(parts) < whole % parts) + np.int64(whole // parts)


def _assignment_table(
    rectangles: list[tuple[int, int]], sources: int, targets: int
) -> NDArray[np.int16]:
    """[sources, targets] index of the first (S, T) with S ≥ s and T ≥ t, or how many there are."""
    table = np.full((sources, targets), len(rectangles), dtype=np.int16)
    for index in reversed(range(len(rectangles))):
        source_length, target_length = rectangles[index]
        table[: source_length + 1, : target_length + 1] = index
    return table


# The search. Without empty rows an epoch takes Σ (S + T) over the sentences' rectangles (S, T). The
# best choice of many rectangles together is out of reach, but the best *one*, where the others stay,
# is found exactly for all (S, T) at once by cumulative sums; so they are improved one after the
# other until none can be, from several starts.


def _search(histogram: NDArray[np.int64], max_shapes: int) -> list[tuple[int, int]]:
    """At most `max_shapes` rectangles that cover a histogram of lengths with few cells.

    Args:
        histogram: [longest source + 1, longest target + 1] number of sentence pairs of each length.
        max_shapes: most rectangles.

    Returns:
        Source and target length of each rectangle.
    """
    source_edges = _edges(histogram.sum(axis=1))
    target_edges = _edges(histogram.sum(axis=0))
    coarse = _coarsen(_coarsen(histogram, source_edges).T, target_edges).T
    costs = source_edges[:, None] + target_edges
    generator = np.random.default_rng(0)
    corner = (len(source_edges) - 1, len(target_edges) - 1)
    best = _descend([corner], coarse, costs, max_shapes)
    fewest = _total(best, coarse, costs)
    for _ in range(_RESTARTS if len(best) > 2 else 0):
        dropped = generator.choice(len(best), size=max(2, len(best) // 3), replace=False)
        kept = [rectangle for index, rectangle in enumerate(best) if index not in dropped]
        found = _descend(kept, coarse, costs, max_shapes)
        total = _total(found, coarse, costs)
        if total < fewest:
            best, fewest = found, total
    return [(int(source_edges[row]), int(target_edges[column])) for row, column in best]


def _edges(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The lengths worth trying, ascending: all that occur, or as many quantiles of their tokens."""
    lengths = np.flatnonzero(counts)
    if len(lengths) <= _MOST_EDGES:
        return lengths
    tokens = np.cumsum((counts * np.arange(len(counts)))[lengths])
    at = np.searchsorted(tokens, np.linspace(0, tokens[-1], _MOST_EDGES))
    return np.unique(np.append(lengths[at], lengths[-1]))


def _coarsen(counts: NDArray[np.int64], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """[lengths, …] → [edges, …]: every length is counted at the next edge at or above it."""
    begins = np.append(0, edges[:-1] + 1)
    return np.add.reduceat(counts, begins, axis=0)


def _descend(
    rectangles: list[tuple[int, int]],
    counts: NDArray[np.int64],
    costs: NDArray[np.int64],
    max_shapes: int,
) -> list[tuple[int, int]]:
    """Adds rectangles up to `max_shapes`, then replaces one at a time while that helps.

    Args:
        rectangles: positions (row, column) of the rectangles' far corners to start from.
        counts: [edges, edges] number of sentences.
        costs: [edges, edges] cells that a sentence takes in a rectangle with that corner.
        max_shapes: most rectangles.

    Returns:
        Rectangles that cover every sentence and that no single replacement improves.
    """
    rectangles = list(rectangles)
    while len(rectangles) < max_shapes and (added := _best_addition(rectangles, counts, costs)):
        rectangles.append(added)
    total, before = _total(rectangles, counts, costs), None
    while total != before:
        before = total
        for index in range(len(rectangles)):
            others = rectangles[:index] + rectangles[index + 1 :]
            rectangles[index] = _best_addition(others, counts, costs) or rectangles[index]
        total = _total(rectangles, counts, costs)
    return rectangles


def _taken(
    rectangles: list[tuple[int, int]], costs: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """[edges, edges] cells that a sentence of each length takes, and the distinct values of it.

    A sentence that nothing covers takes a million, so that covering it comes before all else.
    """
    taken = np.full(costs.shape, 10**6, dtype=np.int64)
    for row, column in sorted(rectangles, key=lambda corner: costs[corner], reverse=True):
        taken[: row + 1, : column + 1] = costs[row, column]
    return taken, np.unique(taken)


def _total(
    rectangles: list[tuple[int, int]], counts: NDArray[np.int64], costs: NDArray[np.int64]
) -> int:
    """Cells that all sentences take."""
    return int((_taken(rectangles, costs)[0] * counts).sum())


def _best_addition(
    rectangles: list[tuple[int, int]], counts: NDArray[np.int64], costs: NDArray[np.int64]
) -> tuple[int, int] | None:
    """The rectangle that saves most cells beside the given ones; None where none saves any.

    With rectangle (S, T) added, a sentence in it saves what it took before less S + T, if that is
    positive. Sentences that took the same are counted together, for all (S, T), by a cumulative sum.
    """
    taken, levels = _taken(rectangles, costs)
    saved = np.zeros(costs.shape, dtype=np.int64)
    for level in levels:
        inside = np.where(taken == level, counts, 0).cumsum(axis=0).cumsum(axis=1)
        saved += inside * np.maximum(level - costs, 0)
    best = int(saved.argmax())
    if saved.flat[best] <= 0:
        return None
    row, column = divmod(best, costs.shape[1])
    return row, column


def _tighten(
    rectangles: list[tuple[int, int]], histogram: NDArray[np.int64]
) -> list[tuple[int, int]]:
    """Shrinks every rectangle to the sentences it has; leaves out those that have none."""
    ordered = sorted(set(rectangles), key=lambda lengths: (sum(lengths), lengths))
    table = _assignment_table(ordered, *histogram.shape)
    tight = []
    for index in range(len(ordered)):
        source, target = np.nonzero((table == index) & (histogram > 0))
        if len(source):
            tight.append((int(source.max()), int(target.max())))
    return sorted(set(tight), key=lambda lengths: (sum(lengths), lengths))


# Rows. A sentence's lengths decide its shape, so the number of sentences of each shape is known, and
# with it how many rows leave its last batch full.


def _fewest_cells(
    rectangles: list[tuple[int, int]],
    histogram: NDArray[np.int64],
    tokens_per_batch: int,
    row_multiple: int,
) -> tuple[BatchShape, ...]:
    """Gives rectangles their rows, and drops those whose empty rows cost more than they save."""
    shapes, cells = _with_rows(rectangles, histogram, tokens_per_batch, row_multiple)
    index = 0
    while index < len(rectangles):
        fewer = rectangles[:index] + rectangles[index + 1 :]
        try_shapes, try_cells = _with_rows(fewer, histogram, tokens_per_batch, row_multiple)
        if try_cells <= cells:
            rectangles, shapes, cells, index = fewer, try_shapes, try_cells, 0
        else:
            index += 1
    return shapes


def _with_rows(
    rectangles: list[tuple[int, int]],
    histogram: NDArray[np.int64],
    tokens_per_batch: int,
    row_multiple: int,
) -> tuple[tuple[BatchShape, ...], float]:
    """The shapes of rectangles, and the cells of an epoch; infinite where not all is covered."""
    table = _assignment_table(rectangles, *histogram.shape)
    sentences = np.bincount(
        table.ravel(), weights=histogram.ravel(), minlength=len(rectangles) + 1
    ).astype(np.int64)
    if sentences[-1]:
        return (), np.inf
    shapes = []
    cells = 0
    for (source_length, target_length), count in zip(rectangles, sentences[:-1], strict=True):
        most = tokens_per_batch // max(source_length, target_length)
        rows = _best_rows(int(count), most // row_multiple, row_multiple)
        shapes.append(BatchShape(rows, source_length, target_length))
        cells += -(-int(count) // rows) * shapes[-1].cells
    return tuple(shapes), cells


def _best_rows(sentences: int, most_multiples: int, row_multiple: int) -> int:
    """The rows a batch that leave fewest rows empty over an epoch, without many more batches.

    Args:
        sentences: sentences of the shape.
        most_multiples: how many times `row_multiple` rows fit a batch, at least 1.
        row_multiple: what rows must be a multiple of.

    Returns:
        The rows; of equally good numbers the largest.
    """
    rows = np.arange(most_multiples, 0, -1) * row_multiple
    batches = _batches_needed(np.array(sentences), rows)
    allowed = batches[0] + int(batches[0] * _ROWS_GIVEN_UP)
    # argmin takes the first, the largest, of equals.
    return int(rows[np.argmin(np.where(batches <= allowed, batches * rows, np.iinfo(int).max))])
