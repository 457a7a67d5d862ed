"""The sentences of each corpus of a mixture in an epoch.

Corpus i has the share w_i / sum(w) of the sentences of an epoch. The weights are given, or are

    w_i = size_i^(1/T)

with a temperature T (Arivazhagan et al., 2019, arXiv:1907.05019, section 4.2) and the number size_i
of training pairs after cleaning. T = 1 keeps the proportions of the corpora; a higher T makes their
shares more alike.

An epoch of N sentences has exactly n_i of corpus i: N times its share, rounded by largest
remainder, so that the n_i sum to N. They are the next n_i of an endless stream of the corpus, in
which one random permutation of all its sentences follows the other. So the counts of two sentences
of a corpus never differ by more than one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

# NumPy ignores zeros at the end of a seed. Without this number, the stream of corpus i in its first
# round would repeat the draws of epoch i.
_STREAM = 1


@dataclass(frozen=True)
class MixtureWeights:
    """The weights of the corpora of a mixture.

    Attributes:
        weights: of all corpora, by name; None to use the temperature.
        temperature: T, see the module.
        sentences: of an epoch; by default as many as all corpora have together.
    """

    weights: Mapping[str, float] | None = None
    temperature: float = 1.0
    sentences: int | None = None

    def counts(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Returns the number of sentences of each corpus in an epoch.

        Args:
            sizes: sentences of each corpus, by name.
        """
        weights = self.weights or {
            name: size ** (1 / self.temperature) for name, size in sizes.items()
        }
        total = self.sentences or sum(sizes.values())
        return apportion(total, {name: weights[name] for name in sizes})


def apportion(total: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Divides a number in proportion to weights, by largest remainder.

    Args:
        total: the number.
        weights: none negative, some positive.

    Returns:
        integers that sum to `total`, each less than 1 away from its exact part. Of equal
        remainders, the first is rounded up first.
    """
    # Exact fractions, so that no rounding makes workers disagree.
    exact = {name: Fraction(weight) for name, weight in weights.items()}
    whole = sum(exact.values())
    parts = {name: total * weight / whole for name, weight in exact.items()}
    counts = {name: int(part) for name, part in parts.items()}
    by_remainder = sorted(parts, key=lambda name: counts[name] - parts[name])
    for name in by_remainder[: total - sum(counts.values())]:
        counts[name] += 1
    return counts


class EpochMixture:
    """The sentences of a mixture in an epoch: a pure function of the seed and the epoch.

    Args:
        corpora: the sentences of the store that each corpus has, by name.
        weights: of the corpora.
        seed: of the run, not negative.

    Attributes:
        corpora: as given.
        counts: number of sentences of each in an epoch.
    """

    def __init__(self, corpora: Mapping[str, range], weights: MixtureWeights, seed: int) -> None:
        self.corpora = corpora
        self.counts = weights.counts({name: len(own) for name, own in corpora.items()})
        self._seed = seed

    def sentences(self, epoch: int) -> NDArray[np.int64]:
        """Returns the indices of an epoch's sentences, [sentences], rising, with repetitions.

        Args:
            epoch: from 0.
        """
        return np.concatenate(
            [
                np.repeat(np.arange(own.start, own.stop), self._times(index, name, epoch))
                for index, (name, own) in enumerate(self.corpora.items())
            ]
        )

    def _times(self, index: int, name: str, epoch: int) -> NDArray[np.int64]:
        """Returns how often an epoch has each sentence of a corpus, [size]."""
        size = len(self.corpora[name])
        begin, end = (number * self.counts[name] for number in (epoch, epoch + 1))
        times = np.full(size, end // size - begin // size)
        times[self._stream_start(index, size, end)] += 1
        times[self._stream_start(index, size, begin)] -= 1
        return times

    def _stream_start(self, index: int, size: int, position: int) -> NDArray[np.int64]:
        """Returns the sentences before a position of a corpus's stream, of that round alone."""
        number, of_round = divmod(position, size)
        if not of_round:
            return np.empty(0, np.int64)
        generator = np.random.default_rng([self._seed, index, number, _STREAM])
        return generator.permutation(size)[:of_round]
