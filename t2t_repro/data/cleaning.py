"""Which sentence pairs are fit to train on: rules, and a stream that applies and counts them."""

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import gin

from t2t_repro.data.corpora import Pair
from t2t_repro.errors import UserError

REASONS = (
    "empty_side",
    "over_long",
    "length_ratio",
    "held_out_overlap",
    "duplicate",
    "over_long_subwords",
)
"""Why a pair is dropped, in the order in which the rules are tried; the last by `prepare`."""


@gin.configurable
@dataclass(frozen=True)
class Cleaning:
    """The rules. A pair with an empty (or blank) side is always dropped.

    The ratio of lengths is taken in characters, not words: German writes as one word what English
    writes as four, so that in words a correct pair of short sentences easily reaches a high ratio,
    while in characters a ratio of 9 (the value, in words, of Moses' clean-corpus-n.perl) is hardly
    ever a translation, whatever the length.

    Attributes:
        max_words: Drop a pair when a side has more whitespace-separated words than this.
        max_length_ratio: Drop a pair when one side has more than this many times the characters of
            the other.
        drop_duplicates: Drop a pair that came before (whitespace apart).
        drop_held_out: Drop a pair whose source is a source, or whose target is a target, of a
            held-out pair (whitespace and case apart).

    Raises:
        UserError: A number is not one that some pair could satisfy.
    """

    max_words: int = 250
    max_length_ratio: float = 9.0
    drop_duplicates: bool = True
    drop_held_out: bool = True

    def __post_init__(self) -> None:
        if self.max_words < 1:
            raise UserError(f"Cleaning.max_words = {self.max_words}: expected at least 1")
        if not self.max_length_ratio >= 1:
            raise UserError(
                f"Cleaning.max_length_ratio = {self.max_length_ratio}: expected at least 1, the "
                "ratio of the longer side to the shorter"
            )


class CleaningReport(Counter[str]):
    """Numbers of pairs: "kept", and dropped by reason (see `REASONS`)."""

    def describe(self) -> str:
        """Return one line for the user: how many pairs were kept, and why others were not."""
        dropped = {reason: self[reason] for reason in REASONS if self[reason]}
        line = f"kept {self['kept']:,} of {self['kept'] + sum(dropped.values()):,} pairs"
        if not dropped:
            return line
        reasons = ", ".join(
            f"{reason.replace('_', ' ')} {count:,}" for reason, count in dropped.items()
        )
        return f"{line}; dropped {sum(dropped.values()):,}: {reasons}"


def clean(
    pairs: Iterable[Pair],
    rules: Cleaning,
    held_out: Iterable[Pair] = (),
    report: CleaningReport | None = None,
) -> Iterator[Pair]:
    """Yield, unchanged and in their order, the pairs that pass the rules.

    Training pairs are remembered as 64-bit hashes, 12 to 24 bytes a pair, so that tens of millions
    of them fit in memory; that a pair is dropped because of a colliding hash is to be expected once
    in some 10,000 corpora of 40 million pairs. Held-out sentences, which are few, are kept whole.

    Args:
        pairs: The training pairs; consumed as the result is.
        rules: The rules.
        held_out: All pairs of the dev and test splits; consumed before the first pair is yielded.
        report: Counts each pair under "kept" or the first reason that applies.
    """
    report = CleaningReport() if report is None else report
    seen = HashSet()
    held_out_sources: set[str] = set()
    held_out_targets: set[str] = set()
    if rules.drop_held_out:
        for source, target in held_out:
            held_out_sources.add(_squeeze(source).casefold())
            held_out_targets.add(_squeeze(target).casefold())

    for pair in pairs:
        source, target = map(_squeeze, pair)
        reason = _misshapen(source, target, rules)
        if reason is None and rules.drop_held_out:
            overlaps = (
                source.casefold() in held_out_sources or target.casefold() in held_out_targets
            )
            reason = "held_out_overlap" if overlaps else None
        # A tab cannot be part of a squeezed sentence, so that it keeps the two sides apart.
        if reason is None and rules.drop_duplicates and not seen.add(f"{source}\t{target}"):
            reason = "duplicate"
        report[reason or "kept"] += 1
        if reason is None:
            yield pair


def _squeeze(sentence: str) -> str:
    """Return the words of a sentence with one space between them."""
    return " ".join(sentence.split())


def _misshapen(source: str, target: str, rules: Cleaning) -> str | None:
    """Return why a pair's lengths are unfit, or None; both sides are squeezed."""
    if not source or not target:
        return "empty_side"
    if max(source.count(" "), target.count(" ")) >= rules.max_words:
        return "over_long"
    shorter, longer = sorted((len(source), len(target)))
    if longer > rules.max_length_ratio * shorter:
        return "length_ratio"
    return None


class HashSet:
    """A set of strings that remembers their 64-bit hashes in one flat array.

    Open addressing with linear probing in an array of 8-byte slots; a Python set of the same
    hashes takes five times the memory.
    """

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 * 1024))
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def add(self, text: str) -> bool:
        """Add a string; return whether it is new."""
        hashed = _hash(text)
        slot = self._find(hashed)
        if self._slots[slot] == hashed:
            return False
        self._slots[slot] = hashed
        self._used += 1
        if 3 * self._used > 2 * len(self._slots):
            self._grow()
        return True

    def _find(self, hashed: int) -> int:
        """Return the slot that holds `hashed`, or else the free one where it belongs."""
        slots, mask = self._slots, len(self._slots) - 1
        slot = hashed & mask
        while slots[slot] not in (0, hashed):
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        old = self._slots
        self._slots = array("Q", bytes(2 * 8 * len(old)))
        for hashed in old:
            if hashed:
                self._slots[self._find(hashed)] = hashed


def _hash(text: str) -> int:
    """Hash a string, the same in every process, to a number from 1 (0 marks a free slot)."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1
