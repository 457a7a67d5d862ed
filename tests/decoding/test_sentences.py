"""Lines are translated sentence by sentence, and nothing but the sentences changes."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from t2t_repro.decoding.search import Translation
from t2t_repro.decoding.sentences import split, translate_sentences, translate_split
from t2t_repro.decoding.settings import BeamSearch, TranslatorSettings
from t2t_repro.decoding.translator import Translator
from t2t_repro.text.subword_model import shared


def upper(texts, longest=12):
    """Translates as a model that takes so many characters."""
    for text in texts:
        assert text.strip() == text != ""
        cut = len(text) > longest
        yield Translation(
            "lost" if cut and " " in text else text[:longest].upper(), -1.0, truncated=cut
        )


PARTS = st.sampled_from([*'aA.!?。("«\n\r\t \xa0\u3000\x85\x1c', "Dr. ", ". B", "e\u0301"])


@given(st.lists(PARTS, max_size=20).map("".join), st.sampled_from(["en", "fr", "zh", "?"]))
@example("Plan A\xa0. b", "fr")
def test_nothing_is_lost(line, language):
    pieces = list(split(line, language))
    assert "".join(text + blank for text, blank in pieces) == line
    assert all(text == text.strip() and (not blank or blank.isspace()) for text, blank in pieces)


@pytest.mark.parametrize(
    ("language", "line", "sentences"),
    [
        ("en", " Dr. Li ran.\u3000 Why?\tYes. ", ["", "Dr. Li ran.", "Why?", "Yes."]),
        ("ja", "こんにちは。元気です。", ["こんにちは。", "元気です。"]),
        ("?", "One.  Two.", ["One.", "Two."]),
        ("en", "a title\n\nand text", ["a title", "", "and text"]),
        ("en", " \t ", [""]),
    ],
)
def test_sentences_change_and_white_space_stays(language, line, sentences):
    assert [text for text, _ in split(line, language)] == sentences
    score = -float(len([*filter(None, sentences)]))
    assert translate_sentences([line], language, upper) == [Translation(line.upper(), score)]


def test_what_is_too_long_is_split_at_white_space_only():
    part = "bb ccc\u3000dd eee"
    lines = [part, " ".join([part] * 8), "x" * 13 + " yy. Z.", "x" * 13]
    rows = translate_sentences(lines, "en", upper)
    assert [row.text for row in rows[:2]] == [line.upper() for line in lines[:2]]
    assert rows[2:] == [
        Translation("X" * 12 + " YY. Z.", -3.0, truncated=True),
        Translation("X" * 12, -1.0, truncated=True),
    ]


def test_the_code_of_a_language_is_in_front_of_all_sentences_and_their_parts():
    lines = ["<2de> Bb. Aa ccc dd. ", ">>de<< Bb. Bb.", "Bb. x"]
    asked = []

    def remembered(texts):
        asked.extend(texts)
        return upper(texts)

    rows = translate_sentences(lines, "en", remembered)
    # Each is translated once.
    assert len({*asked}) == len(asked) > 4
    assert [row.text for row in rows] == [
        "<2DE> BB. <2DE> AA CCC <2DE> DD. ",
        ">>DE<< BB. >>DE<< BB.",
        "BB. X",
    ]


ADDRESSES = st.sampled_from(
    ["https://x.org/a_(b)?c=1#d", "WWW.x.de/", "ann.b+1@x-y.org", "[X12X]", "{name}", "%(n)s", "%s"]
)
BETWEEN = st.sampled_from([" ", ". Then ", " (or ", ") and ", "、", "請看", ": go to “", "! "])


@given(st.lists(st.tuples(ADDRESSES, BETWEEN), min_size=1, max_size=9))
def test_addresses_come_through(parts):
    line = "<2de> See " + "".join(map("".join, parts))
    (row,) = translate_sentences(
        [line], "en", lambda texts: [Translation("lost", -1.0)] * len(texts)
    )
    rest = row.text
    for address, _ in parts:
        _, found, rest = rest.partition(address)
        assert found
    assert not re.search("See|Then|go|and|請", row.text)

    asked = []

    def copy(texts):
        asked.extend(texts)
        return (Translation(text, -1.0) for text in texts)

    (row,) = translate_sentences([line], "en", copy)
    assert row.text.replace("<2de> ", "") == line.replace("<2de> ", "")
    # What is kept already is translated as a whole.
    sentences = {text for text, _ in split(line[6:], "en")}
    assert {text.removeprefix("<2de> ") for text in asked} <= sentences


def test_a_part_between_addresses_ends_as_in_the_source():
    lines = ["<2de> See www.x.de (or me@x.de). It is 5.", "www.x.de? Now", "{name}"]
    rows = translate_sentences(lines, "en", lambda texts: [Translation("So.", -1.0) for _ in texts])
    expected = ["So www.x.de (So me@x.de). So.", "www.x.de? So.", "{name}"]
    assert [row.text for row in rows] == expected


@pytest.mark.parametrize(("translation", "gap"), [("Hi.", " "), ("嗨。", "")])
def test_a_language_with_blanks_gets_them(translation, gap):
    row = Translation(translation, 0.0)
    (found,) = translate_sentences(["“你好。”你好。"], "zh", lambda texts: [row] * len(texts))
    assert found.text == gap.join([translation] * 2)


def test_each_sentence_is_translated_as_alone(model, subwords):
    translator = Translator([model], shared(subwords), TranslatorSettings(BeamSearch(4), 8, 24))
    sentences = ["The red bird sees a tree.", "A blue house.", "x" * 99]
    long = "The red bird sees a tree and " * 3
    alone = [best for best, *_ in translator.translate(sentences)]
    rows = translate_split(translator, ["  ".join(sentences), "", *sentences[1:], long], "en")
    assert rows[0].text == "  ".join(one.text for one in alone)
    assert rows[0].score == pytest.approx(sum(one.score for one in alone), rel=1e-4)
    assert [row.text for row in rows[1:4]] == ["", *(one.text for one in alone[1:])]
    assert [row.truncated for row in rows] == [True, False, False, True, False]
    ((alone_long,),) = translator.translate([long])
    assert alone_long.truncated
    assert all(one.text for one in alone)
    finished = [one.finished for one in alone]
    assert [row.finished for row in rows[:4]] == [all(finished), True, *finished[1:]]
