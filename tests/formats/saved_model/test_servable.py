"""What an exported model answers, through TensorFlow's C++ loader, against the translator."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.data.batch_shapes import group_by_length
from t2t_repro.decoding.settings import ImportedBehaviour, MarianSearch, Sampling, glossary
from t2t_repro.decoding.shortlist import ShortlistFile
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.formats.saved_model.servable import Servable, StoredWeights, map_groups, quantized
from t2t_repro.text.subword_model import shared
from t2t_repro.text.t2t import T2TSubwords
from t2t_repro.vocabulary import EOS_ID, PAD_ID, UNK_ID
from tests.decoding.random_translator import ODD_LINES, random_model, with_search
from tests.formats.saved_model.cpp_client import texts_of
from tests.text.test_t2t import VOCABULARY, write

BEAM, EXTRA, LONGEST = 4, 8, 24  # of conftest.py
STRANGE = [b"a \xff\xfe tree", b"\xed\xa0\x80", b"\xc3", b"the red bird"]
LINES = [*ODD_LINES, "a river " * 700, "the red stone and a cloud"]


def test_texts_and_scores_are_those_of_the_translator(serve, translator, subwords):
    ids = tf.ragged.constant(subwords.encode(LINES), dtype=tf.int32).to_tensor(PAD_ID).numpy()
    best = serve("serving_default", {"source": LINES})
    alone = serve("serving_default", {"source": LINES[:1]})
    several = serve("nbest", {"source": LINES})
    of_ids = serve("token_ids", {"source_ids": ids})
    expected = [translations[0] for translations in translator.translate(LINES)]
    scores = [translation.score for translation in expected]
    finished = [translation.finished for translation in expected]
    assert best["finished"].tolist() == of_ids["finished"].tolist() == finished
    assert texts_of(best["translation"]) == [translation.text for translation in expected]
    np.testing.assert_allclose(best["score"], scores, rtol=1e-5, atol=1e-5)
    assert len(set(texts_of(best["translation"]))) > 4
    assert alone["translation"].tolist() == best["translation"][:1].tolist()

    lengths = [len(row) for row in subwords.encode(LINES)]
    truncated = [
        length > LONGEST and bool(line.strip()) for length, line in zip(lengths, LINES, strict=True)
    ]
    assert best["truncated"].tolist() == several["truncated"].tolist() == truncated
    assert sum(truncated) == 3

    assert several["translation"].shape == several["score"].shape == (len(LINES), BEAM)
    counts = several["count"].tolist()
    assert set(counts) == {1, BEAM}
    for texts, scores, finished, count, found in zip(
        several["translation"],
        several["score"],
        several["finished"],
        counts,
        translator.translate(LINES, BEAM),
        strict=True,
    ):
        assert count == len(found)
        # The last one again where there is no other.
        found += [found[-1]] * (BEAM - count)
        assert texts_of(texts) == [translation.text for translation in found]
        in_python = [translation.score for translation in found]
        assert finished.tolist() == [translation.finished for translation in found]
        np.testing.assert_allclose(scores, in_python, rtol=1e-5, atol=1e-5)

    # What is blank is only known from the text.
    for row, text, source in zip(
        of_ids["translation_ids"], best["translation"], LINES, strict=True
    ):
        assert not source.strip() or subwords.decode(row) == text.decode()


def test_ids_may_be_padded_anyhow(serve):
    asked = [
        [[7, 300, 9, EOS_ID], [7, 290, 9, EOS_ID]],
        [[7, 300, 9], [7, 290, 9]],
        [[PAD_ID, 7, 300, PAD_ID, 9, EOS_ID, 8], [7, 290, 9, EOS_ID, PAD_ID, PAD_ID, 5]],
        # As TensorFlow Serving fills up what it joins with longer sentences: with the first id.
        [[7, 300, 9, EOS_ID, 7, 7], [7, 290, 9, EOS_ID, 7, 7]],
        [[PAD_ID, EOS_ID], [9, -4], [9, 10**6]],
    ]
    first, *others, strange = (serve("token_ids", {"source_ids": ids}) for ids in asked)
    assert (first["translation_ids"] != PAD_ID).any(axis=0).all()
    for other in others:
        assert other["translation_ids"].tolist() == first["translation_ids"].tolist()
    assert strange["translation_ids"][0].tolist() == [PAD_ID] * strange["translation_ids"].shape[1]
    assert strange["translation_ids"][1].tolist() == strange["translation_ids"][2].tolist()


def log_prob(model, source, target):
    """log P(target | source), all positions at once."""
    logits = np.asarray(model((np.array([source]), np.array([target])), training=False))[0]
    log_probs = tf.nn.log_softmax(logits.astype(np.float64)).numpy()
    return log_probs[np.arange(len(target)), target].sum()


def test_a_given_translation_is_scored_by_the_model(serve, subwords, translator):
    sources = ["the red bird", "", "x", "a river " * 99, "🙂", "a"]
    targets = ["a tree", "a", "", "the", "a river " * 99, "a"]
    scored = serve("score", {"source": sources, "target": targets})
    longest = LONGEST + EXTRA
    rows = [
        [[*row[: most - 1], EOS_ID] if len(row) > most else row for row in subwords.encode(lines)]
        for lines, most in ((sources, LONGEST), (targets, longest))
    ]
    expected = [log_prob(translator.model, *pair) for pair in zip(*rows, strict=True)]
    np.testing.assert_allclose(scored["log_probability"], expected, rtol=1e-5)
    assert scored["length"].tolist() == list(map(len, rows[1]))
    assert scored["truncated"].tolist() == [False, False, False, True, True, False]
    in_python = translator.score(sources, targets)
    np.testing.assert_allclose(
        scored["log_probability"], [pair.log_probability for pair in in_python], rtol=1e-5
    )
    assert scored["length"].tolist() == [len(pair.subwords) for pair in in_python]
    assert scored["truncated"].tolist() == [pair.truncated for pair in in_python]


def test_whatever_a_request_holds_it_is_answered(serve):
    nothing = np.zeros([0], object)
    asked = (
        ("serving_default", {"source": nothing}),
        ("nbest", {"source": nothing}),
        ("score", {"source": nothing, "target": nothing}),
        ("token_ids", {"source_ids": np.zeros([0, 3], np.int32)}),
        ("token_ids", {"source_ids": np.zeros([2, 0], np.int32)}),
        ("serving_default", {"source": ["", "  "]}),
        ("serving_default", {"source": STRANGE}),
        ("serving_default", {"source": [text.decode(errors="replace") for text in STRANGE]}),
        ("serving_default", {"source": ["x" * 5000]}),
        ("prefix", {"source": nothing, "prefix": nothing}),
        ("alignment", {"source": nothing, "target": nothing}),
    )
    answers = [serve(*request) for request in asked]
    for answer, rows in zip(answers, (0, 0, 0, 0, 2, 2, 4, 4, 1, 0, 0), strict=True):
        assert {len(output) for output in answer.values()} == {rows}
    assert answers[1]["translation"].shape == (0, BEAM)
    assert answers[4]["translation_ids"].shape == (2, 0)
    assert answers[4]["score"].tolist() == answers[5]["score"].tolist() == [0.0, 0.0]
    assert texts_of(answers[5]["translation"]) == ["", ""]
    assert answers[6]["translation"].tolist() == answers[7]["translation"].tolist()
    np.testing.assert_allclose(answers[6]["score"], answers[7]["score"], rtol=1e-5, atol=1e-5)
    assert answers[8]["truncated"].tolist() == [True]


PREFIXES = ["a tree", "", "x", "the", " ", "a blue", "🙂", "a " * 99, "", "", "a", "b", "c", "d"]
PREFIXES += ["the", "a tree"]


def assert_first(answer, expected):
    """Sees that the translations of an answer are the first of what a translator gave."""
    assert texts_of(answer["translation"]) == [some[0].text for some in expected]
    scores = [some[0].score for some in expected]
    np.testing.assert_allclose(answer["score"], scores, rtol=1e-5, atol=1e-5)
    assert answer["finished"].tolist() == [some[0].finished for some in expected]


def test_translations_from_a_prefix(serve, translator):
    answer = serve("prefix", {"source": ODD_LINES, "prefix": PREFIXES})
    expected = translator.translate(ODD_LINES, 1, PREFIXES)
    assert_first(answer, expected)
    # Two sources and a prefix are too long.
    assert np.flatnonzero(answer["truncated"]).tolist() == [7, 12, 13]
    assert expected != translator.translate(ODD_LINES)


def test_each_sentence_is_drawn_with_its_seed(serve, translator):
    seeds = [1, 7] * (len(ODD_LINES) // 2)
    drawn = {
        seed: with_search(translator, Sampling(seed=seed)).translate(ODD_LINES) for seed in (1, 7)
    }
    expected = [drawn[seed][row] for row, seed in enumerate(seeds)]
    assert_first(serve("sample", {"source": ODD_LINES, "seed": seeds}), expected)
    assert drawn[1] != drawn[7]
    # Alone, too.
    alone = serve("sample", {"source": ODD_LINES[5:6], "seed": seeds[5:6]})
    assert_first(alone, expected[5:6])


def test_alignments_are_the_translator_s(serve, translator):
    targets = ["a tree sees the red bird", *ODD_LINES[:0:-1]]
    answer = serve("alignment", {"source": ODD_LINES, "target": targets})
    expected = translator.align(ODD_LINES, targets)
    assert texts_of(answer["alignment"]) == expected
    assert len(set(expected)) >= 5
    assert "" in expected
    assert answer["truncated"].sum() == 4


def test_tensor2tensor_s_subwords_are_not_aligned_in_a_graph(tmp_path):
    subwords = shared(T2TSubwords(write(tmp_path / "vocabulary", VOCABULARY)))
    translator = Translator([random_model(subwords.target)], subwords)
    with pytest.raises(UserError, match="vocabulary"):
        Servable(translator, "float32", ["alignment"])


def answer_of(servable, lines):
    answer = servable.signatures()["serving_default"](tf.constant(lines))
    return {name: value.numpy() for name, value in answer.items()}


def test_int8_gives_what_the_translator_gives_with_the_rounded_weights(make_translator):
    translator = make_translator()
    model = translator.model
    answer = answer_of(Servable(translator, "int8"), LINES[:9])
    exact = [weight.numpy() for weight in model.trainable_variables]
    stored = StoredWeights(model, "int8")
    matrices = [part for part in stored.variables if part.shape.rank == 2 and 1 not in part.shape]
    assert {part.dtype for part in matrices} == {tf.int8}
    # A scale for every output.
    scales = {(model.vocab_size, 1), (1, model.config.d_ff)}
    assert scales <= {tuple(part.shape) for part in stored.variables}
    rounded = stored.read()
    for weight, value in zip(model.trainable_variables, rounded, strict=True):
        weight.assign(value)
    assert any((a != b.numpy()).any() for a, b in zip(exact, rounded, strict=True))
    assert_first(answer, translator.translate(LINES[:9]))


def test_a_state_takes_the_place_of_keys_in_the_graph(make_translator):
    translator = make_translator(decoder_self_attention="ssru")
    answer = answer_of(Servable(translator, "float32"), LINES[:9])
    assert_first(answer, translator.translate(LINES[:9]))


def test_a_shortlist_is_in_the_graph(translator):
    size = translator.model.vocab_size
    random = np.random.default_rng(1)
    splits = np.arange(0, 3 * size + 1, 3)
    splits[1:] -= 3  # PAD's list is empty.
    ids = random.integers(1, size, splits[-1]).astype(np.int32)
    lists = ShortlistFile(splits, ids, np.array([EOS_ID, UNK_ID], np.int32))
    short = Translator(translator.models, translator.subwords, translator.settings, lists)
    found = short.translate(LINES[:9])
    assert found != translator.translate(LINES[:9])
    assert_first(answer_of(Servable(short, "float32"), LINES[:9]), found)


def test_a_glossary_is_in_the_graph(translator, tmp_path):
    (tmp_path / "terms.tsv").write_text("the red stone\ta river\nbird\tCLOUD\n")
    made = partial(glossary, file=str(tmp_path / "terms.tsv"), bonus=30.0)
    with_terms = translator.with_settings(replace(translator.settings, grammar=made))
    # The search of samples is made while a graph is.
    answer = answer_of(Servable(with_terms, "float32", ["sample"]), LINES)
    assert_first(answer, with_terms.translate(LINES))
    assert b"CLOUD" in answer["translation"][0]


def test_a_search_as_marians_is_in_the_graph(translator):
    lines = LINES[5:9]
    (first,) = translator.translate(lines[-1:])
    settings = replace(
        translator.settings,
        search=MarianSearch(3, 0.6),
        max_extra_length=0,
        imported=ImportedBehaviour(
            max_length_factor=1.7,
            forbidden_ids=tuple(translator.subwords.target.encode([first[0].text])[0][:-1]),
        ),
    )
    marians = Translator(translator.models, translator.subwords, settings)
    answer = Servable(marians, "float32").signatures()["nbest"](tf.constant(lines))
    for texts, scores, found in zip(
        answer["translation"].numpy(), answer["score"], marians.translate(lines, 3), strict=True
    ):
        assert texts_of(texts) == [one.text for one in found]
        np.testing.assert_allclose(scores, [one.score for one in found], rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_bfloat16_gives_what_mixed_precision_gives(make_translator):
    translator = make_translator("mixed_bfloat16")
    answer = answer_of(Servable(translator, "bfloat16"), LINES[-1:])
    assert_first(answer, translator.translate(LINES[-1:]))


# Weights


def test_a_quantised_matrix_is_within_half_a_step():
    matrix = np.random.default_rng(1).normal(size=(6, 5)).astype(np.float32) * [1, 9, 0.01, 0, 2]
    whole, scale = quantized(tf.constant(matrix, tf.float32), axis=0)
    assert whole.dtype == tf.int8
    assert scale.shape == [1, 5]
    assert np.abs(whole.numpy()).max(axis=0).tolist() == [127, 127, 127, 0, 127]
    difference = np.abs(whole.numpy() * scale.numpy() - matrix)
    assert (difference <= scale.numpy() / 2 * 1.001).all()
    assert quantized(tf.constant(matrix, tf.float32), axis=1)[1].shape == [6, 1]


# Groups


def groups_and_results(lengths, tokens):
    """The groups that `compute` was called with, and 100 + its row for every one computed."""
    seen = []

    def compute(rows, length):
        seen.append((rows.numpy().tolist(), int(length)))
        return rows + 100

    ids = tf.constant(lengths, tf.int32)
    return seen, map_groups(ids, tokens, compute, tf.zeros_like(ids)).numpy().tolist()


@pytest.mark.parametrize("tokens", [1, 12, 10**6])
def test_the_groups_are_those_of_the_plain_function(tokens):
    generator = np.random.default_rng(1)
    lengths = generator.integers(0, 9, 30).tolist()
    seen, results = groups_and_results(lengths, tokens)
    assert [rows for rows, _ in seen] == [g.tolist() for g in group_by_length(lengths, tokens)]
    assert [length for _, length in seen] == [max(lengths[r] for r in rows) for rows, _ in seen]
    assert results == [100 + row if length else 0 for row, length in enumerate(lengths)]
