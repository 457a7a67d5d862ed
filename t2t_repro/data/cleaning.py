"""Which sentence pairs are fit to train on: rules, and a stream that applies and counts them."""

import hashlib
import itertools
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import gin
import numpy as np
from numpy.typing import NDArray

from t2t_repro.config.values import Count, Range, validated
from t2t_repro.data.corpora.corpus import Pair
from t2t_repro.data.parallel import map_in_order

REASONS = (
    "empty_side",
    "over_long",
    "length_ratio",
    "held_out_overlap",
    "duplicate",
    "over_long_subwords",
)
"""Why a pair is dropped, in the order in which the rules are tried; the last by `Preparation`."""

# Hashes in an array at most: merging two takes as much again for a moment, 128 megabytes.
_LONGEST_RUN = 2**24

# More makes more merging, but fewer arrays to look into.
_MERGE_RATIO = 8


@gin.configurable
@validated
@dataclass(frozen=True)
class Cleaning:
    """The rules. A pair with an empty (or blank) side is always dropped.

    The ratio of lengths is taken in characters, not words. German writes as one word what English
    writes as four, so a correct pair of short sentences may have a high ratio in words. In
    characters a pair beyond 9 (in words, the value of Moses' clean-corpus-n.perl) is hardly ever a
    translation, whatever its length.

    Attributes:
        max_words: a pair is dropped when a side has more whitespace-separated words than this.
        max_length_ratio: likewise, when one side has more than this many times the characters
            of the other; at least 1.
        drop_duplicates: whether a pair that came before is dropped (whitespace apart); of a
            mixture, before in the same corpus.
        drop_held_out: whether a pair is dropped whose source is a source, or whose target is a
            target, of a held-out pair (whitespace and case apart).

    Raises:
        UserError: a number is below 1.
    """

    max_words: Count = 250
    max_length_ratio: Annotated[float, Range(least=1, most=1e9)] = 9.0
    drop_duplicates: bool = True
    drop_held_out: bool = True


class CleaningReport(Counter[str]):
    """Numbers of pairs: "kept", and dropped by reason (see `REASONS`)."""

    def describe(self) -> str:
        """Returns one line for the user: how many pairs were kept, and why others were not."""
        dropped = {reason: self[reason] for reason in REASONS if self[reason]}
        line = f"kept {self['kept']:,} of {self['kept'] + sum(dropped.values()):,} pairs"
        if not dropped:
            return line
        reasons = ", ".join(
            f"{reason.replace('_', ' ')} {count:,}" for reason, count in dropped.items()
        )
        return f"{line}; dropped {sum(dropped.values()):,}: {reasons}"


@dataclass(frozen=True)
class CleanBlock:
    """What is left of a block of pairs.

    Attributes:
        pairs: the pairs that passed, unchanged and in their order.
        hashes: [pairs] uint64, theirs; none where duplicates are not dropped.
        report: counts each pair of the block under "kept" or the first reason that applied.
    """

    pairs: list[Pair]
    hashes: NDArray[np.uint64]
    report: CleaningReport


def clean(
    blocks: Iterable[Sequence[Pair]],
    rules: Cleaning,
    held_out: Iterable[Pair] = (),
    seen: "SeenHashes | None" = None,
    workers: int = 1,
    corpus: str = "",
) -> Iterator[CleanBlock]:
    """Applies the rules to blocks of training pairs.

    Training pairs are remembered as 64-bit hashes, so that tens of millions of them fit in memory.
    Of corpora of 40 million pairs, about one in 10,000 loses a pair because two hashes are the
    same. Held-out sentences, which are few, are kept whole.

    Args:
        blocks: the training pairs; consumed as the result is, a few blocks ahead.
        rules: the rules.
        held_out: all pairs of the dev and test splits; consumed before the first block is.
        seen: hashes of the pairs that were kept of earlier blocks; grows.
        workers: processes to start, see `map_in_order`.
        corpus: in a mixture, the name of the pairs' corpus: equal pairs of two are no duplicates.
    """
    seen = SeenHashes() if seen is None else seen
    waiting: deque[Sequence[Pair]] = deque()

    def remembered() -> Iterator[Sequence[Pair]]:
        for block in blocks:
            waiting.append(block)
            yield block

    for reasons, hashes in map_in_order(_Judge(rules, held_out, corpus), remembered(), workers):
        pairs = waiting.popleft()
        if rules.drop_duplicates:
            fit = np.flatnonzero(reasons == _KEPT)
            new = seen.add(hashes)
            reasons[fit[~new]] = _VERDICTS.index("duplicate")
            hashes = hashes[new]
        kept = list(itertools.compress(pairs, (reasons == _KEPT).tolist()))
        yield CleanBlock(
            kept, hashes, CleaningReport(_VERDICTS[reason] for reason in reasons.tolist())
        )


_VERDICTS = ("kept", *REASONS)
_KEPT = 0


class _Judge:
    """The rules that look at a pair by itself; picklable, so that other processes can apply them.

    Args:
        rules: the rules.
        held_out: all pairs of the dev and test splits.
        corpus: see `clean`.
    """

    def __init__(self, rules: Cleaning, held_out: Iterable[Pair], corpus: str) -> None:
        self._rules = rules
        self._prefix = f"{corpus}\t" if corpus else ""
        self._sources: set[str] = set()
        self._targets: set[str] = set()
        if rules.drop_held_out:
            for source, target in held_out:
                self._sources.add(_squeeze(source).casefold())
                self._targets.add(_squeeze(target).casefold())

    def __call__(self, pairs: Sequence[Pair]) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
        """Returns each pair's verdict, [pairs], and the hashes of the kept, if they are needed."""
        reasons, digests = bytearray(), bytearray()
        for pair in pairs:
            source, target = map(_squeeze, pair)
            reason = _misshapen(source, target, self._rules) or self._held_out(source, target)
            reasons.append(_VERDICTS.index(reason or "kept"))
            if reason is None and self._rules.drop_duplicates:
                # A tab cannot be part of a squeezed sentence, so that it keeps the sides apart.
                digests += _digest(f"{self._prefix}{source}\t{target}")
        return np.frombuffer(reasons, np.uint8), np.frombuffer(digests, "<u8")

    def _held_out(self, source: str, target: str) -> str | None:
        overlaps = self._rules.drop_held_out and (
            source.casefold() in self._sources or target.casefold() in self._targets
        )
        return "held_out_overlap" if overlaps else None


def _squeeze(sentence: str) -> str:
    """Returns the words of a sentence with one space between them."""
    return " ".join(sentence.split())


def _misshapen(source: str, target: str, rules: Cleaning) -> str | None:
    """Returns why a pair's lengths are unfit, or None; both sides are squeezed."""
    if not source or not target:
        return "empty_side"
    if max(source.count(" "), target.count(" ")) >= rules.max_words:
        return "over_long"
    shorter, longer = sorted((len(source), len(target)))
    if longer > rules.max_length_ratio * shorter:
        return "length_ratio"
    return None


class SeenHashes:
    """A set of 64-bit hashes that takes little more than their 8 bytes each.

    They lie in sorted arrays. A new block of hashes becomes an array of its own, which is merged
    with those before it that are not much longer; so there are few of them, and a merge takes
    limited memory.
    """

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []

    def add(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Adds hashes; returns for each, [hashes], whether it is new, the first of equals only."""
        distinct, first = np.unique(hashes, return_index=True)
        unseen = np.ones(len(distinct), dtype=bool)
        for run in self._runs:
            places = np.searchsorted(run, distinct)
            unseen &= run[np.minimum(places, len(run) - 1)] != distinct
        new = np.zeros(len(hashes), dtype=bool)
        new[first[unseen]] = True
        self._keep(distinct[unseen])
        return new

    def _keep(self, run: NDArray[np.uint64]) -> None:
        def merges(last: int) -> bool:
            return last <= _MERGE_RATIO * len(run) and last + len(run) <= _LONGEST_RUN

        while self._runs and merges(len(self._runs[-1])):
            run = np.concatenate([self._runs.pop(), run])
            run.sort(kind="stable")  # Merges what is sorted already.
        if len(run):
            self._runs.append(run)


def _digest(text: str) -> bytes:
    """Hashes a string to 8 bytes, the same in every process."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
