"""What an exported model answers, through TensorFlow's C++ loader, against the translator."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.formats.saved_model.servable import Servable
from t2t_repro.formats.saved_model.stored_weights import StoredWeights
from t2t_repro.vocabulary import EOS_ID, PAD_ID
from tests.decoding.random_translator import ODD_LINES
from tests.formats.saved_model.cpp_client import texts_of

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
    assert texts_of(best["translation"]) == [translation.text for translation in expected]
    np.testing.assert_allclose(best["score"], scores, rtol=1e-5, atol=1e-5)
    assert len(set(texts_of(best["translation"]))) > 5
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
    for texts, scores, count, found in zip(
        several["translation"],
        several["score"],
        counts,
        translator.translate(LINES, BEAM),
        strict=True,
    ):
        assert count == len(found)
        # The last one again where there is no other.
        found += [found[-1]] * (BEAM - count)
        assert texts_of(texts) == [translation.text for translation in found]
        in_python = [translation.score for translation in found]
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
    )
    answers = [serve(*request) for request in asked]
    for answer, rows in zip(answers, (0, 0, 0, 0, 2, 2, 4, 4, 1), strict=True):
        assert {len(output) for output in answer.values()} == {rows}
    assert answers[1]["translation"].shape == (0, BEAM)
    assert answers[4]["score"].tolist() == answers[5]["score"].tolist() == [0.0, 0.0]
    assert texts_of(answers[5]["translation"]) == ["", ""]
    assert answers[6]["translation"].tolist() == answers[7]["translation"].tolist()
    np.testing.assert_allclose(answers[6]["score"], answers[7]["score"], rtol=1e-5, atol=1e-5)
    assert answers[8]["truncated"].tolist() == [True]


def found_by(servable, lines):
    found = servable.translate(tf.constant(lines))
    return texts_of(found["translation"].numpy()), found["score"].numpy()


def test_int8_gives_what_the_translator_gives_with_the_rounded_weights(make_translator):
    translator = make_translator()
    model = translator.model
    servable = Servable(translator, "int8")
    texts, scores = found_by(servable, LINES[:9])
    exact = [weight.numpy() for weight in model.trainable_variables]
    for weight, value in zip(
        model.trainable_variables, StoredWeights(model, "int8").read(), strict=True
    ):
        weight.assign(value)
    assert any(
        (a != b.numpy()).any() for a, b in zip(exact, model.trainable_variables, strict=True)
    )
    expected = [translations[0] for translations in translator.translate(LINES[:9])]
    assert texts == [translation.text for translation in expected]
    np.testing.assert_allclose(scores, [t.score for t in expected], rtol=1e-5, atol=1e-5)


def test_bfloat16_gives_what_mixed_precision_gives(make_translator):
    translator = make_translator("mixed_bfloat16")
    servable = Servable(translator, "bfloat16")
    line = LINES[-1]
    ((expected,),) = translator.translate([line])
    texts, scores = found_by(servable, [line])
    assert texts == [expected.text]
    assert scores[0] == pytest.approx(expected.score, abs=1e-5)
