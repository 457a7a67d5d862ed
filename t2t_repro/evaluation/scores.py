"""Scores of translations against references: one name, one meaning.

BLEU, chrF, chrF++ and TER are sacreBLEU's, each with the signature that says how it was computed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import gin
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric as SacreBleuMetric

from t2t_repro.errors import UserError


@dataclass(frozen=True)
class Segments:
    """What one of sacreBLEU's metrics computed a score from, and can compute it from again.

    Attributes:
        metric: which one.
        hypotheses: as the metric got them, such as tokenised.
        references: likewise.
        how: what the signature says besides sacreBLEU's own; see `sacrebleu_score`.
    """

    metric: SacreBleuMetric = field(compare=False)
    hypotheses: list[str] = field(repr=False)
    references: list[str] = field(repr=False)
    how: str = ""

    def signature(self) -> str:
        """Returns how the metric's last score was computed."""
        return "|".join(filter(None, (str(self.metric.get_signature()), self.how)))


class Score(NamedTuple):
    """A score with the name that says what it is.

    Attributes:
        name: of the metric.
        value: in percent for all metrics here.
        signature: how it was computed (sacreBLEU's own for its metrics); empty where the name says
            it all.
        higher_is_better: whether more is better; less is, of TER.
        segments: of sacreBLEU's metrics, what samples of sentences are drawn from to say how sure
            the score is; see `significance`.
    """

    name: str
    value: float
    signature: str = ""
    higher_is_better: bool = True
    segments: Segments | None = None

    def __str__(self) -> str:
        signature = f"  [{self.signature}]" if self.signature else ""
        return f"{self.name} {self.value:.2f}{signature}"

    def as_dict(self) -> dict[str, Any]:
        """Returns what can be written down of it: all but the segments."""
        found = self._asdict()
        del found["segments"]
        return found


@gin.configurable(denylist=["hypotheses", "references"])
def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """BLEU of plain text: sacreBLEU's own tokenisation (13a), cased.

    Raises:
        UserError: the two are not as many lines.
    """
    return sacrebleu_score(BLEU(), "BLEU", hypotheses, references)


@gin.configurable(denylist=["hypotheses", "references"])
def tokenised_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """BLEU of text that is tokenised already, lower-cased: words are what spaces separate.

    The protocol of the published Multi30k figures (Moses' multi-bleu.perl -lc). Not to be
    compared with `bleu`: another tokenisation gives other figures.

    Raises:
        UserError: the two are not as many lines.
    """
    metric = BLEU(tokenize="none", lowercase=True, force=True)
    return sacrebleu_score(metric, "tokenised lower-cased BLEU", hypotheses, references)


@gin.configurable(denylist=["hypotheses", "references"])
def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """chrF: F2 of character n-grams up to 6.

    Raises:
        UserError: the two are not as many lines.
    """
    return sacrebleu_score(CHRF(), "chrF", hypotheses, references)


@gin.configurable(denylist=["hypotheses", "references"])
def chrf_plus_plus(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """chrF++: F2 of character n-grams up to 6 and word n-grams up to 2.

    Raises:
        UserError: the two are not as many lines.
    """
    return sacrebleu_score(CHRF(word_order=2), "chrF++", hypotheses, references)


@gin.configurable(denylist=["hypotheses", "references"])
def ter(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """TER: the edits, shifts of phrases included, that make the reference of the hypothesis.

    In percent of the reference's words, so it may exceed 100; less is better. Lower-cased, words
    are what spaces separate: sacreBLEU's defaults.

    Raises:
        UserError: the two are not as many lines.
    """
    score = sacrebleu_score(TER(), "TER", hypotheses, references)
    return score._replace(higher_is_better=False)


@gin.configurable(denylist=["hypotheses", "references"])
def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """The share of hypotheses that are the reference, character for character, in percent.

    Raises:
        UserError: the two are not as many lines.
    """
    check_lengths(hypotheses, references)
    equal = sum(a == b for a, b in zip(hypotheses, references, strict=True))
    return Score("exact match", 100.0 * equal / len(references))


def sacrebleu_score(
    metric: SacreBleuMetric,
    name: str,
    hypotheses: Sequence[str],
    references: Sequence[str],
    how: str = "",
) -> Score:
    """Scores with one of sacreBLEU's metrics, and keeps its signature.

    Args:
        metric: one of sacreBLEU's.
        name: of the score.
        hypotheses: as the metric takes them.
        references: likewise.
        how: what was done to both before, for the signature: such as "moses:de|compounds:split".

    Raises:
        UserError: the two are not as many lines.
    """
    check_lengths(hypotheses, references)
    segments = Segments(metric, list(hypotheses), list(references), how)
    value = metric.corpus_score(segments.hypotheses, [segments.references]).score
    return Score(name, value, segments.signature(), segments=segments)


def check_lengths(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Checks that there is a reference for every hypothesis.

    Raises:
        UserError: there is not, or there are none at all.
    """
    if len(hypotheses) != len(references) or not references:
        raise UserError(
            f"there are {len(hypotheses)} translations and {len(references)} references, expected "
            "as many of one as of the other, and at least one: give the files that belong together."
        )
