"""The protocol of a corpus: named splits of sentence pairs, and a description of its content."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from t2t_repro.errors import UserError

_Entry = TypeVar("_Entry")
# A line break, or half a character (a lone surrogate).
_BROKEN = re.compile("[\n\ud800-\udfff]")

Pair = tuple[str, str]
"""(source, target): one line each, unchanged but for the newline at its end."""


@runtime_checkable
class Corpus(Protocol):
    """A source of sentence pairs."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits.

        They are "train", "dev" (optional in a mixture), usually "test", and others. All but "train"
        are held out.
        """

    def describe(self) -> dict[str, Any]:
        """Returns, as JSON values, everything that determines the content.

        Equal descriptions mean equal data. A corpus may need `prepare` first, in this process or in
        an earlier one. `prepare` is not called again for data that are prepared already.

        Raises:
            UserError: the data are missing.
        """

    def prepare(self, download_dir: Path) -> None:
        """Fetches missing data, and makes cheap checks.

        Args:
            download_dir: folder for downloads, which may not exist yet.

        Raises:
            UserError: data cannot be fetched or used.
        """

    def read(self, split: str, download_dir: Path) -> Iterator[Pair]:
        """Yields the pairs of a split, always in the same order.

        Args:
            split: one of `splits`.
            download_dir: as in `prepare`.

        Raises:
            UserError: the corpus's data cannot be used.
        """


def given_splits(train: _Entry, dev: _Entry | None, test: _Entry | None) -> dict[str, _Entry]:
    """Returns the entries by the name of their split, without those that are None."""
    given = {"train": train, "dev": dev, "test": test}
    return {split: entry for split, entry in given.items() if entry is not None}


def read_pairs(corpus: Corpus, split: str, download_dir: Path) -> Iterator[Pair]:
    """Yields the pairs of a split, checked, since users write corpora too.

    Raises:
        UserError: an item is not a pair of strings, or has a line break or half a character.
    """
    for pair in corpus.read(split, download_dir):
        is_pair = isinstance(pair, tuple | list) and len(pair) == 2
        if not is_pair or any(not isinstance(side, str) or _BROKEN.search(side) for side in pair):
            problem = f"{type(corpus).__name__}.read yields {pair!r} in the split {split!r}"
            raise UserError(f"{problem}, expected pairs of strings, each one line of UTF-8")
        yield pair
