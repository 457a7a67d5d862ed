"""Scores of translations against references: one name, one meaning.

BLEU, chrF, chrF++ and TER are sacreBLEU's, each with its signature.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import gin
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric as SacreBleuMetric

from t2t_repro.errors import UserError

_TEXTS = ["translations", "references", "sources"]


@dataclass(frozen=True)
class Segments:
    """The sentences of one of sacreBLEU's scores, from which `significance` draws samples.

    Attributes:
        metric: computed the score.
        translations: as the metric got them, e.g. tokenised.
        references: likewise.
        preprocessing: a suffix of the signature; see `sacrebleu_score`.
    """

    metric: SacreBleuMetric = field(compare=False)
    translations: list[str] = field(repr=False)
    references: list[str] = field(repr=False)
    preprocessing: str = ""

    def signature(self, of_metric: object) -> str:
        """Joins a signature of sacreBLEU's and the preprocessing."""
        return "|".join(filter(None, (str(of_metric), self.preprocessing)))


class Score(NamedTuple):
    """A score with the name that says what it is.

    Attributes:
        name: of the metric.
        value: in percent for all metrics here.
        signature: how the score was computed, e.g. sacreBLEU's signature; "" if the name says all.
        higher_is_better: False for TER.
        segments: for confidence intervals; None of metrics that are not sacreBLEU's.
    """

    name: str
    value: float
    signature: str = ""
    higher_is_better: bool = True
    segments: Segments | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns all fields but the segments, for JSON."""
        fields = self._asdict()
        del fields["segments"]
        return fields


Metric = Callable[[Sequence[str], Sequence[str], Sequence[str]], Score]
"""(translations, references, sources) -> score.

The sources are empty where `evaluate` scores translations without --source.
"""


@gin.configurable(denylist=_TEXTS)
def bleu(
    translations: Sequence[str], references: Sequence[str], sources: Sequence[str] = ()
) -> Score:
    """Computes BLEU of plain text: sacreBLEU's own tokenisation (13a), cased.

    Raises:
        UserError: the numbers of lines differ.
    """
    return sacrebleu_score(BLEU(), "BLEU", translations, references)


@gin.configurable(denylist=_TEXTS)
def tokenised_bleu(
    translations: Sequence[str], references: Sequence[str], sources: Sequence[str] = ()
) -> Score:
    """Computes BLEU of tokenised, lower-cased text: words are separated by spaces.

    The protocol of the published Multi30k figures (Moses' multi-bleu.perl -lc). Not comparable with
    `bleu`, whose tokenisation is another.

    Raises:
        UserError: the numbers of lines differ.
    """
    metric = BLEU(tokenize="none", lowercase=True, force=True)
    return sacrebleu_score(metric, "tokenised lower-cased BLEU", translations, references)


@gin.configurable(denylist=_TEXTS)
def chrf(
    translations: Sequence[str], references: Sequence[str], sources: Sequence[str] = ()
) -> Score:
    """Computes chrF: F2 of character n-grams up to 6.

    Raises:
        UserError: the numbers of lines differ.
    """
    return sacrebleu_score(CHRF(), "chrF", translations, references)


@gin.configurable(denylist=_TEXTS)
def chrf_plus_plus(
    translations: Sequence[str], references: Sequence[str], sources: Sequence[str] = ()
) -> Score:
    """Computes chrF++: F2 of character n-grams up to 6 and word n-grams up to 2.

    Raises:
        UserError: the numbers of lines differ.
    """
    return sacrebleu_score(CHRF(word_order=2), "chrF++", translations, references)


@gin.configurable(denylist=_TEXTS)
def ter(
    translations: Sequence[str], references: Sequence[str], sources: Sequence[str] = ()
) -> Score:
    """Computes TER: the edits, including shifts of phrases, from translation to reference.

    In percent of the reference's words, so it may exceed 100; lower is better. sacreBLEU's
    defaults: lower-cased words that are separated by spaces.

    Raises:
        UserError: the numbers of lines differ.
    """
    score = sacrebleu_score(TER(), "TER", translations, references)
    return score._replace(higher_is_better=False)


@gin.configurable(denylist=_TEXTS)
def exact_match(
    translations: Sequence[str], references: Sequence[str], sources: Sequence[str] = ()
) -> Score:
    """Computes the share of translations that equal their reference, in percent.

    Raises:
        UserError: the numbers of lines differ.
    """
    check_lengths(translations, references)
    equal = sum(a == b for a, b in zip(translations, references, strict=True))
    return Score("exact match", 100.0 * equal / len(references))


def sacrebleu_score(
    metric: SacreBleuMetric,
    name: str,
    translations: Sequence[str],
    references: Sequence[str],
    preprocessing: str = "",
) -> Score:
    """Computes one of sacreBLEU's metrics, with its signature.

    Args:
        metric: one of sacreBLEU's.
        name: of the score.
        translations: as the metric takes them.
        references: likewise.
        preprocessing: of both texts, for the signature, e.g. "moses:de|compounds:split".

    Raises:
        UserError: the numbers of lines differ.
    """
    check_lengths(translations, references)
    segments = Segments(metric, list(translations), list(references), preprocessing)
    value = metric.corpus_score(segments.translations, [segments.references]).score
    return Score(name, value, segments.signature(metric.get_signature()), segments=segments)


def check_lengths(translations: Sequence[str], references: Sequence[str]) -> None:
    """Checks that there is a reference for every translation, and at least one.

    Raises:
        UserError: it is not so.
    """
    if len(translations) != len(references) or not references:
        raise UserError(
            f"there are {len(translations)} translations and {len(references)} references, "
            "expected the same number, at least 1: give files that belong together."
        )
