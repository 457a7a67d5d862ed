"""Token stores of epochs whose sentences are segmented again, as by BPE-dropout.

The batches of an epoch are planned from the lengths of its sentences, so all sentences are
segmented before it begins: in background processes of low priority, during the previous epoch. The
result is a function of seed and epoch, so that each of several workers can make it for itself.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from t2t_repro.data.parallel import WorkerPool, default_workers
from t2t_repro.data.token_store import STORE_FILES, TokenStore, token_block
from t2t_repro.errors import UserError
from t2t_repro.text.subword_model import FlatIds, SubwordPair

# A fifth of a second's work, which a process finishes before it ends.
_PAIRS_IN_BLOCK = 1000

# The growth of sentences is measured on so many blocks.
_SAMPLE_BLOCKS = 8

# Room for the longest sentence beyond its expected length. It costs little: only attention computes
# more in a longer shape.
_ROOM = 1.5

_NICENESS = 5


class Segmenter(Protocol):
    """Segments sentences of one side; picklable."""

    def __call__(self, epoch: int, numbers: NDArray[np.integer], sentences: FlatIds) -> FlatIds:
        """Returns the same sentences in other ids, EOS last: a pure function of the arguments.

        Args:
            epoch: from 0.
            numbers: [sentences] a number of each sentence, the seed of its segmentation.
            sentences: in the ids of the token store, EOS last.
        """


Segmenters = tuple[Segmenter | None, Segmenter | None]
"""Of source and target; None for a side that stays unchanged."""


class Segmentation(Protocol):
    """A way to segment sentences again in every epoch, as gin/bpe_dropout.py does."""

    @property
    def workers(self) -> int | None:
        """Number of processes; None for one a core, at most eight."""

    def segmenters(self, subwords: SubwordPair, seed: int) -> Segmenters:
        """Returns the segmenters of source and target.

        Args:
            subwords: of the data.
            seed: of the run.

        Raises:
            UserError: these subwords cannot be segmented in this way.
        """


class EpochStores:
    """Makes the token store of every epoch, the next one in the background.

    Args:
        store: the sentences as prepared.
        segmenters: of source and target.
        epoch_sentences: returns the indices in `store` of an epoch's sentences, rising; an index
            may occur more than once.
        longest: limit of `expected_lengths`.
        workers: number of processes; by default one a core, at most eight.

    Attributes:
        expected_lengths: [sentences] int32 of source and target: each length in `store` times the
            mean growth of a sample in epoch 0; the longest sentence has half as much again. A
            sentence that becomes longer than the largest of these stays unchanged on that side in
            that epoch.

    Raises:
        UserError: when a store is made, if the disk is full or a process was killed.
    """

    def __init__(
        self,
        store: TokenStore,
        segmenters: Segmenters,
        epoch_sentences: Callable[[int], NDArray[np.int64]],
        longest: int,
        workers: int | None = None,
    ) -> None:
        self._store = store
        self._sentences = epoch_sentences
        self._pool = WorkerPool(
            _Segment(store.directory, segmenters),
            workers or default_workers(),
            "SubwordDropout.workers",
            _NICENESS,
        )
        self._made: dict[int, Future[TokenStore]] = {}
        self.expected_lengths = self._expect_lengths(segmenters, longest)

    def _expect_lengths(
        self, segmenters: Segmenters, longest: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        blocks = list(_blocks(0, np.arange(len(self._store)), None))
        sample = blocks[:: -(-len(blocks) // _SAMPLE_BLOCKS)]
        after = np.sum([tokens for _, tokens in self._pool.map(sample)], axis=0)
        sampled = np.concatenate([block.indices for block in sample])
        sides = self._store.source_lengths, self._store.target_lengths
        grown = []
        for lengths, total, segment in zip(sides, after.tolist(), segmenters, strict=True):
            if segment is None:
                grown.append(lengths)
                continue
            # In integers, so that all workers have the same.
            before = int(lengths[sampled].sum(dtype=np.int64))
            expected = -(-lengths.astype(np.int64) * total // before)
            # Half of the sentences as long as this one become longer than the mean.
            expected[lengths.argmax()] = expected.max() * _ROOM
            room = np.maximum(np.minimum(expected, longest), lengths)
            grown.append(room.astype(np.int32))
        return grown[0], grown[1]

    def __call__(self, epoch: int) -> TokenStore:
        """Returns the store of an epoch; sentence i is the i-th of `epoch_sentences`."""
        self._made = {n: made for n, made in self._made.items() if n in (epoch, epoch + 1)}
        store = self._begin(epoch).result()
        # Only now, so that the epoch waited for has all processes.
        self._begin(epoch + 1)
        return store

    def close(self) -> None:
        """Ends the background work and its processes."""
        self._pool.close()

    def _begin(self, epoch: int) -> Future[TokenStore]:
        """Starts to make the store of an epoch, unless that was started before."""
        if epoch in self._made:
            return self._made[epoch]
        self._made[epoch] = future = Future[TokenStore]()

        def make() -> None:
            try:
                future.set_result(self._make(epoch))
            except BaseException as error:
                future.set_exception(error)

        # A daemon thread: at exit, Python would wait for the threads of an executor.
        threading.Thread(target=make, daemon=True).start()
        return future

    def _make(self, epoch: int) -> TokenStore:
        source, target = (int(side.max()) for side in self.expected_lengths)
        blocks = _blocks(epoch, self._sentences(epoch), (source, target))
        try:
            with ExitStack() as opened:
                # Unnamed files, which vanish with the process.
                files = {name: opened.enter_context(TemporaryFile()) for name in STORE_FILES}
                for parts, _ in self._pool.map(blocks):
                    for name, part in parts.items():
                        files[name].write(part)
                for file in files.values():
                    file.flush()
                return self._store.other(files)
        except OSError as error:
            raise UserError(
                f"cannot write the subwords of epoch {epoch} to {gettempdir()} "
                f"({error.strerror}): free space there, or set TMPDIR to a folder on another disk."
            ) from error


class _Block(NamedTuple):
    """Sentence pairs of an epoch.

    Attributes:
        epoch: from 0.
        indices: [pairs] in the store.
        numbers: [pairs] for the segmenters.
        longest: most ids of a source and of a target, or None.
    """

    epoch: int
    indices: NDArray[np.integer]
    numbers: NDArray[np.integer]
    longest: tuple[int, int] | None


def _blocks(
    epoch: int, indices: NDArray[np.integer], longest: tuple[int, int] | None
) -> Iterator[_Block]:
    """Cuts an epoch into blocks; copies of a sentence have different numbers."""
    copies = np.arange(len(indices)) - np.searchsorted(indices, indices)
    numbers = indices + (copies << 40)
    for start in range(0, len(indices), _PAIRS_IN_BLOCK):
        part = slice(start, start + _PAIRS_IN_BLOCK)
        yield _Block(epoch, indices[part], numbers[part], longest)


@dataclass
class _Segment:
    """Segments blocks of a store; picklable.

    Attributes:
        directory: of the store.
        segmenters: of source and target.
    """

    directory: Path
    segmenters: Segmenters

    @cached_property
    def _store(self) -> TokenStore:
        return TokenStore(self.directory)

    def __call__(self, block: _Block) -> tuple[dict[str, bytes], tuple[int, int]]:
        """Returns bytes for each file of a store, by name, and the numbers of tokens."""
        plain = self._store.sentences(block.indices)
        source, target = (
            sentences
            if segment is None
            else _shortened(segment(block.epoch, block.numbers, sentences), sentences, most)
            for segment, sentences, most in zip(
                self.segmenters, plain, block.longest or (None, None), strict=True
            )
        )
        parts = token_block(source, target, self._store.vocab_sizes)
        return parts, (len(source[0]), len(target[0]))


def _shortened(sentences: FlatIds, plain: FlatIds, longest: int | None) -> FlatIds:
    """Replaces sentences of more than `longest` ids by the plain ones."""
    is_long = sentences[1] > (longest or np.inf)
    lengths = np.where(is_long, plain[1], sentences[1])
    tokens = np.empty(lengths.sum(), np.int32)
    of_long = np.repeat(is_long, lengths)
    tokens[of_long] = plain[0][np.repeat(is_long, plain[1])]
    tokens[~of_long] = sentences[0][np.repeat(~is_long, sentences[1])]
    return tokens, lengths
