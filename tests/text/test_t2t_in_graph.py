"""Tensor2Tensor's subwords in a graph, against those in Python."""

import random

import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from t2t_repro.text.t2t import RESERVED, T2TSubwords
from t2t_repro.text.t2t_in_graph import is_word
from tests.decoding.random_translator import ODD_LINES, TEXT
from tests.text.test_in_graph import CHARACTERS, ENDS, LINES, encoded, texts_of
from tests.text.test_t2t import ESCAPES, VOCABULARY, write

# Letters that occur inside subwords only: T2T itself could not spell "q" or "ab" alone.
WITHOUT_LETTERS = [*RESERVED, *ESCAPES, "qu", "abc", "a_", "bc_", "ß ß_", "", "a_b"]
WORDS = st.sampled_from(
    ["the", "quick", "fox", "straße", "a", "ab", "abc", "qu", "_", "\\u", "\\8364;"]
)
TEXTS = st.lists(st.one_of(WORDS, st.text(max_size=4), st.sampled_from(ENDS + list(" .,_\\;89€"))))


@pytest.fixture(scope="module", params=[VOCABULARY, WITHOUT_LETTERS], ids=["whole", "no letters"])
def subwords(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("t2t")
    return T2TSubwords(write(folder / "vocab.subwords", request.param))


@pytest.fixture(scope="module")
def text_ops(subwords):
    return subwords.in_graph()


def ids_of(subwords, texts):
    """As the translator asks for them."""
    stripped = [text.strip() for text in texts]
    rows = zip(stripped, subwords.encode(stripped), strict=True)
    return [ids if text else [] for text, ids in rows]


def test_a_word_is_what_it_is_to_python():
    assert is_word(tf.range(0x110000)).numpy().tolist() == [
        chr(code).isalnum() for code in range(0x110000)
    ]


def test_ids_are_those_of_t2t(text_ops, subwords):
    lines = [
        *LINES,
        *TEXT,
        *ODD_LINES,
        "a\\b_c \\\\ \\u \\8364; €",
        "x" * 3000,
        " ".join("abc" * 500),
    ]
    assert encoded(text_ops, lines) == ids_of(subwords, lines)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(lines=st.lists(TEXTS.map("".join), max_size=4))
@example(lines=["a b", "a  b", "a .b", " a", "ab\\", "_", "ß ß", "\0"])
def test_ids_of_any_text_are_those_of_t2t(text_ops, subwords, lines):
    assert encoded(text_ops, lines) == ids_of(subwords, lines)


def test_texts_are_those_of_t2t(text_ops, subwords):
    generator = random.Random(3)
    rows = subwords.encode([*LINES[:300], *CHARACTERS[::3001]])
    for largest in (20, subwords.size + 9):
        rows += [generator.choices(range(-1, largest), k=9) for _ in range(1000)]
    padded = tf.ragged.constant(rows, dtype=tf.int32).to_tensor()
    assert texts_of(text_ops.decode(padded)) == [subwords.decode(row) for row in rows]


@pytest.mark.parametrize(
    ("escape", "character"),
    [
        ("\\65;", "A"),
        ("\\0065;", "A"),
        ("\\8364;", "€"),
        ("\\0;", "\0"),
        ("\\1114111;", "\U0010ffff"),
        ("\\1114112;", "\u3013"),
        ("\\55296;", "\u3013"),
        ("\\123456789012345678901234567890;", "\u3013"),
        ("\\;", "\\;"),
        ("\\6", "\\6"),
        ("\\u65;", "_65;"),
        ("\\\\65;", "\\65;"),
    ],
)
def test_escapes_are_undone(text_ops, subwords, escape, character):
    ids = [subwords.pieces().index(c) for c in f"{escape}_"]
    assert subwords.decode(ids) == character
    assert texts_of(text_ops.decode(tf.constant([ids]))) == [character]


def test_one_long_text_among_many(text_ops, subwords):
    """A mask of all texts by all characters would have 4 GB."""
    lines = [*("the fox" for _ in range(20_000)), "xab_" * 50_000]
    ids, _ = text_ops.encode(tf.constant(lines))
    few = subwords.encode([lines[0], lines[-1]])
    assert ids[0].numpy().tolist() == ids[19_999].numpy().tolist() == few[0][:-1]
    assert ids[-1].numpy().tolist() == few[1][:-1]
    texts = text_ops.decode(tf.ragged.constant(few, dtype=tf.int32).to_tensor())
    assert texts_of(texts) == [lines[0], lines[-1]]


def test_no_text_at_all(text_ops):
    ids, is_blank = text_ops.encode(tf.constant([], tf.string))
    assert ids.to_list() == is_blank.numpy().tolist() == []
    assert texts_of(text_ops.decode(tf.zeros([0, 3], tf.int32))) == []
    assert texts_of(text_ops.decode(tf.zeros([2, 0], tf.int32))) == ["", ""]
