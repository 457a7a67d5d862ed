"""BPE-dropout (Provilkov et al., 2020): in every epoch, words in other subwords.

Their Algorithm 1: of the merges that a word allows, each is left out with probability p; the best
of the rest is made; then again with what the word allows now, until none is left. At p = 0 that is
BPE, at p = 1 a word stays in its characters.

SentencePiece can sample too. There a merge that was left out once never comes back, so that p = 0.1
makes text longer by 39 % and not by 21 % (Multi30k, 8,000 subwords).
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import gin
import numpy as np
from numpy.typing import NDArray

from t2t_repro.config.values import Range, Several, validated
from t2t_repro.data.token_store import FlatIds
from t2t_repro.text.bpe_merges import BpeMerges, Split
from t2t_repro.text.subword_model import SubwordModel, SubwordPair
from t2t_repro.vocabulary import EOS_ID

Side = Literal["source", "target"]

_ID_BYTES = np.int32().nbytes

# Some 3 kilobytes each, with all that follows: so 150 megabytes at most in every process.
_MOST_WORDS = 50_000

# A longer word rarely comes again; and where a language writes without spaces, a line is a word.
_LONGEST_WORD = 32

# So many merges at most are made between two random numbers.
_FAR = 64


@gin.configurable
@validated
@dataclass(frozen=True)
class SubwordDropout:
    """In every epoch, every word in subwords of its own.

    Attributes:
        probability: of leaving out a merge.
        sides: of which the text is segmented so.
        workers: processes that do so, while the model is trained on the epoch before; by default
            one a core, eight at most.

    Raises:
        UserError: a number is outside of its range, or there is another side.
    """

    probability: Annotated[float, Range(least=0, most=1)] = 0.1
    sides: Several[Side] = ("source", "target")
    workers: Annotated[int, Range(least=1, most=1024)] | None = None

    def segmenters(
        self, subwords: SubwordPair[SubwordModel], seed: int
    ) -> tuple["DropoutSegmenter | None", "DropoutSegmenter | None"]:
        """Returns what segments the source and the target, None for a side that stays as it is.

        Args:
            subwords: of the data.
            seed: of the run.

        Raises:
            UserError: they are no SentencePiece BPE.
        """
        names: tuple[Side, Side] = ("source", "target")
        source, target = (
            DropoutSegmenter(model.model_path, self.probability, (seed, number))
            if name in self.sides and self.probability
            else None
            for number, (name, model) in enumerate(zip(names, subwords, strict=True))
        )
        return source, target


@dataclass
class DropoutSegmenter:
    """Segments sentences of one side; picklable, so that other processes can do it.

    A sentence's segmentation is a function of seeds, epoch, its number and its text alone.

    Attributes:
        model_path: of the subwords.
        probability: of leaving out a merge.
        seeds: of the random numbers.

    Raises:
        UserError: the subwords are no SentencePiece BPE.
    """

    model_path: Path
    probability: float
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        BpeMerges(self.model_path)

    @cached_property
    def _known(self) -> "_Known":
        return _Known(BpeMerges(self.model_path))

    @cached_property
    def _shares(self) -> NDArray[np.uint64]:
        """[_FAR], growing: (1 - p)^n of all numbers below 2^63, for n merges from _FAR to 1."""
        share, shares = 1.0, []
        for _ in range(_FAR):
            # Not a power, which libraries round each in their own way.
            share *= 1.0 - self.probability
            shares.append(int(share * 2**63))
        return np.array(shares[::-1], np.uint64)

    def __call__(self, epoch: int, numbers: NDArray[np.integer], sentences: FlatIds) -> FlatIds:
        """Segments sentences anew.

        Args:
            epoch: counted from 0.
            numbers: [sentences] the sentences' own.
            sentences: their ids in plain BPE, EOS last.

        Returns:
            The same text in other ids.
        """
        words = _Words(self._known.merges, sentences)
        keys = _fold(_fold(_fold(_key(*self.seeds), epoch), numbers)[words.sentence], words.place)
        made = self._merges_made(keys, 0)
        # All other words stay as they are: none of their merges is left out.
        chosen = np.flatnonzero(made < words.merges)
        segmented = self._segment([words[n] for n in chosen.tolist()], keys[chosen], made[chosen])
        return words.replaced(chosen, segmented)

    def _merges_made(self, keys: NDArray[np.uint64], draw: int) -> NDArray[np.int64]:
        """How many merges are made before the next is left out; _FAR: so many, and none left out.

        Args:
            keys: [words].
            draw: the random number of each, counted from 0.
        """
        drawn = _fold(keys, draw) >> np.uint64(1)
        return _FAR - np.searchsorted(self._shares, drawn, side="right")

    def _segment(
        self, words: list[bytes], keys: NDArray[np.uint64], made: NDArray[np.int64]
    ) -> list[bytes]:
        """The ids of words whose first merges are made, and then one left out.

        Args:
            words: their ids in plain BPE, int32 one after the other.
            keys: [words] of their random numbers.
            made: [words] the merges of each that are made first.
        """
        merges = self._known.merges
        splits = [self._known(word) for word in words]
        left_out = [0] * len(words)
        unfinished = list(range(len(words)))
        draw = 0
        while unfinished:
            going_on = []
            for word, count in zip(unfinished, made.tolist(), strict=True):
                split, number = splits[word], left_out[word]
                for _ in range(count):
                    if number == len(split.candidates):
                        break
                    # Mostly it is known, and a call takes longer than all else here.
                    split = split.following[number] or merges.after(split, number)
                    number = 0
                number += count < _FAR
                splits[word], left_out[word] = split, number
                if number < len(split.candidates):
                    going_on.append(word)
            unfinished, draw = going_on, draw + 1
            made = self._merges_made(keys[unfinished], draw)
        return [merges.encode(split) for split in splits]


class _Known:
    """Words that were met, and all splits that they have led to: most words come many times.

    Args:
        merges: of the vocabulary.
    """

    def __init__(self, merges: BpeMerges) -> None:
        self.merges = merges
        self._splits: dict[bytes, Split] = {}

    def __call__(self, word: bytes) -> Split:
        """The characters of a word, given by its ids, int32 one after the other."""
        split = self._splits.get(word)
        if split is None:
            split = self.merges.characters(np.frombuffer(word, np.int32).tolist())
            if len(split.symbols) <= _LONGEST_WORD:
                if len(self._splits) >= _MOST_WORDS:
                    self._splits.clear()  # What is frequent is soon back.
                self._splits[word] = split
        return split


class _Words:
    """Sentences as words.

    Args:
        merges: of the vocabulary.
        sentences: their ids, EOS last.

    Attributes:
        sentence: [words] in which of the sentences each word is.
        place: [words] the place in it.
        merges: [words] how many merges have made it of characters.
    """

    def __init__(self, merges: BpeMerges, sentences: FlatIds) -> None:
        tokens, self._lengths = sentences
        first_ids = np.cumsum(self._lengths) - self._lengths
        marks = merges.word_marks
        marked = np.array(marks.marked)[tokens]
        # EOS is a word of its own.
        begins = (np.roll(marked, 1) if marks.at_end else marked) | (tokens == EOS_ID)
        begins[first_ids] = True
        self._starts = np.flatnonzero(begins)
        self._ends = np.append(self._starts[1:], len(tokens))
        counts = np.add.reduceat(begins, first_ids, dtype=np.int64)
        self.sentence = np.repeat(np.arange(len(counts)), counts)
        self.place = np.arange(len(self._starts)) - np.repeat(np.cumsum(counts) - counts, counts)
        self.merges = np.add.reduceat(merges.merges_in[tokens], self._starts)
        self._ids = tokens.astype(np.int32).tobytes()

    def __getitem__(self, word: int) -> bytes:
        """The ids of a word, int32 one after the other."""
        return self._ids[self._starts[word] * _ID_BYTES : self._ends[word] * _ID_BYTES]

    def replaced(self, chosen: NDArray[np.integer], ids: list[bytes]) -> FlatIds:
        """Returns the sentences with some words in other ids.

        Args:
            chosen: which, growing.
            ids: theirs.
        """
        starts, ends = self._starts[chosen] * _ID_BYTES, self._ends[chosen] * _ID_BYTES
        parts, done = [], 0
        for start, end, new in zip(starts.tolist(), ends.tolist(), ids, strict=True):
            parts += [self._ids[done:start], new]
            done = end
        parts.append(self._ids[done:])
        sizes = np.fromiter(map(len, ids), np.int64, len(ids))
        growth = np.zeros(len(self._lengths), np.int64)
        np.add.at(growth, self.sentence[chosen], (sizes - (ends - starts)) // _ID_BYTES)
        lengths = (self._lengths + growth).astype(np.int32)
        return np.frombuffer(b"".join(parts), np.int32), lengths


def _key(*numbers: int) -> NDArray[np.uint64]:
    """One key of some numbers, [1]."""
    key = np.zeros(1, np.uint64)
    for number in numbers:
        key = _fold(key, number)
    return key


def _fold(keys: NDArray[np.uint64], numbers: NDArray[np.integer] | int) -> NDArray[np.uint64]:
    """Random 64 bits of every key and number: SplitMix64 (Steele et al., 2014) from the key on."""
    # Of arrays alone NumPy lets products overflow in silence.
    steps = np.atleast_1d(numbers).astype(np.uint64) + np.uint64(1)
    bits = keys + steps * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
