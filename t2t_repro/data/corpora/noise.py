"""Noise for sources, which helps where they are machine translations: Edunov et al. (2018).

Section 3 of "Understanding Back-Translation at Scale": "deleting words with probability 0.1,
replacing words by a filler token with probability 0.1 and swapping words which is implemented as a
random permutation over the tokens, drawn from a uniform distribution restricted to swapping words
no further than three positions apart". The permutation is that of Lample et al. (2018), which they
cite.
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import gin

from t2t_repro.config.values import Range, Seed, Text, validated
from t2t_repro.data.corpora.corpus import Corpus, Pair, check_unmixed
from t2t_repro.errors import UserError

Share = Annotated[float, Range(least=0, most=1)]


@gin.configurable
@validated
class NoisedSource:
    """Another corpus with noise in the sources of its training pairs; what is held out stays.

    In gin, with the filler as one subword::

        Mixture.corpora = {'real': @real/TextFilesCorpus(), 'back': @NoisedSource()}
        NoisedSource.corpus = @back/TextFilesCorpus()
        SubwordTraining.symbols = ['<BLANK>']

    The noise is a function of the seed and the number of the pair alone. It is made once, as data
    are prepared: every epoch has the same.

    Args:
        corpus: the other one.
        deletion: probability with which a word is deleted; of a sentence one word at least is left.
        filling: probability with which a word that is left is replaced by the filler.
        distance: how many positions apart two words may be at most that change their order; with 0
            none do.
        filler: what replaces a word.
        seed: another one gives other noise.

    Raises:
        UserError: an argument is outside of its range, the filler is not one word, or the other
            corpus is a mixture.
    """

    splits: tuple[str, ...]

    def __init__(
        self,
        corpus: Corpus,
        deletion: Share = 0.1,
        filling: Share = 0.1,
        distance: Annotated[int, Range(least=0, most=1000)] = 3,
        filler: Text = "<BLANK>",
        seed: Seed = 1,
    ) -> None:
        check_unmixed("NoisedSource.corpus", corpus)
        if filler.split() != [filler]:
            raise UserError(f"NoisedSource.filler is {filler!r}, expected one word.")
        self._corpus = corpus
        self.deletion = deletion
        self.filling = filling
        self.distance = distance
        self.filler = filler
        self.seed = seed
        self.splits = corpus.splits

    def describe(self) -> dict[str, Any]:
        """Returns what the other corpus says of itself, and the noise."""
        return {
            "corpus": "NoisedSource",
            "of": self._corpus.describe(),
            "deletion": self.deletion,
            "filling": self.filling,
            "distance": self.distance,
            "filler": self.filler,
            "seed": self.seed,
        }

    def prepare(self, download_dir: Path) -> None:
        """Prepares the other corpus."""
        self._corpus.prepare(download_dir)

    def read(self, split: str, download_dir: Path) -> Iterator[Pair]:
        """Yields the pairs of a split, those of training with noise in their sources."""
        pairs = self._corpus.read(split, download_dir)
        if split != "train":
            yield from pairs
            return
        for number, (source, target) in enumerate(pairs):
            yield self.noised(source, number), target

    def noised(self, source: str, number: int) -> str:
        """The source with the noise that the pair of this number, from 0, has.

        Its words are what white space separates; a blank source stays as it is.
        """
        draw = random.Random(f"{self.seed} {number}")
        words = self._filled(draw, self._deleted(draw, source.split()))
        return " ".join(self._permuted(draw, words)) if words else source

    def _deleted(self, draw: random.Random, words: Sequence[str]) -> Sequence[str]:
        left = [word for word in words if draw.random() >= self.deletion]
        return left or (words and [draw.choice(words)])

    def _filled(self, draw: random.Random, words: Sequence[str]) -> list[str]:
        return [self.filler if draw.random() < self.filling else word for word in words]

    def _permuted(self, draw: random.Random, words: Sequence[str]) -> list[str]:
        """Sorts the words by i + q_i, with q_i uniform in [0, distance + 1)."""
        keys = [i + draw.random() * (self.distance + 1) for i in range(len(words))]
        return [words[i] for i in sorted(range(len(words)), key=keys.__getitem__)]
