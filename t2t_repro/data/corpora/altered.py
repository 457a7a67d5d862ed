"""A corpus in the other direction: its targets are translated into its sources."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gin

from t2t_repro.config.values import validated
from t2t_repro.data.corpora.corpus import Corpus, Pair, check_unmixed


@gin.configurable
@validated
class Reversed:
    """Another corpus with source and target exchanged, such as for a model of both directions.

    Args:
        corpus: the other one.

    Raises:
        UserError: it is a mixture.
    """

    splits: tuple[str, ...]

    def __init__(self, corpus: Corpus) -> None:
        check_unmixed("Reversed.corpus", corpus)
        self._corpus = corpus
        self.splits = corpus.splits

    def describe(self) -> dict[str, Any]:
        """Returns what the other corpus says of itself."""
        return {"corpus": "Reversed", "of": self._corpus.describe()}

    def prepare(self, download_dir: Path) -> None:
        """Prepares the other corpus."""
        self._corpus.prepare(download_dir)

    def read(self, split: str, download_dir: Path) -> Iterator[Pair]:
        """Yields the pairs of a split, turned round."""
        for source, target in self._corpus.read(split, download_dir):
            yield target, source
