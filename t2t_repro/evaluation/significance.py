"""Confidence intervals and significance tests, by sacreBLEU's resampling of sentences.

The figures equal those of its command line (--confidence, --paired-bs, --paired-ar). They exist for
sacreBLEU's metrics, whose `Score` has segments; other metrics have the score alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from sacrebleu.significance import PairedTest

from t2t_repro.evaluation.scores import Score


class Estimate(NamedTuple):
    """A score with its confidence interval and p-value.

    Attributes:
        score: with the resampling in its signature.
        mean: of samples of sentences, drawn with replacement; None if not computed.
        half_width: half of the samples' 95 % interval; None if not computed.
        p_value: probability of a difference from the baseline at least as large by chance; None of
            the baseline, and if not computed.
    """

    score: Score
    mean: float | None = None
    half_width: float | None = None
    p_value: float | None = None


@dataclass(frozen=True)
class Resampling:
    """Settings of the resampling.

    Attributes:
        test: paired "bootstrap" (Koehn 2004), or approximate "randomisation" (Riezler and Maxwell
            2005). sacreBLEU's seed is 12345, or in the environment variable SACREBLEU_SEED.
        samples: their number; by default sacreBLEU's: 1,000, for randomisation 10,000.
    """

    test: Literal["bootstrap", "randomisation"] = "bootstrap"
    samples: int | None = None

    def estimate(self, score: Score) -> Estimate:
        """Estimates the 95 % interval of one system's score, by bootstrap."""
        return replace(self, test="bootstrap").compare([score])[0]

    def compare(self, scores: Sequence[Score], with_interval: bool = False) -> list[Estimate]:
        """Compares systems with a baseline, by one metric.

        Args:
            scores: of the baseline, then of every system, on the same sentences.
            with_interval: adds intervals, of 1,000 samples, to randomisation; the bootstrap always
                has them.
        """
        segments = [score.segments for score in scores if score.segments]
        if len(segments) < len(scores):
            return [Estimate(score) for score in scores]
        test = PairedTest(
            [(str(number), one.translations) for number, one in enumerate(segments)],
            {"": segments[0].metric},
            segments[0].references,
            "bs" if self.test == "bootstrap" else "ar",
            self.samples or 0,
            0 if with_interval and self.test == "randomisation" else -1,
        )
        signatures, results_by_name = test()
        (of_metric,) = signatures.values()
        _, results = results_by_name.values()
        signature = segments[0].signature(of_metric)
        return [
            _estimate(score._replace(signature=signature), result)
            for score, result in zip(scores, results, strict=True)
        ]


def _estimate(score: Score, result: Any) -> Estimate:
    # JSON cannot hold NumPy's numbers.
    numbers = (result.mean, result.ci, result.p_value)
    return Estimate(score, *(None if number is None else float(number) for number in numbers))
