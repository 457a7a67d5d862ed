"""How sure a score is, and a difference of two: sacreBLEU's resampling of sentences.

The intervals and p-values are those of its command line (--confidence, --paired-bs, --paired-ar).
It computes them of its own metrics alone, which leave in a `Score` what it needs; of others only
the score is known here.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from sacrebleu.significance import PairedTest

from t2t_repro.errors import UserError
from t2t_repro.evaluation.scores import Score

_SEED = "SACREBLEU_SEED"


class Estimate(NamedTuple):
    """A score, and how sure it is.

    Attributes:
        score: its signature tells of the resampling.
        mean: over samples of the sentences, drawn with replacement, or None.
        half_width: half of the interval that holds 95 % of the samples' scores, or None.
        p_value: how likely a difference from the baseline as great as this, or greater, is by
            chance; None of the baseline itself, and where it is not computed.
    """

    score: Score
    mean: float | None = None
    half_width: float | None = None
    p_value: float | None = None


@dataclass(frozen=True)
class Resampling:
    """How sentences are resampled.

    Attributes:
        test: paired "bootstrap" (Koehn 2004), or approximate "randomisation" (Riezler and Maxwell
            2005).
        samples: how many; by default sacreBLEU's 1,000, and of randomisation 10,000.
        seed: of the samples; by default that of SACREBLEU_SEED, or sacreBLEU's 12345.
    """

    test: Literal["bootstrap", "randomisation"] = "bootstrap"
    samples: int | None = None
    seed: int | None = None

    def estimate(self, score: Score) -> Estimate:
        """Estimates a 95 % interval of one system's score, by bootstrap.

        Raises:
            UserError: SACREBLEU_SEED is no seed.
        """
        return replace(self, test="bootstrap").compare([score])[0]

    def compare(self, scores: Sequence[Score], with_interval: bool = False) -> list[Estimate]:
        """Compares systems with a baseline, by one metric.

        Args:
            scores: of the baseline, and of every system, on the same sentences.
            with_interval: whether there are intervals by randomisation too, of 1,000 samples; by
                bootstrap there always are.

        Raises:
            UserError: SACREBLEU_SEED is no seed.
        """
        given = [score.segments for score in scores if score.segments]
        if len(given) < len(scores):
            return [Estimate(score) for score in scores]
        with self._seeded():
            test = PairedTest(
                [(str(number), one.hypotheses) for number, one in enumerate(given)],
                {"": given[0].metric},
                [given[0].references],
                "bs" if self.test == "bootstrap" else "ar",
                self.samples or 0,
                0 if with_interval and self.test == "randomisation" else -1,
            )
            signatures, found = test()
        (signature,) = signatures.values()
        _, results = found.values()
        how = "|".join(filter(None, (str(signature), given[0].how)))
        return [
            _estimate(score._replace(signature=how), result)
            for score, result in zip(scores, results, strict=True)
        ]

    @contextmanager
    def _seeded(self) -> Iterator[None]:
        """Gives sacreBLEU the seed, which it reads from the environment alone."""
        before = os.environ.get(_SEED)
        seed = before if self.seed is None else str(self.seed)
        if seed is not None:
            # It takes 0 for none in one place, and for a seed in another.
            if seed.lower() != "none" and not re.fullmatch("0*[1-9][0-9]*", seed):
                raise UserError(f"{_SEED}={seed}: expected an integer from 1 on, or none.")
            os.environ[_SEED] = seed
        try:
            yield
        finally:
            if before is not None:
                os.environ[_SEED] = before
            else:
                os.environ.pop(_SEED, None)


def _estimate(score: Score, result: Any) -> Estimate:
    # NumPy's numbers, some of float32, are not for JSON.
    numbers = (result.mean, result.ci, result.p_value)
    return Estimate(score, *(None if number is None else float(number) for number in numbers))
