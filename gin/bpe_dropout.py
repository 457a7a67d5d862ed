"""BPE-dropout (Provilkov et al., 2020): every epoch splits words into subwords differently.

Algorithm 1: a word is a sequence of symbols, at first its characters. A merge joins two neighbours
whose text is a piece of the vocabulary. Of all merges that the word allows, each is dropped with
probability p, and the best of the others is made (of equal ones the left one, Sennrich et al.,
2016). This repeats until none is left. p = 0 is BPE; p = 1 leaves the characters.

SentencePiece's own sampling never tries a dropped merge again, so that p = 0.1 makes text longer by
39 % instead of 21 % (Multi30k, 8,000 subwords).

The batches of an epoch are planned from the lengths of its sentences, so all sentences are
segmented before it begins: in background processes of low priority, during the previous epoch. The
result is a function of seed and epoch, so that each of several workers can make it for itself.
"""

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sentencepiece.sentencepiece_model_pb2 import ModelProto, TrainerSpec

from t2t_repro.config.values import Range, Share, configurable
from t2t_repro.data.parallel import WorkerPool, default_workers
from t2t_repro.data.token_store import STORE_FILES, TokenStore, token_block
from t2t_repro.errors import UserError
from t2t_repro.text.sentencepiece import SentencePieceModel, WordMarks
from t2t_repro.text.subword_model import FlatIds, SubwordModel, SubwordPair, open_subwords
from t2t_repro.vocabulary import EOS_ID

Side = Literal["source", "target"]

_ID_BYTES = np.int32().nbytes

# Words in the cache. One takes some 3 kB with its splits, so all take 150 MB in each process.
_MOST_WORDS = 50_000

# Symbols of a word in the cache. Longer words are rarely repeated. In languages without spaces, a
# whole line is one word.
_LONGEST_WORD = 32

# Merges before another random number is drawn.
_MOST_MERGES = 64

_Kind = ModelProto.SentencePiece.Type
_MERGED = _Kind.Value("NORMAL")
_BYTE = _Kind.Value("BYTE")

# Work for a fifth of a second: a process finishes its block before it ends.
_PAIRS_IN_BLOCK = 1000

# Blocks on which the growth of sentences is measured.
_SAMPLE_BLOCKS = 8

# Factor on the expected length of the longest sentence. It costs little: only attention computes
# more in a longer shape.
_LONGEST_MARGIN = 1.5

_NICENESS = 5
"""Of the background processes: training comes first."""

# Precedes a symbol that is kept whole, such as a tag. UTF-8 cannot have it, so nothing merges it.
_WHOLE_MARK = "\ud800"


@configurable()
@dataclass(frozen=True)
class SubwordDropout:
    """Splits the words of every epoch differently.

    In gin::

        import bpe_dropout
        Batches.segmentation = @SubwordDropout()

    Attributes:
        probability: of dropping a merge.
        sides: the sides whose text is split differently.
        workers: number of background processes that split the text of the next epoch; by default
            one per core, at most eight.
    """

    probability: Share = 0.1
    sides: Sequence[Side] = ("source", "target")
    workers: Annotated[int, Range(least=1, most=1024)] | None = None

    def epoch_stores(
        self,
        store: TokenStore,
        subwords: SubwordPair,
        seed: int,
        sentences: Callable[[int], NDArray[np.int64]],
        longest: int,
    ) -> "EpochStores | None":
        """Returns the token stores of all epochs; None if all text keeps its ids.

        The arguments are those of `Segmentation` in t2t_repro/data/batch_shapes.py.

        Raises:
            UserError: the subwords are not a BPE model of SentencePiece.
        """
        segmenters = self.segmenters(subwords, seed)
        if segmenters == (None, None):
            return None
        return EpochStores(store, segmenters, sentences, longest, self.workers)

    def segmenters(self, subwords: SubwordPair, seed: int) -> "Segmenters":
        """Returns the segmenters of source and target; None for a side that keeps its ids.

        Raises:
            UserError: the subwords are not a BPE model of SentencePiece.
        """

        # `number` is another seed, so that the sides have different random numbers.
        def segmenter(side: Side, model: SubwordModel, number: int) -> DropoutSegmenter | None:
            if side not in self.sides or not self.probability:
                return None
            return DropoutSegmenter(model.model_path, self.probability, (seed, number))

        return segmenter("source", subwords.source, 0), segmenter("target", subwords.target, 1)


class EpochStores:
    """Makes the token store of every epoch, the next one in the background.

    Args:
        store: the sentences as prepared.
        segmenters: the segmenters of source and target.
        sentences: returns the indices in `store` of an epoch's sentences, ascending.
        longest: the most ids of a sentence that becomes longer.
        workers: number of processes; by default one per core, at most eight.

    Attributes:
        expected_lengths: [sentences] int32 of source and target: each length in `store` times the
            mean growth of a sample in epoch 0; half as much again for the longest sentence. A
            sentence that becomes longer than the largest of these keeps its ids on that side in
            that epoch.
    """

    def __init__(
        self,
        store: TokenStore,
        segmenters: "Segmenters",
        sentences: Callable[[int], NDArray[np.int64]],
        longest: int,
        workers: int | None = None,
    ) -> None:
        self._store = store
        self._sentences = sentences
        segment = _Segment(store.directory, segmenters)
        processes = workers or default_workers()
        self._pool = WorkerPool(segment, processes, "SubwordDropout.workers", _NICENESS)
        self._made: dict[int, Future[TokenStore]] = {}
        self.expected_lengths = self._expect_lengths(segmenters, longest)

    def _expect_lengths(
        self, segmenters: "Segmenters", longest: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Segments a sample of the store as in epoch 0; returns `expected_lengths`.

        A side without a segmenter keeps its lengths.
        """
        blocks = list(_blocks(0, np.arange(len(self._store)), None))
        sample = blocks[:: math.ceil(len(blocks) / _SAMPLE_BLOCKS)]
        # How many ids the segmented sample has, of source and target.
        totals = np.sum([tokens for _, tokens in self._pool.map(sample)], axis=0).tolist()
        sampled = np.concatenate([block.indices for block in sample])
        sides = self._store.source_lengths, self._store.target_lengths
        source, target = (
            lengths if segment is None else _expected(lengths, sampled, after, longest)
            for lengths, after, segment in zip(sides, totals, segmenters, strict=True)
        )
        return source, target

    def __call__(self, epoch: int) -> TokenStore:
        """Returns the store of an epoch; sentence i is the i-th of the epoch's sentences.

        Raises:
            UserError: there is no disk space for it.
        """
        # Stores of other epochs are freed.
        self._made = {n: made for n, made in self._made.items() if n in (epoch, epoch + 1)}
        store = self._begin(epoch).result()
        # Only now, so that the epoch waited for has all processes.
        self._begin(epoch + 1)
        return store

    def close(self) -> None:
        """Ends the background work and its processes."""
        self._pool.close()

    def _begin(self, epoch: int) -> Future[TokenStore]:
        """Starts to make the store of an epoch, unless that was begun; returns its future.

        The future has the error if it fails.
        """
        if epoch in self._made:
            return self._made[epoch]
        self._made[epoch] = future = Future[TokenStore]()

        def make() -> None:
            try:
                future.set_result(self._make(epoch))
            except BaseException as error:
                # Raised where the store is waited for. Without it, that would wait for ever.
                future.set_exception(error)

        # A daemon thread: at exit, Python would wait for the threads of an executor.
        threading.Thread(target=make, daemon=True).start()
        return future

    def _make(self, epoch: int) -> TokenStore:
        """Segments the sentences of an epoch; returns them in a store of temporary files.

        Raises:
            UserError: there is no disk space for it.
        """
        longest_source, longest_target = (int(side.max()) for side in self.expected_lengths)
        blocks = _blocks(epoch, self._sentences(epoch), (longest_source, longest_target))
        try:
            with ExitStack() as opened:
                # Unnamed files, which vanish with the process. The store still reads them after
                # they are closed.
                files = {name: opened.enter_context(TemporaryFile()) for name in STORE_FILES}
                for parts, _ in self._pool.map(blocks):
                    for name, part in parts.items():
                        files[name].write(part)
                for file in files.values():
                    file.flush()
                return self._store.other(files)
        except OSError as error:
            problem = f"cannot write the subwords of epoch {epoch} to {gettempdir()}"
            fix = "free space there, or set TMPDIR to a folder on another disk."
            raise UserError(f"{problem} ({error.strerror}): {fix}") from error


def _expected(
    lengths: NDArray[np.int32], sampled: NDArray[np.integer], after: int, longest: int
) -> NDArray[np.int32]:
    """Returns the expected lengths of a side (see `EpochStores`).

    Args:
        lengths: [sentences] the lengths in plain BPE.
        sampled: indices of the sentences of the sample.
        after: the number of ids of the sample after it is segmented.
        longest: the most ids of a sentence that becomes longer.
    """
    # In integers, rounded up, so that all workers have the same.
    before = int(lengths[sampled].sum(dtype=np.int64))
    expected = -(-lengths.astype(np.int64) * after // before)
    # Half of the sentences as long as this one become longer than the mean: the largest expected
    # length is the limit of all (see `EpochStores._make`).
    expected[lengths.argmax()] = expected.max() * _LONGEST_MARGIN
    return np.maximum(np.minimum(expected, longest), lengths).astype(np.int32)


class _Block(NamedTuple):
    """Sentence pairs of an epoch.

    Attributes:
        epoch: counted from 0.
        indices: [pairs] the index of each pair in the store.
        numbers: [pairs] the number of each pair for the segmenters (see `_blocks`).
        longest: the most ids of a source and of a target; None for any number.
    """

    epoch: int
    indices: NDArray[np.integer]
    numbers: NDArray[np.integer]
    longest: tuple[int, int] | None


def _blocks(
    epoch: int, indices: NDArray[np.integer], longest: tuple[int, int] | None
) -> Iterator[_Block]:
    """Yields the blocks of an epoch, from its indices in the store, ascending.

    Copies of a sentence in an epoch have different numbers, so they are segmented differently.
    """
    # 0 for the first of equal indices, 1 for the second. A store has fewer than 2^40 sentences.
    copies = np.arange(len(indices)) - np.searchsorted(indices, indices)
    numbers = indices + (copies << 40)
    for start in range(0, len(indices), _PAIRS_IN_BLOCK):
        part = slice(start, start + _PAIRS_IN_BLOCK)
        yield _Block(epoch, indices[part], numbers[part], longest)


@dataclass
class _Segment:
    """A function that segments blocks of the store in a directory; picklable, for processes.

    Attributes:
        directory: the directory of the prepared data.
        segmenters: the segmenters of source and target.
    """

    directory: Path
    segmenters: "Segmenters"

    @cached_property
    def _store(self) -> TokenStore:
        return TokenStore(self.directory)

    def __call__(self, block: _Block) -> tuple[dict[str, bytes], tuple[int, int]]:
        """Segments a block.

        Returns:
            the bytes of each file of a store, by name; and how many ids source and target have.
        """
        plain = self._store.sentences(block.indices)
        limits = block.longest or (None, None)
        sides = []
        for segment, side, limit in zip(self.segmenters, plain, limits, strict=True):
            # A side without a segmenter keeps its ids.
            if segment is not None:
                side = _limited(segment(block.epoch, block.numbers, side), side, limit)
            sides.append(side)
        source, target = sides
        parts = token_block(source, target, self._store.vocab_sizes)
        return parts, (len(source[0]), len(target[0]))


def _limited(segmented: FlatIds, plain: FlatIds, longest: int | None) -> FlatIds:
    """Returns the segmented sentences, with the plain one for each of more than `longest` ids.

    With None as `longest`, all are as segmented.
    """
    new_ids, new_lengths = segmented
    plain_ids, plain_lengths = plain
    is_long = new_lengths > (longest or np.inf)
    lengths = np.where(is_long, plain_lengths, new_lengths)
    ids = np.empty(lengths.sum(), np.int32)
    of_long = np.repeat(is_long, lengths)
    ids[of_long] = plain_ids[np.repeat(is_long, plain_lengths)]
    ids[~of_long] = new_ids[np.repeat(~is_long, new_lengths)]
    return ids, lengths


@dataclass
class DropoutSegmenter:
    """Segments the sentences of one side; picklable, for other processes.

    The result depends only on the seeds, the epoch, the sentence's number and its text.

    Attributes:
        model_path: the file of the subword model.
        probability: of dropping a merge.
        seeds: seeds of the random numbers.

    Raises:
        UserError: the subwords are not a BPE model of SentencePiece.
    """

    model_path: Path
    probability: float
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        # Only to check the model: each process reads it again.
        BpeMerges(self.model_path)

    @cached_property
    def _merges(self) -> "BpeMerges":
        return BpeMerges(self.model_path)

    @cached_property
    def _powers(self) -> NDArray[np.uint64]:
        """The probabilities that n = `_MOST_MERGES` ... 1 merges in a row are made, times 2^63."""
        powers: list[int] = []
        power = 1.0
        for _ in range(_MOST_MERGES):
            # Not `**`, which C libraries round differently.
            power *= 1.0 - self.probability
            powers.append(int(power * 2**63))
        return np.array(powers[::-1], np.uint64)

    def __call__(self, epoch: int, numbers: NDArray[np.integer], sentences: FlatIds) -> FlatIds:
        """Segments sentences again, with merges dropped.

        Args:
            epoch: counted from 0.
            numbers: [sentences] a number of each sentence, for its random numbers.
            sentences: their ids in plain BPE, EOS last.

        Returns:
            the same text in other ids, EOS last.
        """
        words = _Words(self._merges, sentences)
        # For each word a key, of the seeds, the epoch, the sentence, and the place in it.
        epoch_key = np.zeros(1, np.uint64)
        for number in (*self.seeds, epoch):
            epoch_key = _fold(epoch_key, number)
        sentence_keys = _fold(epoch_key, numbers)
        keys = _fold(sentence_keys[words.sentence], words.place)
        made = self._count_made(keys, 0)
        # No merge is dropped in the other words, so they stay as they are.
        changed = np.flatnonzero(made < words.merge_counts)
        plain = [words[word] for word in changed.tolist()]
        return words.replaced(changed, self._segment(plain, keys[changed], made[changed]))

    def _count_made(self, keys: NDArray[np.uint64], draw: int) -> NDArray[np.int64]:
        """Draws how many merges of each word are made before one is dropped.

        Args:
            keys: [words] the keys of their random numbers.
            draw: the number of the draw, from 0; each gives other numbers.

        Returns:
            [words] numbers; `_MOST_MERGES` means that so many are made and none is dropped yet.
        """
        # Uniform below 2^63, so at least n merges are made if they are below the power of n.
        bits = _fold(keys, draw) >> np.uint64(1)
        return _MOST_MERGES - np.searchsorted(self._powers, bits, side="right")

    def _segment(
        self, words: list[bytes], keys: NDArray[np.uint64], made: NDArray[np.int64]
    ) -> list[bytes]:
        """Returns the new ids of each word, as int32 bytes.

        Args:
            words: their ids in plain BPE, as int32 bytes.
            keys: [words] the keys of their random numbers.
            made: [words] the result of their first draw (see `_count_made`).
        """
        merges = self._merges
        splits = [merges.characters(word) for word in words]
        # How many candidates of each word's split are dropped. Candidates are ordered, best first,
        # so this number is also the index of the best one left.
        dropped = [0] * len(words)
        unfinished = list(range(len(words)))
        draw = 0
        while unfinished:
            remaining = []
            for word, count in zip(unfinished, made.tolist(), strict=True):
                split, candidate = splits[word], dropped[word]
                for _ in range(count):
                    if candidate == len(split.candidates):
                        break
                    # Usually it is cached, and a call takes longer than all else here.
                    split = split.following[candidate] or merges.after(split, candidate)
                    candidate = 0
                # The merge after these is dropped, unless more draws are needed to know. At most
                # one per draw: the next draw says how many merges come before another is dropped.
                candidate += count < _MOST_MERGES
                splits[word], dropped[word] = split, candidate
                if candidate < len(split.candidates):
                    remaining.append(word)
            unfinished, draw = remaining, draw + 1
            made = self._count_made(keys[unfinished], draw)
        return [merges.encode(split) for split in splits]


Segmenters = tuple[DropoutSegmenter | None, DropoutSegmenter | None]
"""Of source and target; None for a side that keeps its ids."""


@dataclass(slots=True)
class Split:
    """A word split into symbols, after some merges.

    Attributes:
        symbols: the symbols, in order.
        candidates: the possible merges, best first: rank, and index of the left symbol.
        following: the split after each candidate's merge; None if not computed yet.
    """

    symbols: list[str]
    candidates: list[tuple[float, int]]
    following: "list[Split | None]" = field(init=False)

    def __post_init__(self) -> None:
        self.following = [None] * len(self.candidates)


class BpeMerges:
    """The merges of a SentencePiece BPE, made one at a time.

    Attributes:
        word_marks: the ids that have the mark of a word boundary.
        merges_in: [vocabulary] int64: the number of merges that make each id; 0 for symbols.

    Raises:
        UserError: it is not a BPE model of SentencePiece.
    """

    def __init__(self, model_path: Path) -> None:
        model = _read_bpe(model_path)
        pieces = model.pieces
        # Does the mark of a word boundary stand at the end of a word, or at its beginning?
        at_end = model.trainer_spec.treat_whitespace_as_suffix
        self.word_marks = WordMarks.of([piece.piece for piece in pieces], at_end)
        # A better merge has a lower rank.
        self._ranks = {piece.piece: -piece.score for piece in pieces if piece.type == _MERGED}
        # [vocabulary] the text of each id, in UTF-8.
        self._texts = [_text(piece) for piece in pieces]
        # The id of every symbol, and of every byte, as int32 bytes.
        self._ids: dict[str, bytes] = {}
        self._byte_ids: dict[bytes, bytes] = {}
        # The ids that are never merged with their neighbours.
        self._whole: set[int] = set()
        for number, piece in enumerate(pieces):
            ids = np.int32(number).tobytes()
            if piece.type == _BYTE:
                self._byte_ids[self._texts[number]] = ids
            elif piece.type == _MERGED:
                self._ids[piece.piece] = ids
            else:
                # A symbol such as a tag, or a control token.
                self._ids[_WHOLE_MARK + piece.piece] = ids
                self._whole.add(number)
        # A merge makes one piece of two, so n characters take n - 1.
        self.merges_in = np.array([len(p.piece) - 1 if p.type == _MERGED else 0 for p in pieces])
        # The cache of `characters`, by the ids of a word.
        self._splits: dict[bytes, Split] = {}

    def characters(self, word: bytes) -> Split:
        """Returns a word split into characters, before its first merge.

        Splits are cached, since most words occur many times.

        Args:
            word: ids of its text, as int32 bytes; how they split it does not matter.
        """
        split = self._splits.get(word)
        if split is None:
            split = self._split_characters(np.frombuffer(word, np.int32).tolist())
            if len(split.symbols) <= _LONGEST_WORD:
                if len(self._splits) >= _MOST_WORDS:
                    self._splits.clear()  # Frequent words are soon cached again.
                self._splits[word] = split
        return split

    def _split_characters(self, ids: Sequence[int]) -> Split:
        """Splits the text of ids into characters; each id in `_whole` becomes one marked symbol.

        The candidates of the split are sorted: the best is first, and of equal ones the left one.
        """
        # Several ids, each a byte, may be one character, so the text between whole symbols is
        # joined before it is decoded. Invalid UTF-8, which SentencePiece never makes, raises a
        # UnicodeDecodeError.
        symbols: list[str] = []
        text = b""
        for token in ids:
            if token in self._whole:
                symbols += [*text.decode(), _WHOLE_MARK + self._texts[token].decode()]
                text = b""
            else:
                text += self._texts[token]
        symbols += [*text.decode()]
        return Split(symbols, sorted(self._candidates(symbols, range(len(symbols)))))

    def after(self, split: Split, candidate: int) -> Split:
        """Returns the split after a merge: that of the candidate with this index, from 0.

        It is cached in `split.following`.
        """
        following = split.following[candidate]
        if following is None:
            _, merged = split.candidates[candidate]
            symbols = split.symbols.copy()
            symbols[merged : merged + 2] = [symbols[merged] + symbols[merged + 1]]
            # Candidates that share no symbol with the merge stay; those behind it move by one.
            staying = [(rank, left) for rank, left in split.candidates if abs(left - merged) > 1]
            candidates = [(rank, left if left < merged else left - 1) for rank, left in staying]
            # The new symbol may merge with the one before it, and with the one after it.
            candidates += self._candidates(symbols, (merged - 1, merged))
            candidates.sort()
            following = split.following[candidate] = Split(symbols, candidates)
        return following

    def encode(self, split: Split) -> bytes:
        """Returns the ids of a word, as int32 bytes.

        A symbol without an id, which is a character, is spelled in bytes of UTF-8.
        """
        return b"".join([self._ids.get(symbol) or self._spell(symbol) for symbol in split.symbols])

    def _candidates(self, symbols: list[str], lefts: Iterable[int]) -> list[tuple[float, int]]:
        """Returns the possible merges of symbols with the next ones: rank, and index of the left.

        Args:
            symbols: all symbols of a word.
            lefts: indices of the left symbols, in any order; those that have no next one, or are
                outside the word, give no merge.
        """
        inside = [left for left in lefts if 0 <= left < len(symbols) - 1]
        ranked = [(self._ranks.get(symbols[left] + symbols[left + 1]), left) for left in inside]
        return [(rank, left) for rank, left in ranked if rank is not None]

    def _spell(self, character: str) -> bytes:
        """Returns the ids of the pieces <0x..> for a character's UTF-8 bytes, as int32 bytes."""
        return b"".join(self._byte_ids[bytes([byte])] for byte in character.encode())


class _Words:
    """Sentences of ids, EOS last, split into words.

    Attributes:
        sentence: [words] the index of each word's sentence.
        place: [words] the index of each word in its sentence.
        merge_counts: [words] how many merges make each word from characters.
    """

    def __init__(self, merges: BpeMerges, sentences: FlatIds) -> None:
        tokens, self._lengths = sentences
        # [sentences] the index in `tokens` of each sentence's first id.
        first_ids = np.cumsum(self._lengths) - self._lengths
        marks = merges.word_marks
        marked = np.array(marks.marked)[tokens]
        # EOS is a word of its own.
        begins = (np.roll(marked, 1) if marks.at_end else marked) | (tokens == EOS_ID)
        # np.roll has carried the last id's mark over to the first.
        begins[first_ids] = True
        self._starts = np.flatnonzero(begins)
        self._ends = np.append(self._starts[1:], len(tokens))
        # [sentences] the number of words.
        counts = np.add.reduceat(begins, first_ids, dtype=np.int64)
        self.sentence = np.repeat(np.arange(len(counts)), counts)
        self.place = np.arange(len(self._starts)) - np.repeat(np.cumsum(counts) - counts, counts)
        self.merge_counts = np.add.reduceat(merges.merges_in[tokens], self._starts)
        self._ids = tokens.astype(np.int32).tobytes()

    def __getitem__(self, word: int) -> bytes:
        """Returns the ids of a word as int32 bytes."""
        return self._ids[self._starts[word] * _ID_BYTES : self._ends[word] * _ID_BYTES]

    def replaced(self, words: NDArray[np.integer], ids: list[bytes]) -> FlatIds:
        """Returns the sentences with other ids for some words, and their new lengths.

        Args:
            words: the indices of these words, ascending.
            ids: the new ids of each, as int32 bytes.
        """
        starts, ends = self._starts[words] * _ID_BYTES, self._ends[words] * _ID_BYTES
        parts, copied = [], 0
        for start, end, new in zip(starts.tolist(), ends.tolist(), ids, strict=True):
            parts += [self._ids[copied:start], new]
            copied = end
        replaced = b"".join([*parts, self._ids[copied:]])
        sizes = np.fromiter(map(len, ids), np.int64, len(ids))
        # Not `growth[...] +=`, which would count only one of a sentence's words.
        growth = np.zeros(len(self._lengths), np.int64)
        np.add.at(growth, self.sentence[words], (sizes - (ends - starts)) // _ID_BYTES)
        lengths = (self._lengths + growth).astype(np.int32)
        return np.frombuffer(replaced, np.int32), lengths


def _text(piece: ModelProto.SentencePiece) -> bytes:
    """Returns the text of a piece in UTF-8; of the piece of a byte, the byte itself."""
    # The piece of the byte 65 is "<0x41>".
    return bytes([int(piece.piece[1:-1], 16)]) if piece.type == _BYTE else piece.piece.encode()


def _fold(keys: NDArray[np.uint64], numbers: NDArray[np.integer] | int) -> NDArray[np.uint64]:
    """Returns 64 pseudo-random bits for each key and number: SplitMix64 (Steele et al., 2014).

    Of one key and many numbers, or of many keys and one number, the one holds for all.
    """
    # The state advances before its first output, so number n takes n + 1 steps. NumPy silently
    # wraps products of arrays, but warns about scalars.
    steps = np.atleast_1d(numbers).astype(np.uint64) + np.uint64(1)
    bits = keys + steps * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _read_bpe(model_path: Path) -> ModelProto:
    """Reads a BPE model of SentencePiece.

    Raises:
        UserError: the file is another subword model.
    """
    model = ModelProto()
    subwords = open_subwords(model_path)
    if isinstance(subwords, SentencePieceModel):
        model.ParseFromString(subwords.sentencepiece())
    if model.trainer_spec.model_type != TrainerSpec.BPE:
        problem = f"{model_path} is not a BPE model of SentencePiece, as SubwordDropout needs"
        raise UserError(f"{problem}: leave SubwordDropout out, or use subwords of datagen.")
    return model
