"""Text in, text out: a line for every line, the same in any company, with the model's scores."""

from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.decoding.batch_plan import padded
from t2t_repro.decoding.glossary import Glossary
from t2t_repro.decoding.search import Translation
from t2t_repro.decoding.sentences import translate_split
from t2t_repro.decoding.settings import BeamSearch, ImportedBehaviour, MarianSearch, Sampling
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.text.marian import MarianFile, MarianSubwords
from t2t_repro.text.subword_model import SubwordPair, shared
from t2t_repro.text.tags import Tags
from t2t_repro.vocabulary import EOS_ID, PAD_ID
from tests.decoding.random_translator import ODD_LINES

ALPHA = 0.6


@pytest.fixture(scope="module")
def translator(make):
    return make(BeamSearch(beam_size=4, length_penalty=ALPHA))


def assert_same(found, expected):
    assert [[t.text for t in some] for some in found] == [[t.text for t in s] for s in expected]
    scores = [translation.score for some in found for translation in some]
    others = [translation.score for some in expected for translation in some]
    assert scores == pytest.approx(others, rel=1e-5, abs=1e-5)


def test_a_blank_line_is_translated_by_an_empty_one(translator):
    blank = ["", "   ", "\u2028", "\t\r", "\ufeff", "\u3000"]
    for translations in translator.translate([*blank, "a tree"], n_best=4)[: len(blank)]:
        assert translations == [Translation("", 0.0)]
    assert translator.translate(blank) == [[Translation("", 0.0)]] * len(blank)


@pytest.mark.usefixtures("eagerly")
def test_the_code_of_a_language_is_the_first_id_of_a_translation(make, model, subwords, tmp_path):
    codes, path = [">>x<<", ">>y<<"], tmp_path / "made.model"
    pieces = [*subwords.pieces(), *codes]
    path.write_bytes(MarianFile(subwords.sentencepiece(), pieces, languages=codes).content())
    plain, pair = make(BeamSearch(1)), shared(MarianSubwords(path))
    translator = Translator([model], pair, plain.settings)
    ids = tf.constant(padded(pair.source.encode(["the red bird", ">>x<< a tree"])))
    for length in (0, 1):
        prefix = tf.constant([[5], [PAD_ID]], tf.int32)[:, :length]
        found = translator.search_batch(ids, 1, prefix if length else None).ids
        first = tf.concat([ids[:, :1], prefix], axis=1)
        expected = plain.search_batch(ids[:, 1:], 1, first).ids
        np.testing.assert_array_equal(found[:, :, :9], expected[:, :, :9])
    # A term that is missing costs its bonus, though not at the step of the code.
    (tmp_path / "terms.tsv").write_text("bird\tcloud\n")
    terms: Any = partial(Glossary, file=str(tmp_path / "terms.tsv"), bonus=1e-3)
    unpenalized = replace(plain.settings, search=BeamSearch(1, 0.0))
    sides = SubwordPair(pair.source, subwords)
    with_terms = Translator([model], sides, replace(unpenalized, grammar=terms))
    scored = [Translator([model], sides, unpenalized), with_terms]
    without, found = (one.translate(["the red bird"])[0][0].score for one in scored)
    longest = max(map(len, subwords.encode(["cloud", "Cloud"]))) - 1
    assert without - found == pytest.approx(1e-3 * longest, rel=0.02)
    # The code counts in the length.
    limit = len(pair.source.encode(["a"])[0]) + 8
    cut = scored[0].translate(["a", "a"], prefixes=["a " * limit, "a " * (limit - 1)])
    assert [best.truncated for best, *_ in cut] == [True, False]
    # Without a target language, its code is no subword, and no part of a term.
    codes[1] = ""
    path.write_bytes(MarianFile(subwords.sentencepiece(), pieces, languages=codes).content())
    Glossary(SubwordPair(MarianSubwords(path), subwords), str(tmp_path / "terms.tsv"), 1.0)
    # Besides its codes, such a line has no ids.
    assert translator.translate(["\u200b"]) == [[Translation("", 0.0)]]


def test_a_sentence_is_translated_the_same_alone_and_in_company(translator):
    together = translator.translate(ODD_LINES, n_best=4)
    # The model must tell its sources apart, or this shows nothing.
    assert len({translations[0].text for translations in together}) > 5
    for line, expected in zip(ODD_LINES, together, strict=True):
        assert_same(translator.translate([line], n_best=4), [expected])
    assert_same(translator.translate(ODD_LINES[::-1], n_best=4), together[::-1])
    assert translator.translate([]) == []


def test_the_share_that_is_done_is_reported(translator):
    lines = ["a tree", "", "the red bird"]
    for work in (
        lambda report: translator.translate(lines, report=report),
        lambda report: translate_split(translator, lines, "en", report),
        lambda report: translator.score(lines, lines, report=report),
    ):
        shares: list[float] = []
        work(shares.append)
        assert shares[-1] == 1.0


def test_any_iterable_of_texts_is_taken_and_nothing_else(translator):
    lines, prefixes = ["the red bird", "x"], ["a", ""]
    found = translator.translate(iter(lines), 4, (one for one in prefixes))
    assert_same(found, translator.translate(lines, 4, prefixes))
    assert translator.score(iter(lines), iter(lines)) == translator.score(lines, lines)
    for wrong in ("the red bird", 5, ["x", None], [b"x", "x"]):
        for call in (
            translator.translate,
            lambda texts: translator.translate(lines, 1, texts),
            lambda texts: translator.score(lines, texts),
            lambda texts: translator.align(texts, lines),
        ):
            with pytest.raises(UserError, match=r"expected a (list of texts|text)"):
                call(wrong)


def test_a_fault_of_a_tag_is_a_warning(translator, monkeypatch, caplog):
    monkeypatch.setattr(translator, "tags", Tags([*"012", "<2de>", "<2fr>"]))
    translator.translate(["<2de> a", "a"], first=5)
    assert "line 6: no target language" in caplog.text


def test_what_is_beyond_the_longest_source_is_cut_off(translator, monkeypatch, caplog):
    head = "the red bird sees a tree and "
    one, other, short = translator.translate([head * 20 + "stone", head * 30 + "cloud", "cloud"], 4)
    assert_same([one], [other])
    truncated = [{best.truncated for best in found} for found in (one, other, short)]
    assert truncated == [{True}, {True}, {False}]
    monkeypatch.setattr(translator, "settings", replace(translator.settings, trained_length=9))
    translator.translate(["the red bird", head])
    assert "line 2: longer than the 9 subwords" in caplog.text
    assert "lines 1, 2: the source is long, only the first 24 subwords are used" in caplog.text


def log_probs(model, source, target):
    """The log-probability of every id of a target, all positions at once."""
    logits = np.asarray(model((np.array([source]), np.array([target])), training=False))[0]
    logits = logits.astype(np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return log_probs[np.arange(len(target)), target]


def test_a_score_is_the_model_s_own_over_the_length_penalty(translator, model, subwords, caplog):
    finished, unfinished = 0, 0
    lines = ["the red bird", "a blue house", "x", "stone", "🙂", "a", "tree"]
    for line in lines:
        (translation,) = translator.translate([line])[0]
        assert translation.finished == (EOS_ID in subwords.decoded)
        source = subwords.encode([line])[0]
        ids = [token for token in subwords.decoded if token]
        expected = log_probs(model, source, ids).sum()
        if ids[-1] == EOS_ID:
            finished += 1
            expected /= ((5 + len(ids)) / 6) ** ALPHA
            assert len(ids) <= len(source) + 8
        else:
            unfinished += 1
            assert len(ids) == len(source) + 8
        assert translation.score == pytest.approx(expected, abs=1e-4)
        assert translation.text == subwords.decode(ids)
    assert finished >= 2
    assert unfinished >= 2
    caplog.clear()
    cut = [n for n, (best,) in enumerate(translator.translate(lines), 1) if not best.finished]
    numbers = ", ".join(map(str, cut))
    assert f"lines {numbers}: the translation is cut off" in caplog.text


def test_n_best_are_different_translations_the_best_first(translator):
    lines = ["the red bird", "a", "stone", "🙂"]
    best = translator.translate(lines)
    found = translator.translate(lines, 4)
    assert_same([translations[:1] for translations in found], best)
    for translations in found:
        scores = [translation.score for translation in translations]
        assert scores == sorted(scores, reverse=True)
        # The number that stands for a hypothesis that does not exist is never shown.
        assert min(scores) > -1000
    assert max(map(len, found)) == 4


@pytest.mark.parametrize("n_best", [0, 5, -1])
def test_n_best_beyond_the_beam_is_refused(translator, n_best):
    with pytest.raises(ValueError, match=r"expected 1 \.\.\. beam_size=4"):
        translator.translate(["a"], n_best)


def test_scores_that_are_no_numbers_are_an_error(translator, model):
    table = model.embedding.table
    weights = np.asarray(table)
    try:
        table.assign(np.where(np.arange(weights.size).reshape(weights.shape) == 9, np.nan, weights))
        with pytest.raises(UserError, match="scores are not numbers"):
            translator.translate(["", "the red bird"])
    finally:
        table.assign(weights)


def test_a_beginning_is_given_to_beam_search(translator):
    lines, prefixes = ["the red bird", "", "a tree", "x"], ["a blue", "a", "", "the river, the "]
    free = translator.translate(lines, 4)
    found = translator.translate(lines, 4, prefixes)
    for some, prefix, line in zip(found, prefixes, lines, strict=True):
        assert all(t.text.startswith(prefix.strip()) for t in some) or not line
        assert [t.score for t in some] == sorted((t.score for t in some), reverse=True)
    assert found[1] == [Translation("", 0.0)]
    assert_same(found[2:3], free[2:3])
    assert_same(translator.translate(lines, 4, [""] * 4), free)
    with pytest.raises(ValueError, match="longer"):
        translator.translate(lines, 4, prefixes[:3])


def test_a_beginning_beyond_the_limit_is_cut_off_with_a_warning(translator, subwords, caplog):
    line, prefix = "the red bird", "a blue house, the river, the stone and the cloud " * 3
    limit = len(subwords.encode([line])[0]) + 8
    (whole, *_), (found, *_) = translator.translate([line] * 2, 4, ["a " * limit, prefix])
    assert (whole.text, whole.truncated, found.truncated) == ("a " * (limit - 1) + "a", False, True)
    assert found.text == subwords.decode(subwords.encode([prefix])[0][:limit])
    assert "line 2: the prefix is longer" in caplog.text


def test_a_translation_is_as_long_as_the_factor_allows(make, subwords):
    source = np.full([1, 10], subwords.encode(["a"])[0][0])
    # What can never end is cut off at the limit.
    search = MarianSearch(1, word_penalty=-100)
    # 1.1 · 10 is 11, although 1.1 is a little more in binary.
    for factor, longest in {0.25: 3, 1: 10, 1.1: 11, 2.5: 25}.items():
        never_ends = make(search, imported=ImportedBehaviour(max_length_factor=factor))
        assert never_ends.max_target_length(10) == longest + 8
        if factor < 1:
            ids = never_ends.search_batch(tf.constant(source, tf.int32), 1).ids
            assert ids.shape[2] == longest + 8


@pytest.mark.parametrize("search", [BeamSearch(3), MarianSearch(3, 1.0), Sampling(3)])
def test_forbidden_ids_are_never_written(make, subwords, search):
    (source,) = subwords.encode(["the red bird"])
    batch = tf.constant([source])
    usual = {*make(search).search_batch(batch, 3).ids.numpy().ravel()} - {EOS_ID, PAD_ID}
    forbidden = tuple(map(int, usual))
    imported = ImportedBehaviour(forbid_pad=True, forbidden_ids=forbidden)
    found = make(search, imported=imported).search_batch(batch, 3)
    assert usual
    assert not usual & {*found.ids.numpy().ravel()}


TARGETS = ["a house", "", "the river", " \u2028 ", *ODD_LINES[4:][::-1]]


def by_definition(translator, subwords, source, target):
    """The log-probability of every id of one pair."""
    ids = []
    for line, longest in ((source, 24), (target, 24 + 8)):
        (encoded,) = subwords.encode([line.strip()])
        ids.append([*encoded[: longest - 1], 1] if len(encoded) > longest else encoded)
    return log_probs(translator.model, *ids)


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


def test_pairs_are_scored_the_same_in_any_company(translator, make):
    together = translator.score(ODD_LINES, TARGETS)
    for found in (
        make(BeamSearch(1), tokens_per_batch=1, workers=1).score(ODD_LINES, TARGETS),
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


def test_one_thread_alone_compiles_a_graph(make, monkeypatch):
    translator = make(BeamSearch(1), workers=2)
    decode = Mock(side_effect=translator._decode_graph(1, False))
    monkeypatch.setattr(translator, "_decode_graph", lambda *_: decode)
    for _ in range(2):
        translator.translate(["a bird", "a tree", "a stone", "a house"])
    assert [len(ids) for (ids,), _ in decode.call_args_list] == [1, 2, 2, 2, 2]
