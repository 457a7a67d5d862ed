"""Minimum Bayes risk: not the most probable translation, but the one most like all the others.

The model's distribution over translations is known by a sentence's hypotheses: samples, best of
all, or those of a beam (Kumar and Byrne 2004; for samples, Eikema and Aziz 2020).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import gin
import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics import BLEU, CHRF

from t2t_repro.config.values import validated
from t2t_repro.decoding.translator import Translation
from t2t_repro.errors import UserError

Utility = Callable[[Sequence[str], Sequence[str]], Sequence[float]]
"""(hypotheses, references) -> how good each hypothesis is if the reference beside it is right."""


@gin.configurable(denylist=["hypotheses", "references"])
def sentence_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """Computes chrF of each hypothesis against the reference beside it, in percent."""
    # A reference is cut into n-grams once, however many hypotheses it is held against.
    against = {reference: CHRF(references=[[reference]]) for reference in set(references)}
    return _scores(against, hypotheses, references)


@gin.configurable(denylist=["hypotheses", "references"])
def sentence_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """Computes BLEU of each hypothesis against the reference beside it, in percent.

    As is usual for sentences, with smoothing and without the orders that are too long for them.
    """
    against = {
        reference: BLEU(effective_order=True, references=[[reference]])
        for reference in set(references)
    }
    return _scores(against, hypotheses, references)


def _scores(
    against: dict[str, BLEU] | dict[str, CHRF], hypotheses: Sequence[str], references: Sequence[str]
) -> list[float]:
    pairs = zip(hypotheses, references, strict=True)
    return [against[reference].corpus_score([text], None).score for text, reference in pairs]


@gin.configurable
@validated
@dataclass(frozen=True)
class MinimumBayesRisk:
    """Chooses the hypothesis h with the highest mean utility u(h, h') over all others h'.

    Equal samples count as often as they were drawn; among what is chosen from, they are one.

    Attributes:
        utility: u; chrF by default.
    """

    utility: Utility = sentence_chrf

    def rerank(self, hypotheses: Sequence[Translation]) -> list[Translation]:
        """Orders the different hypotheses of a sentence; a score is the expected utility.

        Args:
            hypotheses: N of them. One alone is held against itself.

        Returns:
            the different ones, the best first; of equal ones the one that came first.

        Raises:
            UserError: the utility did not give a number for every pair.
        """
        drawn = Counter(translation.text for translation in hypotheses)
        texts, counts = list(drawn), np.array(list(drawn.values()))
        # [texts, texts]: how many others there are of each
        others = counts - np.eye(len(texts)) if len(hypotheses) > 1 else np.ones([1, 1])
        expected = (self._utilities(texts) * others).sum(axis=1) / others.sum(axis=1)
        order = np.argsort(-expected, kind="stable")
        return [Translation(texts[place], float(expected[place])) for place in order]

    def _utilities(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """[hypotheses, references], of all texts against all."""
        count = len(texts)
        hypotheses = [text for text in texts for _ in texts]
        found = self.utility(hypotheses, [*texts] * count)
        try:
            utilities = np.asarray(found, np.float64).reshape(count, count)
        except (TypeError, ValueError):
            utilities = np.full([count, count], np.nan)
        if not np.isfinite(utilities).all():
            raise UserError(
                f"MinimumBayesRisk.utility gave {str(found)[:60]}, expected {count * count} finite "
                "numbers, one for every hypothesis and the reference beside it: see sentence_chrf."
            )
        return utilities
