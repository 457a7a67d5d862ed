"""What a corpus is: named splits of sentence pairs, and a description that identifies them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from t2t_repro.errors import UserError

Pair = tuple[str, str]
"""(source, target): one line each, as the data have it; only the newline is taken off."""


class Corpus(Protocol):
    """A source of sentence pairs.

    Attributes:
        splits: Names of the splits: "train" and "dev" always, "test" usually, others possibly
            (e.g. "test_2017_flickr"). Every split but "train" is held out.
    """

    splits: tuple[str, ...]

    def describe(self) -> dict[str, Any]:
        """Return, as JSON-able values, everything that determines the content.

        It serves as an identity: equal descriptions mean the same data. Call it after
        `prepare`, because some corpora can only say what they hold once it is there.
        """
        ...

    def prepare(self, download_dir: Path) -> None:
        """Fetch what is missing (nothing, for most corpora) and check what can be checked cheaply.

        Args:
            download_dir: Folder for downloads; created when something is fetched.

        Raises:
            UserError: Data are missing and cannot be fetched, or cannot be used.
        """
        ...

    def read(self, split: str, download_dir: Path) -> Iterator[Pair]:
        """Yield the pairs of one split, always in the same order.

        Args:
            split: One of `splits`.
            download_dir: The folder that `prepare` was given.

        Raises:
            UserError: There is no such split, or its data cannot be used.
        """
        ...


def check_split(split: str, splits: Sequence[str]) -> None:
    """Raise a `UserError` that names the splits there are, unless `split` is one of them."""
    if split not in splits:
        raise UserError(f"no split {split!r} in this corpus; it has: {', '.join(splits)}")


def held_out_pairs(corpus: Corpus, download_dir: Path) -> Iterator[Pair]:
    """Yield the pairs of every split but "train", in the order of `corpus.splits`."""
    for split in corpus.splits:
        if split != "train":
            yield from corpus.read(split, download_dir)
