"""Noise in the sources of a corpus, for back-translations: Edunov et al. (2018)."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from t2t_repro.config.values import Range, Seed, Share, configurable
from t2t_repro.data.corpora.corpus import Pair
from t2t_repro.data.corpora.mixture import Altered
from t2t_repro.text.scripts import unspaced_script


@configurable()
@dataclass(frozen=True)
class NoisedSource(Altered):
    """Another corpus with noise in its training sources, for back-translations.

    Edunov et al. (2018), "Understanding Back-Translation at Scale", section 3: "deleting words with
    probability 0.1, replacing words by a filler token with probability 0.1 and swapping words which
    is implemented as a random permutation over the tokens, drawn from a uniform distribution
    restricted to swapping words no further than three positions apart". The permutation is that of
    Lample et al. (2018).

    In gin, with the filler as one subword::

        import noised_source
        Mixture.corpora = {'real': @real/TextFilesCorpus(), 'back': @NoisedSource()}
        NoisedSource.corpus = @back/TextFilesCorpus()
        SubwordTraining.symbols = ['<BLANK>']

    The noise is a function of the seed and the number of the pair. It is made once, when data are
    prepared, so every epoch has the same.

    Attributes:
        corpus: the other corpus.
        deletion: probability of deleting a word; at least one word of a sentence is kept.
        filling: probability of replacing a remaining word by the filler.
        distance: the most positions between two words that change their order.
        filler: the word that replaces others.
        seed: seed of the noise.
    """

    deletion: Share = 0.1
    filling: Share = 0.1
    distance: Annotated[int, Range(least=0, most=1000)] = 3
    filler: str = "<BLANK>"
    seed: Seed = 1

    def describe(self) -> dict[str, Any]:
        """Returns the description of the other corpus, and the settings of the noise."""
        settings = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "corpus"}
        return {"corpus": "NoisedSource", "of": self.corpus.describe(), **settings}

    def read(self, split: str, download_dir: Path) -> Iterator[Pair]:
        """Yields the pairs of a split; those of "train" have noise in the source."""
        pairs = self.corpus.read(split, download_dir)
        if split != "train":
            yield from pairs
            return
        for number, (source, target) in enumerate(pairs):
            yield self.noised(source, number), target

    def noised(self, source: str, number: int) -> str:
        """Returns the source of a pair with noise; a blank one stays unchanged.

        White space separates words. In scripts without it, every character is a word.

        Args:
            source: the source.
            number: the number of the pair in the corpus, from 0; with the seed, it decides on the
                noise.
        """
        rng = random.Random(f"{self.seed} {number}")
        is_spaced = source.isascii() or unspaced_script([source]) is None
        words = source.split() if is_spaced else list(source)
        remaining = [word for word in words if rng.random() >= self.deletion]
        if words and not remaining:
            remaining = [rng.choice(words)]
        filled = [self.filler if rng.random() < self.filling else word for word in remaining]
        # Sorted by i + q_i, with q_i uniform in [0, distance + 1): a word can pass only words that
        # are at most `distance` positions away.
        keys = [i + rng.random() * (self.distance + 1) for i in range(len(filled))]
        order = sorted(range(len(filled)), key=keys.__getitem__)
        return (" " if is_spaced else "").join(filled[i] for i in order) or source
