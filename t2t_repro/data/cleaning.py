"""Rules that drop training pairs, and their application to a stream of blocks."""

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

from t2t_repro.config.values import Count, Range, configurable
from t2t_repro.data.corpora.corpus import Pair
from t2t_repro.data.parallel import map_in_order
from t2t_repro.text.scripts import length_in_letters

REASONS = (
    "empty_side",
    "over_long",
    "length_ratio",
    "held_out_overlap",
    "duplicate",
    "over_long_subwords",
)
"""Reasons for dropping a pair, in the order of the rules; the last is of `Preparation`."""

ADDED = CAPITALS, WORDS = "variants_in_capitals", "variants_with_words"
"""Kinds of pairs that `prepare.variants` adds. They are counted among the kept ones too."""

_VERDICTS = ("kept", *REASONS)
_KEPT = 0

# Most hashes in an array: 128 megabytes, and as much again while two arrays are merged.
_LONGEST_RUN = 2**24

# A larger ratio means more merging, but fewer arrays to search.
_MERGE_RATIO = 8


@configurable()
@dataclass(frozen=True)
class Cleaning:
    """The cleaning rules.

    A pair with a side that is empty, or has no visible character, is always dropped. The length
    ratio is in characters. A German word may be four English ones, so a correct pair of short
    sentences may have a high ratio in words. A pair beyond 9 in characters (in words, the value of
    Moses' clean-corpus-n.perl) is hardly ever a translation.

    Attributes:
        max_words: drops pairs with a side of more words (separated by white space).
        max_length_ratio: drops pairs with a side that has more than this many times the characters
            of the other, also where Han counts as three letters, kana and hangul as two.
        drop_duplicates: drops a pair that is equal to an earlier one of the same corpus, white
            space apart.
        drop_held_out: drops a pair whose source is the source, or whose target is the target, of a
            held-out pair, white space and case apart.
    """

    max_words: Count = 250
    max_length_ratio: Annotated[float, Range(least=1, most=1e9)] = 9.0
    drop_duplicates: bool = True
    drop_held_out: bool = True


class CleaningReport(Counter[str]):
    """Counts of pairs: "kept", dropped for each of `REASONS`, and added for each of `ADDED`."""

    def clean_pairs(self) -> int:
        """Returns the number of pairs that `Cleaning` kept, without added variants."""
        # Pairs with too many subwords passed `Cleaning`: encoding moves them from "kept".
        return self["kept"] + self["over_long_subwords"] - sum(self[kind] for kind in ADDED)

    def describe(self) -> str:
        """Returns the counts in one line, such as "kept 9, duplicate 1"."""
        counts = (f"{name.replace('_', ' ')} {count:,}" for name, count in self.items() if count)
        return ", ".join(counts)


class Variants(Protocol):
    """Adds variants of training pairs; a dataclass, whose fields the prepared data record."""

    def extend(self, pairs: Iterable[Pair], first: int) -> tuple[list[Pair], CleaningReport]:
        """Inserts each variant after its pair.

        Args:
            pairs: consecutive pairs of the training text.
            first: number of the first of them, from 0.

        Returns:
            all pairs, and the report on the variants alone: "kept", and the kinds in `ADDED`.
        """

    def without_words(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yields the pairs of `extend` without the variants of kind `WORDS`."""


def clean(
    blocks: Iterable[Sequence[Pair]], rules: Cleaning, held_out: Iterable[Pair], workers: int
) -> Iterator[tuple[list[Pair], CleaningReport]]:
    """Applies the rules to the training pairs, block by block.

    Duplicates are found by 64-bit hashes, so that tens of millions of pairs fit in memory. The
    chance that 40 million pairs lose one because two hashes are equal is 1 in 10,000.

    Args:
        blocks: the training pairs; read as results are taken, a few blocks ahead.
        rules: the cleaning rules.
        held_out: all pairs of the other splits, kept in memory.
        workers: number of processes (`prepare.workers`).

    Yields:
        of every block, the pairs that passed, unchanged, and the counts.
    """
    seen = SeenHashes()
    # The workers are a few blocks ahead; `tee` keeps these blocks until their verdicts arrive.
    blocks, ahead = itertools.tee(blocks)
    judged = map_in_order(_Judge(rules, held_out), ahead, workers, "prepare.workers")
    for (verdicts, hashes), pairs in zip(judged, blocks, strict=True):
        if rules.drop_duplicates:
            # `hashes` has one for each of these.
            candidates = np.flatnonzero(verdicts == _KEPT)
            is_new = seen.add(hashes)
            verdicts[candidates[~is_new]] = _VERDICTS.index("duplicate")
        kept = list(itertools.compress(pairs, (verdicts == _KEPT).tolist()))
        yield kept, CleaningReport(_VERDICTS[verdict] for verdict in verdicts.tolist())


class _Judge:
    """Applies all rules but the one on duplicates, which needs earlier blocks; can be pickled.

    Args:
        rules: the cleaning rules.
        held_out: all pairs of the other splits.
    """

    def __init__(self, rules: Cleaning, held_out: Iterable[Pair]) -> None:
        self._rules = rules
        self._sources: set[str] = set()
        self._targets: set[str] = set()
        if rules.drop_held_out:
            for source, target in held_out:
                self._sources.add(_squeeze(source).casefold())
                self._targets.add(_squeeze(target).casefold())

    def __call__(self, pairs: Sequence[Pair]) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
        """Judges each pair, as if it were no duplicate.

        Returns:
            verdicts [pairs], indices of `_VERDICTS`; and hashes of the pairs that are kept, [kept].
        """
        # The array of a bytearray can be changed, as `clean` does.
        verdicts, digests = bytearray(), bytearray()
        for pair in pairs:
            source, target = map(_squeeze, pair)
            # The first rule that a pair breaks counts.
            reason = _broken_length_rule(source, target, self._rules)
            is_held_out = source.casefold() in self._sources or target.casefold() in self._targets
            if is_held_out and reason is None:
                reason = "held_out_overlap"
            verdicts.append(_VERDICTS.index(reason or "kept"))
            if reason is None:
                # A squeezed sentence has no tab. The hash is the same in every process.
                content = f"{source}\t{target}".encode("utf-8", "surrogatepass")
                digests += hashlib.blake2b(content, digest_size=8).digest()
        return np.frombuffer(verdicts, np.uint8), np.frombuffer(digests, "<u8")


def _squeeze(sentence: str) -> str:
    """Returns the words of a sentence with one space between them."""
    return " ".join(sentence.split())


def _broken_length_rule(source: str, target: str, rules: Cleaning) -> str | None:
    """Returns the first of the rules on lengths that a pair breaks, as in `REASONS`; or None.

    Args:
        source: from `_squeeze`: single spaces separate words.
        target: likewise.
        rules: the cleaning rules.
    """
    if _is_invisible(source) or _is_invisible(target):
        return "empty_side"
    # There is one space less than there are words.
    if max(source.count(" "), target.count(" ")) >= rules.max_words:
        return "over_long"
    is_uneven = _is_uneven(len(source), len(target), rules)
    # Counting in letters is slow: only where characters break the rule.
    if is_uneven and _is_uneven(length_in_letters(source), length_in_letters(target), rules):
        return "length_ratio"
    return None


def _is_uneven(length: int, other_length: int, rules: Cleaning) -> bool:
    """Returns whether one of two lengths is more than `max_length_ratio` times the other."""
    return max(length, other_length) > rules.max_length_ratio * min(length, other_length)


def _is_invisible(side: str) -> bool:
    """Returns whether a sentence is empty, or has only characters that nobody sees, or "▁"."""
    # Controls, formats and separators; the replacement character, the grapheme joiner, and the
    # space of SentencePiece.
    return all(category(c) in ("Cc", "Cf", "Zl", "Zp", "Zs") or c in "\ufffd\u034f▁" for c in side)


class SeenHashes:
    """A set of 64-bit hashes in little more than 8 bytes each.

    The hashes are in a few sorted arrays, called runs. A new block becomes a run, and is merged
    with earlier runs that are not much longer.
    """

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []

    def add(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Adds hashes, and returns which were not in the set before, [hashes].

        Of equal hashes, only the first is new.
        """
        distinct, first = np.unique(hashes, return_index=True)
        unseen = np.ones(len(distinct), dtype=bool)
        for run in self._runs:
            # Where each hash is, if it is in the run. For one above all of the run, that is the
            # run's length, which is no index; any index does, since no hash there is equal.
            positions = np.searchsorted(run, distinct)
            unseen &= run[np.minimum(positions, len(run) - 1)] != distinct
        new = np.zeros(len(hashes), dtype=bool)
        new[first[unseen]] = True
        self._add_run(distinct[unseen])
        return new

    def _add_run(self, run: NDArray[np.uint64]) -> None:
        """Adds a sorted array, if it is not empty, merged with earlier ones not much longer."""

        def can_merge(earlier: int, new: int) -> bool:
            """Returns whether runs of these lengths become one."""
            return earlier <= _MERGE_RATIO * new and earlier + new <= _LONGEST_RUN

        while self._runs and can_merge(len(self._runs[-1]), len(run)):
            run = np.concatenate([self._runs.pop(), run])
            # NumPy's stable sort of 64-bit numbers finds the two sorted halves and merges them.
            run.sort(kind="stable")
        if len(run):
            self._runs.append(run)
