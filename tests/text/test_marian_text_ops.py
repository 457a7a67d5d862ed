"""Marian's subwords in a graph, against those in Python."""

import random
from typing import Any

import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from t2t_repro.formats.marian.text import read_marian_text
from tests.decoding.random_translator import ODD_LINES
from tests.real_corpora import shared_folder
from tests.text.marian_directory import CODES, SOURCE_TEXT, TARGET_TEXT, write_marian_text
from tests.text.test_in_graph import CHARACTERS, ENDS, LINES, encoded, texts_of
from tests.text.test_marian import PARTS

PUNCTUATION = [
    *("a", "b", "1", "\u0663", " ", "\t", "\u00a0", "\u2003", "\n", "\r", "n\u00ba", "\u00baC"),
    *("cm", "(", ")", "<", "-", "%", "`", "''", '"', *".!:?;,'"),
    *("\u201e", "\u201c", "\u201d", "\u2013", "\u2014", "\u00b4", "\u2018", "\u201a", "\u2019"),
    *("\u2026", "\u00ab", "\u00bb", *"，。、∶：？《》）！（；」「０１９．～━〈〉【】％"),
]
TEXTS = st.lists(
    st.sampled_from(PARTS + ENDS) | st.sampled_from(PUNCTUATION) | st.text(max_size=4), max_size=9
).map("".join)
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "two vocabularies": {"separate": True},
    "clean spaces": {"clean_up_tokenization_spaces": True},
}


@pytest.fixture(scope="module", params=CONFIGURATIONS)
def sides(request, tmp_path_factory):
    """The subwords of source and target, each with what does the same in a graph."""
    folder = tmp_path_factory.mktemp("marian")
    config = CONFIGURATIONS[request.param]
    text = read_marian_text(write_marian_text(folder / "theirs", **config))
    return [(subwords, subwords.in_graph()) for subwords in text.write(folder)]


def ids_of(subwords, texts):
    """As the translator asks for them: none at all for what holds nothing."""
    return [ids[: len(ids) * (len(ids) > 1)] for ids in subwords.encode([t.strip() for t in texts])]


def test_ids_are_those_of_python(sides):
    lines = [
        *(*LINES, *SOURCE_TEXT, *TARGET_TEXT, *ODD_LINES, *CHARACTERS[::3001]),
        *(f"{code}{line}" for code in CODES for line in ("", " ", " the man", "Männer")),
        *(" >>fra<< a", ">> a\nb << c", ">>fra<<" * 3, "☃" * 3000, " ".join("abc" * 500)),
    ]
    for subwords, text_ops in sides:
        assert encoded(text_ops, lines) == ids_of(subwords, lines)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(lines=st.lists(TEXTS, max_size=4))
@example(lines=[">>fra<<", "", "a", ">>deu<< b", ">>xxx<<c"])
@example(lines=["\0", "</s>", "<pad>"])
def test_ids_of_any_text_are_those_of_python(sides, lines):
    for subwords, text_ops in sides:
        assert encoded(text_ops, lines) == ids_of(subwords, lines)


def test_texts_are_those_of_python(sides):
    generator = random.Random(3)
    for subwords, text_ops in sides:
        rows = subwords.encode([*LINES[:300], *SOURCE_TEXT, *TARGET_TEXT, "a 's . n't ' ? a"])
        for largest in (20, subwords.size + 9):
            rows += [generator.choices(range(-1, largest), k=9) for _ in range(1000)]
        padded = tf.ragged.constant(rows, dtype=tf.int32).to_tensor()
        assert texts_of(text_ops.decode(padded)) == [subwords.decode(row) for row in rows]


def test_words_are_numbered_as_in_python(sides):
    for subwords, text_ops in sides:
        lines = [*SOURCE_TEXT, ">>fra<< a b", "", "☃ a", "a\u00b4b \x01 c"]
        rows = subwords.encode(lines)
        padded = tf.ragged.constant(rows, dtype=tf.int32).to_tensor()
        numbers = text_ops.word_numbers(tf.constant(lines), padded).numpy()
        for line, row, of_row in zip(lines, rows, numbers, strict=True):
            assert of_row[: len(row)].tolist() == subwords.word_numbers(line, row)
            assert (of_row[len(row) :] == -1).all()


def test_no_text_at_all(sides):
    _, text_ops = sides[0]
    ids, is_blank = text_ops.encode(tf.constant([], tf.string))
    assert (ids.nrows(), is_blank.shape) == (0, (0,))
    assert text_ops.decode(tf.zeros([0, 0], tf.int32)).shape == (0,)
    assert texts_of(text_ops.decode(tf.zeros([2, 0], tf.int32))) == ["", ""]


def test_the_oracle_s_lines(tmp_path):
    source, target = read_marian_text(shared_folder("marian_oracle")).write(tmp_path)
    lines = [*LINES[:200], *ODD_LINES, *SOURCE_TEXT, "Ein ÄÖÜ – “quote” … 100 % ☃ 你好"]
    for subwords in (source, target):
        text_ops = subwords.in_graph()
        assert encoded(text_ops, lines) == ids_of(subwords, lines)
        ids = tf.random.stateless_uniform([1000, 20], [1, 2], 0, subwords.size, tf.int32)
        assert texts_of(text_ops.decode(ids)) == [subwords.decode(row) for row in ids.numpy()]
