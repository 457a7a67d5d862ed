"""What a corpus is: named splits of sentence pairs, and a description that identifies them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from t2t_repro.data.mixing import MixtureWeights
from t2t_repro.errors import UserError

_Entry = TypeVar("_Entry")

Pair = tuple[str, str]
"""(source, target): one line each, as the data have it; only the newline is taken off."""


@runtime_checkable
class Corpus(Protocol):
    """A source of sentence pairs.

    Attributes:
        splits: names of the splits: "train" always, "dev" unless it is part of a mixture, "test"
            usually, others possibly (e.g. "test_2017_flickr"). Every split but "train" is held out.
    """

    splits: tuple[str, ...]

    def describe(self) -> dict[str, Any]:
        """Returns, as JSON-able values, everything that determines the content.

        It serves as an identity: equal descriptions mean the same data. Some corpora can only say
        what they hold once `prepare` has been called, in this process or in an earlier one: it is
        not called again where training data have been made of the corpus.

        Raises:
            UserError: what was prepared is not there.
        """
        ...

    def prepare(self, download_dir: Path) -> None:
        """Fetches what is missing, if anything, and checks what can be checked cheaply.

        Args:
            download_dir: folder for downloads; created when something is fetched.

        Raises:
            UserError: data are missing and cannot be fetched, or cannot be used.
        """
        ...

    def read(self, split: str, download_dir: Path) -> Iterator[Pair]:
        """Yields the pairs of one split, always in the same order.

        Args:
            split: one of `splits`.
            download_dir: the folder that `prepare` was given.

        Raises:
            UserError: there is no such split, or its data cannot be used.
        """
        ...


class Part(NamedTuple):
    """A corpus of a mixture, or a corpus by itself.

    Attributes:
        name: its name in the mixture; "" by itself.
        corpus: the corpus.
        tag: symbols that stand in front of its sources.
    """

    name: str
    corpus: Corpus
    tag: tuple[str, ...] = ()

    def tagged(self, pair: Pair) -> Pair:
        """Returns a pair with the tag in front of its source."""
        source, target = pair
        return " ".join((*self.tag, source)), target


@runtime_checkable
class Mixed(Corpus, Protocol):
    """A corpus made of several; see `Mixture`.

    Attributes:
        parts: the corpora.
        shares: how much of each an epoch has.
    """

    parts: Sequence[Part]
    shares: MixtureWeights


def parts_of(corpus: Corpus) -> Sequence[Part]:
    """Returns the corpora that a corpus is made of; itself where it is no mixture."""
    return corpus.parts if isinstance(corpus, Mixed) else [Part("", corpus)]


def check_unmixed(parameter: str, corpus: Corpus) -> None:
    """Raises a `UserError` if a part of another corpus is a mixture, whose shares would be lost."""
    if isinstance(corpus, Mixed):
        raise UserError(
            f"{parameter} is a mixture, expected a single corpus: list all corpora in one Mixture."
        )


def given_splits(train: _Entry, dev: _Entry | None, test: _Entry | None) -> dict[str, _Entry]:
    """Returns what the splits are made of, by name; dev and test may be missing."""
    given = {"train": train, "dev": dev, "test": test}
    return {split: entry for split, entry in given.items() if entry is not None}


def check_languages(corpus: str, source: str, target: str) -> None:
    """Raises a `UserError` if a corpus is to be translated into its own language."""
    if source == target:
        raise UserError(
            f"{corpus}: source and target language are both {source!r}; expected two different ones"
        )


def check_split(split: str, splits: Sequence[str]) -> None:
    """Raises a `UserError` that names the splits there are, unless `split` is one of them."""
    if split not in splits:
        raise UserError(f"no split {split!r} in this corpus; it has: {', '.join(splits)}")


def read_pairs(corpus: Corpus, split: str, download_dir: Path) -> Iterator[Pair]:
    """Yields the pairs of one split, as `read` does; checks them, since a user may have written it.

    Raises:
        UserError: something is no pair of strings, or has a line break.
    """
    for pair in corpus.read(split, download_dir):
        is_pair = isinstance(pair, tuple | list) and len(pair) == 2
        if not is_pair or not all(isinstance(side, str) and "\n" not in side for side in pair):
            raise UserError(
                f"{type(corpus).__name__}.read gives {pair!r} in the split {split!r}, expected "
                "pairs of strings, each on one line"
            )
        yield pair


def held_out_pairs(corpus: Corpus, download_dir: Path) -> Iterator[Pair]:
    """Yields the pairs of every split but "train", without tags, in the order of the splits."""
    for _, part, _ in parts_of(corpus):
        for split in part.splits:
            if split != "train":
                yield from read_pairs(part, split, download_dir)
