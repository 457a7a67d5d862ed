"""log P(target | source) of given pairs, subword by subword, the same in any company."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.decoding.translator import Translator, TranslatorSettings
from t2t_repro.text.subword_model import shared
from tests.decoding.random_translator import ODD_LINES

TARGETS = ["a house", "", "the river", " \u2028 ", *ODD_LINES[4:][::-1]]


@pytest.fixture(scope="module")
def translator(model, subwords):
    search = BeamSearch(beam_size=2)
    return Translator([model], shared(subwords), TranslatorSettings(search, 8, 24))


def by_definition(translator, subwords, source, target):
    """The log-probability of every id of one pair, by the model's logits of it alone."""
    ids = []
    for line, longest in ((source, 24), (target, 24 + 8)):
        (encoded,) = subwords.encode([line.strip()])
        ids.append([*encoded[: longest - 1], 1] if len(encoded) > longest else encoded)
    logits = translator.model(tuple(tf.constant([one]) for one in ids)).numpy()[0].astype("float64")
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return [float(np.log(row[token])) for row, token in zip(probabilities, ids[1], strict=True)]


def test_every_subword_has_its_log_probability_and_the_pair_their_sum(translator, subwords):
    found = translator.score(ODD_LINES, TARGETS)
    assert len(found) == len(ODD_LINES) == len(TARGETS)
    for score, *pair in zip(found, ODD_LINES, TARGETS, strict=True):
        expected = by_definition(translator, subwords, *pair)
        assert score.log_probabilities == pytest.approx(expected, rel=1e-4, abs=1e-4)
        assert score.log_probability == pytest.approx(sum(expected), rel=1e-5)
        assert len(score.subwords) == len(expected)
        assert score.subwords[-1] == "<EOS>"
    assert found[0].subwords == subwords.labels(subwords.encode(["a house"])[0])
    # A blank target is EOS alone, whatever the source.
    assert [score.subwords for score in (found[1], found[3])] == [["<EOS>"]] * 2
    # The model must tell pairs apart, or this shows nothing.
    assert len({round(score.log_probability, 3) for score in found}) > 8


def test_pairs_are_scored_the_same_in_any_company(translator, subwords):
    together = translator.score(ODD_LINES, TARGETS)
    other = Translator(
        [translator.model],
        shared(subwords),
        TranslatorSettings(translator.settings.search, 8, 24, tokens_per_batch=1, workers=1),
    )
    for found in (
        other.score(ODD_LINES, TARGETS),
        translator.score(ODD_LINES[::-1], TARGETS[::-1])[::-1],
        [translator.score([a], [b])[0] for a, b in zip(ODD_LINES, TARGETS, strict=True)],
    ):
        for one, expected in zip(found, together, strict=True):
            assert one.log_probabilities == pytest.approx(expected.log_probabilities, abs=1e-4)
            assert one[1::2] == (expected.subwords, expected.truncated)
    assert translator.score([], []) == []


def test_what_is_too_long_is_cut_off_with_a_warning(translator, caplog):
    long = "word " * 40
    found = translator.score(["a", long, "a"], [long, "a", "a"], first=10)
    assert [score.truncated for score in found] == [True, True, False]
    assert len(found[0].subwords) == 24 + 8
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("line 11: the source is long")
    assert second.startswith("line 10: the target is long")
