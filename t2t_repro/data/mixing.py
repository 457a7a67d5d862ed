"""How much an epoch has of each corpus of a mixture, and which of its sentences.

Corpus i has the share w_i / Σ w of all sentences of an epoch, with weights that are given, or with

    w_i = size_i^(1/T)

where T is a temperature (Arivazhagan et al., 2019, arXiv:1907.05019, section 4.2) and size_i the
number of training pairs that cleaning left: 1 takes all corpora as they are, and the higher it is,
the more alike are their shares.

An epoch of N sentences has exactly n_i of corpus i: N times its share, rounded so that all together
are N (by largest remainder). They are the next n_i of the corpus's own endless stream, one random
permutation of all its sentences after the other. So over the epochs no sentence of a corpus is
taken more often than another, but for once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from t2t_repro.errors import UserError

# A seed sequence ends in zeros that need not be given: without this, the stream of corpus i in its
# first round would be the draws of epoch i.
_STREAM = 1


@dataclass(frozen=True)
class MixtureWeights:
    """How corpora are mixed.

    Attributes:
        weights: of all corpora, by name; None where the temperature says it.
        temperature: T, see the module.
        sentences: of an epoch; as many as all corpora have together, by default.
    """

    weights: Mapping[str, float] | None = None
    temperature: float = 1.0
    sentences: int | None = None

    def counts(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Returns how many sentences of each corpus an epoch has.

        Args:
            sizes: sentences of each corpus, by name.

        Raises:
            UserError: a corpus with a weight is to have less than half a sentence.
        """
        weights = self.weights or {
            name: size ** (1 / self.temperature) for name, size in sizes.items()
        }
        total = self.sentences or sum(sizes.values())
        counts = apportion(total, {name: weights[name] for name in sizes})
        for name, count in counts.items():
            if weights[name] and not count:
                raise UserError(
                    f"Mixture: an epoch of {total:,} sentences has none of {name!r}, whose share "
                    f"is {weights[name] / sum(weights.values()):.2g}: raise its weight, "
                    "Mixture.temperature or Mixture.epoch_sentences, or give it the weight 0."
                )
        return counts


def apportion(total: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Divides a number in proportion to weights, by largest remainder.

    Args:
        total: the number.
        weights: none negative, some positive.

    Returns:
        integers that sum to `total`, each less than 1 away from its exact part. Of equal
        remainders, the first is the larger.
    """
    # Fractions of the very floats: no rounding could make workers disagree.
    exact = {name: Fraction(weight) for name, weight in weights.items()}
    whole = sum(exact.values())
    parts = {name: total * weight / whole for name, weight in exact.items()}
    counts = {name: int(part) for name, part in parts.items()}
    by_remainder = sorted(parts, key=lambda name: counts[name] - parts[name])
    for name in by_remainder[: total - sum(counts.values())]:
        counts[name] += 1
    return counts


class EpochMixture:
    """Which sentences of a mixture an epoch has: a pure function of the seed and its number.

    Args:
        corpora: which sentences of the store are each corpus's, by its name.
        shares: of the corpora.
        seed: of the run, not negative.

    Attributes:
        corpora: as given.
        counts: how many sentences of each an epoch has.

    Raises:
        UserError: see `Shares.counts`.
    """

    def __init__(self, corpora: Mapping[str, range], shares: MixtureWeights, seed: int) -> None:
        self.corpora = corpora
        self.counts = shares.counts({name: len(own) for name, own in corpora.items()})
        self._seed = seed

    def sentences(self, epoch: int) -> NDArray[np.int64]:
        """Returns the indices of an epoch's sentences, [sentences], rising; some more than once.

        Args:
            epoch: its number, from 0.
        """
        return np.concatenate(
            [
                np.repeat(np.arange(own.start, own.stop), self._times(index, name, epoch))
                for index, (name, own) in enumerate(self.corpora.items())
            ]
        )

    def _times(self, index: int, name: str, epoch: int) -> NDArray[np.int64]:
        """How often an epoch has each sentence of a corpus, [size]."""
        size = len(self.corpora[name])
        begin, end = (number * self.counts[name] for number in (epoch, epoch + 1))
        times = np.full(size, end // size - begin // size)
        times[self._beginning(index, size, end)] += 1
        times[self._beginning(index, size, begin)] -= 1
        return times

    def _beginning(self, index: int, size: int, place: int) -> NDArray[np.int64]:
        """The sentences of a corpus's stream before a place in it, of that round alone."""
        number, of_round = divmod(place, size)
        if not of_round:
            return np.empty(0, np.int64)
        generator = np.random.default_rng([self._seed, index, number, _STREAM])
        return generator.permutation(size)[:of_round]
