"""Minimum Bayes risk against its definition, a mean over all hypotheses that were drawn."""

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.decoding.minimum_bayes_risk import MinimumBayesRisk, sentence_bleu, sentence_chrf
from t2t_repro.decoding.search import Translation
from t2t_repro.decoding.settings import BeamSearch

TEXTS = ["the red bird", "the red bird sees", "a red bird", "the blue house", "", "the red bird."]


def translations(texts):
    return [Translation(text, -float(number)) for number, text in enumerate(texts)]


def expected_utility(texts, place, utility):
    """Of the hypothesis drawn at a place: the mean over all others that were drawn."""
    others = [text for number, text in enumerate(texts) if number != place] or texts
    return sum(utility(texts[place], other) for other in others) / len(others)


def chrf(hypothesis, reference):
    return sacrebleu.sentence_chrf(hypothesis, [reference]).score


def bleu(hypothesis, reference):
    return sacrebleu.sentence_bleu(hypothesis, [reference]).score


def common_words(hypothesis, reference):
    """Not symmetric, and not the same for every text against itself."""
    return len(set(hypothesis.split()) & set(reference.split())) - 0.1 * len(hypothesis)


def common_words_of_all(hypotheses, references):
    return [common_words(*pair) for pair in zip(hypotheses, references, strict=True)]


UTILITIES = [(sentence_chrf, chrf), (sentence_bleu, bleu), (common_words_of_all, common_words)]


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    texts=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=9), pair=st.sampled_from(UTILITIES)
)
def test_is_the_highest_mean_utility_against_all_others(texts, pair):
    utility, of_one = pair
    found = MinimumBayesRisk(utility).rerank(translations(texts))
    expected = {text: expected_utility(texts, place, of_one) for place, text in enumerate(texts)}
    assert {one.text: one.score for one in found} == pytest.approx(expected)
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)


LINES = ["the red bird", "", "a tree", "stone"]


def test_the_translator_chooses_among_all_that_its_search_has_found(make):
    plain = make(BeamSearch(4)).translate(LINES, n_best=4)
    translator = make(BeamSearch(4), rerank=MinimumBayesRisk())
    chosen = translator.translate(LINES, n_best=4)
    expected = [MinimumBayesRisk().rerank(found) for found in plain]
    expected[1] = plain[1]  # Nothing was searched for in a blank line.
    assert chosen == expected
    assert [found[0].text for found in chosen] != [found[0].text for found in plain]
    for n_best in (1, 2):
        assert translator.translate(LINES, n_best) == [found[:n_best] for found in chosen]
