"""Scores of translations against references: one name, one meaning.

BLEU and chrF are sacreBLEU's, each with the signature that says how it was computed.
"""

from collections.abc import Sequence
from typing import NamedTuple

import gin
from sacrebleu.metrics import BLEU, CHRF

from t2t_repro.errors import UserError


class Score(NamedTuple):
    """A score with the name that says what it is.

    Attributes:
        name: of the metric.
        value: in percent for BLEU, chrF, exact match and bracket F1.
        signature: how it was computed (sacreBLEU's own for BLEU and chrF); empty where the name
            says it all.
    """

    name: str
    value: float
    signature: str = ""

    def __str__(self) -> str:
        signature = f"  [{self.signature}]" if self.signature else ""
        return f"{self.name} {self.value:.2f}{signature}"


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
def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """The share of hypotheses that are the reference, character for character, in percent.

    Raises:
        UserError: the two are not as many lines.
    """
    check_lengths(hypotheses, references)
    equal = sum(a == b for a, b in zip(hypotheses, references, strict=True))
    return Score("exact match", 100.0 * equal / len(references))


def sacrebleu_score(
    metric: BLEU | CHRF, name: str, hypotheses: Sequence[str], references: Sequence[str]
) -> Score:
    """Scores with one of sacreBLEU's metrics, and keeps its signature.

    Raises:
        UserError: the two are not as many lines.
    """
    check_lengths(hypotheses, references)
    value = metric.corpus_score(list(hypotheses), [list(references)]).score
    return Score(name, value, str(metric.get_signature()))


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
