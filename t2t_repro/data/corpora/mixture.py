"""Corpora made of other corpora: mixed with weights and tags, or reversed.

Corpus i of a mixture has the share w_i / sum(w) of the sentences of an epoch. The weights are
given, or are

    w_i = size_i^(1/T)

with a temperature T (Arivazhagan et al., 2019, arXiv:1907.05019, section 4.2) and the number size_i
of training pairs after cleaning. T = 1 keeps the proportions of the corpora; a higher T makes their
shares more alike.

An epoch of N sentences has exactly n_i of corpus i: N times its share, rounded by largest
remainder, so that the n_i sum to N. They are the next n_i of an endless stream of the corpus, in
which one random permutation of all its sentences follows the other. So the counts of two sentences
of a corpus never differ by more than one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from t2t_repro.config.values import Count, Range, configurable
from t2t_repro.data.corpora.corpus import Corpus, Pair, read_pairs
from t2t_repro.errors import UserError

# NumPy ignores zeros at the end of a seed. Without this number, the stream of corpus i in its first
# round would repeat the draws of epoch i.
_STREAM = 1


class Part(NamedTuple):
    """A corpus of a mixture, or a single corpus.

    Attributes:
        name: its name in the mixture; "" for a single corpus.
        corpus: the corpus.
        tag: symbols in front of its sources.
    """

    name: str
    corpus: Corpus
    tag: tuple[str, ...] = ()

    def tagged(self, pair: Pair) -> Pair:
        """Returns a pair with the tag in front of its source."""
        source, target = pair
        return " ".join((*self.tag, source)), target


@configurable()
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
        corpora: the corpora by name; no name is empty.
        tags: the tags of some corpora, such as '<2de>', or several, '<2de> <news>'.
        weights: the weights of all corpora, proportional to their sentences in an epoch; 0 leaves
            one out.
        temperature: given in place of weights, see the module. Without either, an epoch has every
            sentence once.
        epoch_sentences: sentence pairs of an epoch; by default as many as all corpora have.

    Attributes:
        parts: the corpora with their names and tags, sorted by name.
        splits: the names of the splits of all corpora.

    Raises:
        UserError: a corpus is a mixture, a tag is of no corpus, weights are not those of all
            corpora or are all 0, or both weights and a temperature are given.
    """

    def __init__(
        self,
        corpora: Mapping[str, Corpus],
        tags: Mapping[str, str] | None = None,
        weights: Mapping[str, Annotated[float, Range(least=0, most=1e9)]] | None = None,
        temperature: Annotated[float, Range(least=1, most=1e9)] | None = None,
        epoch_sentences: Count | None = None,
    ) -> None:
        # Sorted, as gin writes dictionaries into config.gin.
        names = sorted(corpora)
        tags = tags or {}
        for name in names:
            _check_unmixed(f"Mixture.corpora: {name!r}", corpora[name])
        if unknown := sorted(set(tags) - set(names)):
            raise UserError(f"Mixture.tags has {unknown[0]!r}, expected some of {_listed(names)}.")
        if weights is not None:
            _check_weights(weights, names, has_temperature=temperature is not None)
        tags_of = {name: tuple(tags.get(name, "").split()) for name in names}
        self.parts = tuple(Part(name, corpora[name], tags_of[name]) for name in names)
        self._weights = weights
        self._temperature = temperature or 1.0
        self._epoch_sentences = epoch_sentences
        splits = [split for part in self.parts for split in part.corpus.splits]
        self.splits = tuple(dict.fromkeys(splits))

    def describe(self) -> dict[str, Any]:
        """Returns the descriptions and tags of the corpora, not their weights."""
        return {
            "corpus": "Mixture",
            "corpora": {part.name: part.corpus.describe() for part in self.parts},
            "tags": {part.name: list(part.tag) for part in self.parts if part.tag},
        }

    def prepare(self, download_dir: Path) -> None:
        """Prepares all corpora."""
        for part in self.parts:
            part.corpus.prepare(download_dir)

    def read(self, split: str, download_dir: Path) -> Iterator[Pair]:
        """Yields the pairs of a split with their tags, corpus after corpus."""
        for part in self.parts:
            if split in part.corpus.splits:
                yield from map(part.tagged, part.corpus.read(split, download_dir))

    def counts(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Returns the number of sentences of each corpus in an epoch.

        They sum to `epoch_sentences`, by default to the sum of `sizes`, in proportion to the given
        weights, or else to size^(1/temperature).

        Args:
            sizes: sentences of each corpus, by name.
        """
        power = 1 / self._temperature
        weights = self._weights or {name: size**power for name, size in sizes.items()}
        total = self._epoch_sentences or sum(sizes.values())
        return apportion(total, {name: weights[name] for name in sizes})


@dataclass(frozen=True)
class Altered:
    """A corpus whose pairs are made from those of another corpus.

    Attributes:
        corpus: the other corpus.

    Raises:
        UserError: the other corpus is a mixture.
    """

    corpus: Corpus

    def __post_init__(self) -> None:
        _check_unmixed(f"{type(self).__name__}.corpus", self.corpus)

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the other corpus's splits."""
        return self.corpus.splits

    def prepare(self, download_dir: Path) -> None:
        """Prepares the other corpus."""
        self.corpus.prepare(download_dir)


@configurable()
@dataclass(frozen=True)
class Reversed(Altered):
    """A corpus with source and target exchanged, for example for a model of both directions."""

    def describe(self) -> dict[str, Any]:
        """Returns a description that contains the other corpus's."""
        return {"corpus": "Reversed", "of": self.corpus.describe()}

    def read(self, split: str, download_dir: Path) -> Iterator[Pair]:
        """Yields the pairs of a split with source and target exchanged."""
        for source, target in read_pairs(self.corpus, split, download_dir):
            yield target, source


def parts_of(corpus: Corpus) -> Sequence[Part]:
    """Returns the parts of a mixture; of another corpus, one part without a name or tag."""
    return corpus.parts if isinstance(corpus, Mixture) else [Part("", corpus)]


def held_out_pairs(corpus: Corpus, download_dir: Path) -> Iterator[Pair]:
    """Yields the pairs of every split but "train", without tags."""
    for part in parts_of(corpus):
        for split in part.corpus.splits:
            if split != "train":
                yield from read_pairs(part.corpus, split, download_dir)


def apportion(total: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Divides a number in proportion to weights, by largest remainder.

    Args:
        total: the number to divide.
        weights: none negative, some positive.

    Returns:
        integers that sum to `total`, by name, each less than 1 away from its exact share. Of equal
        remainders, the first is rounded up first.
    """
    # Exact fractions, so that no rounding makes workers disagree.
    exact = {name: Fraction(weight) for name, weight in weights.items()}
    total_weight = sum(exact.values())
    shares = {name: total * weight / total_weight for name, weight in exact.items()}
    counts = {name: int(share) for name, share in shares.items()}
    # By the negative remainder, so the largest remainder is first.
    by_remainder = sorted(shares, key=lambda name: counts[name] - shares[name])
    for name in by_remainder[: total - sum(counts.values())]:
        counts[name] += 1
    return counts


class EpochMixture:
    """Chooses the sentences of each epoch of a mixture: a pure function of seed and epoch.

    Args:
        corpora: the range of each corpus's sentences in the store, by name.
        counts: the number of sentences of each corpus in an epoch, by name.
        seed: seed of the run, not negative.
    """

    def __init__(self, corpora: Mapping[str, range], counts: Mapping[str, int], seed: int) -> None:
        self.corpora = corpora
        self.counts = counts
        self._seed = seed

    def sentences(self, epoch: int) -> NDArray[np.int64]:
        """Returns the indices of an epoch's sentences in the store, ascending, with repetitions.

        Args:
            epoch: from 0.
        """
        repeated = [
            np.repeat(np.arange(stored.start, stored.stop), self._repeats(index, name, epoch))
            for index, (name, stored) in enumerate(self.corpora.items())
        ]
        return np.concatenate(repeated)

    def _repeats(self, index: int, name: str, epoch: int) -> NDArray[np.int64]:
        """Counts how often an epoch has each sentence of a corpus, [size].

        Args:
            index: the corpus's number in the mixture, for its own random numbers.
            name: its name.
            epoch: from 0.
        """
        size, count = len(self.corpora[name]), self.counts[name]
        # The epoch's positions in the endless stream of the corpus (see the module). Each
        # permutation of all its sentences is one round.
        start, stop = epoch * count, (epoch + 1) * count
        # Counted before `stop`, less those before `start`: once for every whole round, and once
        # more for the sentences of the begun round.
        repeats = np.full(size, stop // size - start // size)
        repeats[self._round_until(index, size, stop)] += 1
        repeats[self._round_until(index, size, start)] -= 1
        return repeats

    def _round_until(self, index: int, size: int, position: int) -> NDArray[np.int64]:
        """Returns the sentences of a corpus before a position of its stream, in the same round.

        Args:
            index: the corpus's number in the mixture.
            size: number of its sentences, which are numbered from 0.
            position: in the stream, from 0. None is before the first position of a round.
        """
        number, offset = divmod(position, size)
        if not offset:
            return np.empty(0, np.int64)
        generator = np.random.default_rng([self._seed, index, number, _STREAM])
        return generator.permutation(size)[:offset]


def _check_unmixed(parameter: str, corpus: Corpus) -> None:
    """Checks that a corpus inside another one is not a mixture, whose weights would be lost.

    Args:
        parameter: the gin parameter that the corpus is bound to, for the error.
        corpus: the inner corpus.

    Raises:
        UserError: it is a mixture.
    """
    if isinstance(corpus, Mixture):
        problem = f"{parameter} is a mixture, expected a single corpus"
        raise UserError(f"{problem}: list all corpora in one Mixture.")


def _check_weights(weights: Mapping[str, float], names: list[str], has_temperature: bool) -> None:
    """Checks the weights that are given of a mixture's corpora.

    Args:
        weights: by name.
        names: the names of the corpora.
        has_temperature: whether a temperature is given too.

    Raises:
        UserError: a temperature is given too, a corpus has no weight, a weight is of no corpus, or
            all are 0.
    """
    if has_temperature:
        raise UserError("Mixture.weights and .temperature are both bound: bind only one.")
    if set(weights) != set(names):
        raise UserError(f"Mixture.weights is of {_listed(weights)}, expected {_listed(names)}.")
    if not any(weights.values()):
        raise UserError("Mixture.weights are all 0, expected one above 0.")


def _listed(names: Iterable[str]) -> str:
    """Returns the names for an error: sorted and quoted, or "none"."""
    return ", ".join(map(repr, sorted(names))) or "none"
