"""Corpora made from another one: here in the other direction; see gin/noised_source.py too."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gin

from t2t_repro.config.values import validated
from t2t_repro.data.corpora.corpus import Corpus, Pair, check_unmixed


@dataclass(frozen=True)
class Altered:
    """A corpus whose pairs are made from those of another corpus.

    Attributes:
        corpus: the other corpus.
    """

    corpus: Corpus

    def __post_init__(self) -> None:
        check_unmixed(f"{type(self).__name__}.corpus", self.corpus)

    @property
    def splits(self) -> tuple[str, ...]:
        """Those of the other corpus."""
        return self.corpus.splits

    def prepare(self, download_dir: Path) -> None:
        """Prepares the other corpus."""
        self.corpus.prepare(download_dir)


@gin.configurable
@validated
@dataclass(frozen=True)
class Reversed(Altered):
    """Another corpus with source and target exchanged, e.g. for a model of both directions.

    Attributes:
        corpus: the other corpus.

    Raises:
        UserError: it is a mixture.
    """

    def describe(self) -> dict[str, Any]:
        """Returns the description of the other corpus."""
        return {"corpus": "Reversed", "of": self.corpus.describe()}

    def read(self, split: str, download_dir: Path) -> Iterator[Pair]:
        """Yields the pairs of a split, exchanged."""
        for source, target in self.corpus.read(split, download_dir):
            yield target, source
