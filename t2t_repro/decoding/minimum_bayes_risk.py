"""Minimum Bayes risk: reranks by similarity to all other hypotheses instead of by probability.

The hypotheses stand for the model's distribution over translations: best are samples (Eikema and
Aziz 2020), but those of a beam work too (Kumar and Byrne 2004).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from t2t_repro.config.values import configurable
from t2t_repro.decoding.search import Translation
from t2t_repro.text.scripts import bleu_tokenizer

Utility = Callable[[Sequence[str], Sequence[str]], Sequence[float]]
"""(hypotheses, references) -> the quality of each hypothesis if its reference is right."""


@configurable(denylist=["hypotheses", "references"])
def sentence_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """Computes the chrF of each hypothesis against its reference, in percent."""
    from sacrebleu.metrics import CHRF  # Most translators need no sacreBLEU.

    return _scores(CHRF, hypotheses, references)


@configurable(denylist=["hypotheses", "references"])
def sentence_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """Computes the BLEU of each hypothesis against its reference, in percent.

    It is smoothed, and leaves out n-gram orders longer than the sentence (`effective_order`). The
    tokenizer is chosen by the script of the references (see `bleu_tokenizer`).
    """
    from sacrebleu.metrics import BLEU

    metric = partial(BLEU, tokenize=bleu_tokenizer(set(references)), effective_order=True)
    return _scores(metric, hypotheses, references)


def _scores(
    metric: Callable[..., Any], hypotheses: Sequence[str], references: Sequence[str]
) -> list[float]:
    """Scores each hypothesis against its reference by a metric of sacreBLEU."""
    # One metric for each reference: it extracts the reference's n-grams once.
    metrics = {reference: metric(references=[[reference]]) for reference in set(references)}
    pairs = zip(hypotheses, references, strict=True)
    # None stands for the reference that the metric was made with.
    return [metrics[reference].corpus_score([text], None).score for text, reference in pairs]


@configurable()
@dataclass(frozen=True)
class MinimumBayesRisk:
    """Prefers the hypothesis with the highest mean utility.

    The utility u(h, h') of a hypothesis h is averaged over all others h'. Equal samples count as
    often as they were drawn, and are returned once.

    Attributes:
        utility: u; chrF by default.
    """

    utility: Utility = sentence_chrf

    def rerank(self, hypotheses: Sequence[Translation]) -> list[Translation]:
        """Orders the different hypotheses of a sentence by expected utility, their new score.

        Args:
            hypotheses: at least one. A single one is compared with itself.

        Returns:
            one hypothesis for each text, the first with this text; the best first.
        """
        # Later items win in a dictionary: reversed, the first with each text.
        first_with = {hypothesis.text: hypothesis for hypothesis in reversed(hypotheses)}
        count_of = Counter(hypothesis.text for hypothesis in hypotheses)
        texts, counts = list(count_of), np.array(list(count_of.values()))
        # Every text with every text as its reference.
        by_row, references = [text for text in texts for _ in texts], texts * len(texts)
        # [texts, texts]: the utility of each text, by row, with each as its reference, by column.
        utilities = np.asarray(self.utility(by_row, references), np.float64).reshape(len(texts), -1)
        # [texts, texts]: the number of other hypotheses with each reference's text.
        others = counts - np.eye(len(texts)) if len(hypotheses) > 1 else np.ones([1, 1])
        expected = (utilities * others).sum(axis=1) / others.sum(axis=1)
        order = np.argsort(-expected, kind="stable")
        return [first_with[texts[index]]._replace(score=float(expected[index])) for index in order]
