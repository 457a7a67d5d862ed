"""Several corpora in one run: their weights in an epoch, and their tags."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import gin

from t2t_repro.config.values import Count, Range, validated
from t2t_repro.data.corpora.corpus import Corpus, Pair, Part, check_unmixed
from t2t_repro.data.mixing import MixtureWeights
from t2t_repro.errors import UserError
from t2t_repro.text.training import check_symbols


@gin.configurable
@validated
class Mixture:
    """A corpus made of several named ones.

    In gin::

        prepare.corpus = @Mixture()
        Mixture.corpora = {'news': @news/TextFilesCorpus(), 'talks': @talks/TextFilesCorpus()}
        news/TextFilesCorpus.train = ('news.en', 'news.de')
        talks/TextFilesCorpus.train = ('talks.en', 'talks.de')
        Mixture.temperature = 5
        Mixture.tags = {'talks': '<talks>'}

    Each corpus is cleaned by itself, but held-out sentences of one are dropped from all. A corpus
    needs only the split train. The other splits join those of all corpora; `dev.news` is the part
    of one corpus.

    A tag and a space are put in front of every source, in all splits. The tag is one symbol of the
    subword model, and is part of the text to translate. Weights and temperature can change without
    preparing data again.

    Args:
        corpora: the corpora by name: letters, digits, - and _.
        tags: of some of them, such as '<2de>', or several, '<2de> <news>'.
        weights: of all corpora, proportional to their sentences in an epoch; 0 leaves one out.
        temperature: in place of weights; see `data.mixing`. Without either, an epoch has every
            sentence once.
        epoch_sentences: sentence pairs of an epoch; by default as many as all corpora have.

    Raises:
        UserError: an argument is not valid, or two exclude each other.
    """

    splits: tuple[str, ...]

    def __init__(
        self,
        corpora: Mapping[str, Corpus],
        tags: Mapping[str, str] | None = None,
        weights: Mapping[str, Annotated[float, Range(least=0, most=1e9)]] | None = None,
        temperature: Annotated[float, Range(least=1, most=1e9)] | None = None,
        epoch_sentences: Count | None = None,
    ) -> None:
        # Sorted, as gin writes dictionaries into config.gin.
        names, tags = sorted(corpora), tags or {}
        for name in names:
            check_unmixed(f"Mixture.corpora: {name!r}", corpora[name])
        if unknown := sorted(set(tags) - set(names)):
            raise UserError(f"Mixture.tags has {unknown[0]!r}, expected some of {_listed(names)}.")
        if weights is not None and temperature is not None:
            raise UserError("Mixture.weights and .temperature are both bound, expected one.")
        if weights is not None and set(weights) != set(names):
            raise UserError(f"Mixture.weights is of {_listed(weights)}, expected {_listed(names)}.")
        given = {name: tuple(tags[name].split()) for name in tags}
        check_symbols("Mixture.tags", [symbol for tag in given.values() for symbol in tag])
        self.parts = tuple(Part(name, corpora[name], given.get(name, ())) for name in names)
        self.weights = MixtureWeights(
            weights, 1.0 if temperature is None else temperature, epoch_sentences
        )
        every = (split for part in self.parts for split in part.corpus.splits)
        self.splits = tuple(dict.fromkeys(every))

    def describe(self) -> dict[str, Any]:
        """Returns the descriptions of the corpora, and their tags; not their weights."""
        return {
            "corpus": "Mixture",
            "corpora": {part.name: part.corpus.describe() for part in self.parts},
            "tags": {part.name: list(part.tag) for part in self.parts if part.tag},
        }

    def prepare(self, download_dir: Path) -> None:
        """Prepares all corpora.

        Raises:
            UserError: the data of one cannot be fetched or used.
        """
        for part in self.parts:
            part.corpus.prepare(download_dir)

    def read(self, split: str, download_dir: Path) -> Iterator[Pair]:
        """Yields the pairs of a split with their tags, corpus after corpus.

        Raises:
            UserError: its data cannot be used.
        """
        for part in self.parts:
            if split in part.corpus.splits:
                yield from map(part.tagged, part.corpus.read(split, download_dir))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(names))) or "none"
