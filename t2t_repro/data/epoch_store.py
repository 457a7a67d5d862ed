"""Token stores of epochs whose sentences are segmented anew, such as by BPE-dropout.

An epoch's batches are planned from the lengths of its sentences, so all of these are segmented
before it begins: by processes of their own, which give way to all others, while the epoch before is
trained on. Every worker of a training makes its own store, the same as all others: it is a function
of the seed and the epoch.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import Protocol

import numpy as np
from absl import logging
from numpy.typing import NDArray

from t2t_repro.data.parallel import WorkerKilled, WorkerPool, default_workers
from t2t_repro.data.token_store import STORE_FILES, FlatIds, TokenStore, token_block
from t2t_repro.errors import UserError
from t2t_repro.text.subword_model import SubwordPair

# A fifth of a second's work: a process that is to end finishes what it is at.
_PAIRS_IN_BLOCK = 1000

# From so many sentences it is measured how much longer they become.
_SAMPLE_BLOCKS = 8

# The longest sentence may become so much longer than is expected. There is little to be lost: of a
# longer shape, only attention computes more.
_ROOM = 1.5

_NICENESS = 5


class Segmenter(Protocol):
    """Segments sentences of one side; picklable, since other processes do it."""

    def __call__(self, epoch: int, numbers: NDArray[np.integer], sentences: FlatIds) -> FlatIds:
        """Returns the same sentences in other ids, EOS last: a pure function of the arguments.

        Args:
            epoch: counted from 0.
            numbers: [sentences] the sentences' own, whatever else is segmented with them.
            sentences: their ids as the token store has them, EOS last.
        """


class Segmentation(Protocol):
    """How sentences are segmented anew in every epoch; see `SubwordDropout`."""

    @property
    def workers(self) -> int | None:
        """How many processes do so; one a core, eight at most, where it is None."""

    def segmenters(
        self, subwords: SubwordPair, seed: int
    ) -> tuple[Segmenter | None, Segmenter | None]:
        """Returns what segments the source and the target; None where they stay as they are.

        Args:
            subwords: of the data.
            seed: of the run.

        Raises:
            UserError: they cannot be used.
        """


class Segmented(Protocol):
    """What a store was prepared with; see `PreparedData`."""

    @property
    def subwords(self) -> SubwordPair:
        """Of source and target."""

    @property
    def max_length(self) -> int:
        """The most ids of a sentence, EOS included."""


class EpochStores:
    """The token store of every epoch; that of the next one is made in the background.

    Args:
        store: the sentences as they were prepared.
        segmenters: of source and target.
        epoch_sentences: which sentences of `store` an epoch has: their indices, rising; some may be
            there more than once.
        longest: no sentence becomes longer, see `expected_lengths`.
        workers: processes that segment; one a core, eight at most, where it is None.

    Attributes:
        expected_lengths: [sentences] int32 of source and target of `store`: every length times the
            average growth of a sample in epoch 0; the longest gets half as much again. A sentence
            that becomes longer than the largest of these, or than `longest`, stays as it is, on
            that side and in that epoch.

    Raises:
        UserError: where a store is made, if there is no room for it or a process was killed.
    """

    def __init__(
        self,
        store: TokenStore,
        segmenters: tuple[Segmenter | None, Segmenter | None],
        epoch_sentences: Callable[[int], NDArray[np.int64]],
        longest: int,
        workers: int | None = None,
    ) -> None:
        self._store = store
        self._sentences = epoch_sentences
        segment = _Segment(store.directory, segmenters)
        self._pool = WorkerPool(segment, workers or default_workers(), _NICENESS)
        self._made: dict[int, Future[TokenStore]] = {}
        self._is_closed = False
        self.expected_lengths = self._expect_lengths(segmenters, longest)

    def _expect_lengths(
        self, segmenters: tuple[Segmenter | None, Segmenter | None], longest: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        blocks = list(_blocks(0, np.arange(len(self._store)), None))
        sample = blocks[:: -(-len(blocks) // _SAMPLE_BLOCKS)]
        after = np.sum([part.lengths for part in self._segmented(sample)], axis=0)
        sampled = np.concatenate([block.indices for block in sample])
        sides = self._store.source_lengths, self._store.target_lengths
        grown = []
        for lengths, total, segment in zip(sides, after.tolist(), segmenters, strict=True):
            if segment is None:
                grown.append(lengths)
                continue
            # In integers: all workers are to have the same.
            before = int(lengths[sampled].sum(dtype=np.int64))
            expected = -(-lengths.astype(np.int64) * total // before)
            # Of sentences as long as this one, half become longer than on average.
            expected[lengths.argmax()] = expected.max() * _ROOM
            # One that is too long as it is stays so, and is refused.
            room = np.maximum(np.minimum(expected, longest), lengths)
            grown.append(room.astype(np.int32))
        return grown[0], grown[1]

    def __call__(self, epoch: int) -> TokenStore:
        """Returns the store of an epoch: sentence i is the i-th of those that the epoch has."""
        self._made = {n: made for n, made in self._made.items() if n in (epoch, epoch + 1)}
        began = time.monotonic()
        store = self._begun(epoch).result()
        if (waited := time.monotonic() - began) > 1.0:
            logging.info("data: waited %.1f s for the subwords of epoch %d", waited, epoch)
        # Only now, so that the one before has all processes for itself.
        self._begun(epoch + 1)
        return store

    def close(self) -> None:
        """Ends the processes, and what is done in the background."""
        self._is_closed = True
        self._pool.close()

    def _begun(self, epoch: int) -> Future[TokenStore]:
        if epoch in self._made:
            return self._made[epoch]
        self._made[epoch] = future = Future[TokenStore]()

        def make() -> None:
            try:
                future.set_result(self._make(epoch))
            except BaseException as error:
                future.set_exception(error)

        # A daemon: Python would wait at exit for the threads of an executor.
        threading.Thread(target=make, daemon=True).start()
        return future

    def _make(self, epoch: int) -> TokenStore:
        source, target = (int(side.max()) for side in self.expected_lengths)
        blocks = _blocks(epoch, self._sentences(epoch), (source, target))
        try:
            with ExitStack() as opened:
                # They have no names, so that nothing of them stays behind.
                files = {name: opened.enter_context(TemporaryFile()) for name in STORE_FILES}
                for segmented in self._segmented(blocks):
                    for name, part in segmented.parts.items():
                        files[name].write(part)
                for file in files.values():
                    file.flush()
                return self._store.other(files)
        except OSError as error:
            raise UserError(
                f"cannot write the subwords of epoch {epoch} to {gettempdir()} "
                f"({error.strerror}): make room there, or set TMPDIR to a folder on another disk."
            ) from error

    def _segmented(self, blocks: Iterable["_Block"]) -> Iterator["_Segmented"]:
        try:
            for segmented in self._pool.map(blocks):
                if self._is_closed:
                    raise CancelledError
                yield segmented
        except WorkerKilled as error:
            raise UserError(
                f"{error}; bind fewer workers (SubwordDropout.workers) and run the same command "
                "again: it goes on from the last checkpoint."
            ) from error


@dataclass(frozen=True)
class _Block:
    """Sentence pairs of an epoch.

    Attributes:
        epoch: counted from 0.
        indices: [pairs] in the store.
        numbers: [pairs] for the segmenters.
        longest: of source and target, or None.
    """

    epoch: int
    indices: NDArray[np.integer]
    numbers: NDArray[np.integer]
    longest: tuple[int, int] | None


@dataclass(frozen=True)
class _Segmented:
    """A block, segmented.

    Attributes:
        parts: bytes for each file of a store, by name.
        lengths: the tokens of source and target.
    """

    parts: dict[str, bytes]
    lengths: tuple[int, int]


def _blocks(
    epoch: int, indices: NDArray[np.integer], longest: tuple[int, int] | None
) -> Iterator[_Block]:
    """Cuts an epoch into blocks; a sentence that comes twice has two numbers."""
    first_of_its_kind = np.searchsorted(indices, indices)
    times_before = np.arange(len(indices)) - first_of_its_kind
    numbers = indices + (times_before << 40)
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
    segmenters: tuple[Segmenter | None, Segmenter | None]

    @cached_property
    def _store(self) -> TokenStore:
        return TokenStore(self.directory)

    def __call__(self, block: _Block) -> _Segmented:
        plain = self._store.sentences(block.indices)
        longest: Sequence[int | None] = block.longest or (None, None)
        source, target = (
            sentences
            if segment is None
            else _shortened(segment(block.epoch, block.numbers, sentences), sentences, most)
            for segment, sentences, most in zip(self.segmenters, plain, longest, strict=True)
        )
        parts = token_block(source, target, self._store.vocab_sizes)
        return _Segmented(parts, (len(source[0]), len(target[0])))


def _shortened(sentences: FlatIds, plain: FlatIds, longest: int | None) -> FlatIds:
    """Takes the plain sentence for one that is too long."""
    is_long = sentences[1] > (longest or np.inf)
    if not is_long.any():
        return sentences
    lengths = np.where(is_long, plain[1], sentences[1])
    tokens = np.empty(lengths.sum(), np.int32)
    of_long = np.repeat(is_long, lengths)
    tokens[of_long] = plain[0][np.repeat(is_long, plain[1])]
    tokens[~of_long] = sentences[0][np.repeat(~is_long, sentences[1])]
    return tokens, lengths
