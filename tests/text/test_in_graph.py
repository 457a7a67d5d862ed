"""Text to ids and back in a graph, against the subword model in Python."""

import random
import sys

import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from t2t_repro.decoding.translator import Translator, TranslatorSettings
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.subword_model import shared
from t2t_repro.text.training import SubwordTraining
from t2t_repro.vocabulary import EOS_ID, NO_WORD
from tests.decoding.random_translator import ODD_LINES, TEXT, random_model

SURROGATES = range(0xD800, 0xE000)
CHARACTERS = [chr(code) for code in range(sys.maxunicode + 1) if code not in SURROGATES]


def random_texts(count):
    generator = random.Random(1)
    texts = []
    for _ in range(count):
        some = generator.choices(CHARACTERS[:0x300], k=6) + generator.choices(CHARACTERS, k=3)
        generator.shuffle(some)
        texts.append(" ".join(("".join(some[:4]), "".join(some[4:]))))
    return texts


# What str.strip takes away, and what looks like it.
ENDS = [c for c in CHARACTERS if c.isspace()] + list("\0\x1b\x7f\u180e\u200b\u2060\u2581\ufeff")
LINES = [
    *(*ODD_LINES, *TEXT[:3], *random_texts(1500), *CHARACTERS[:0x3100]),
    *(f"{end}a {end} tree{end} {end}" for end in ENDS),
    *("<2de> a tree", "<2de>", "<2de>  ", "a<2de>tree <2de>", "▁<2de>", "<2de", "<2de>\u0301 a"),
]


@pytest.fixture(scope="module", params=["nmt_nfkc", "identity", "tagged", "ending"])
def subwords(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("subwords") / "made.model"
    chosen = {"normalization": request.param}
    if request.param == "tagged":
        chosen = {"symbols": ["<2de>"]}
    if request.param == "ending":
        chosen = {"symbols": ["<2de>"], "word_mark": "end"}
    recipe = SubwordTraining(vocab_size=360, **chosen)
    recipe.train([*TEXT, *ODD_LINES[:10]], path)
    return SentencePieceModel(path)


@pytest.fixture(scope="module")
def text_ops(subwords):
    return subwords.in_graph()


@pytest.fixture(scope="module")
def translator(subwords):
    return Translator(
        [random_model(subwords)], shared(subwords), TranslatorSettings(max_source_length=100_000)
    )


def encoded(text_ops, texts):
    """The ids of every text as the model sees them: EOS last, none at all for a blank one."""
    ids, is_blank = text_ops.encode(tf.constant(texts, tf.string))
    rows = zip(ids.to_list(), is_blank.numpy().tolist(), strict=True)
    return [[] if blank else [*row, EOS_ID] for row, blank in rows]


def ids_of(translator, lines):
    encoded = translator._encode("source", lines).ids
    return [ids if len(ids) > 1 else [] for ids in encoded]


def texts_of(strings):
    return [text.decode() for text in strings.numpy()]


def test_ids_are_those_of_the_translator(text_ops, translator):
    assert encoded(text_ops, LINES) == ids_of(translator, LINES)


CHARACTER = st.one_of(st.sampled_from(ENDS), st.sampled_from("ab"), st.characters(codec="utf-8"))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(texts=st.lists(st.text(CHARACTER)))
@example(texts=["\x1c\x85a\x0b"])
def test_ids_of_any_text_are_those_of_the_translator(text_ops, translator, texts):
    assert encoded(text_ops, texts) == ids_of(translator, texts)


def test_blank_is_what_python_strips(text_ops):
    _, is_blank = text_ops.encode(tf.constant([f"a{c}" for c in CHARACTERS[::97]] + ["a"]))
    assert not is_blank.numpy().any()
    blank = "".join(c for c in CHARACTERS if not c.strip())
    assert len(blank) > 20
    assert text_ops.encode(tf.constant([blank, *blank]))[1].numpy().all()


def test_texts_are_those_of_the_subword_model(text_ops, subwords):
    generator = random.Random(2)
    rows = subwords.encode(LINES[:300])
    # Bytes by themselves make invalid UTF-8; ids outside the vocabulary, PAD and EOS may occur.
    for largest in (260, subwords.size + 9):
        rows += [generator.choices(range(-1, largest), k=8) for _ in range(500)]
    padded = tf.ragged.constant(rows, dtype=tf.int32).to_tensor()
    assert texts_of(text_ops.decode(padded)) == [subwords.decode(row) for row in rows]


def test_words_are_numbered_as_by_the_subword_model(text_ops, subwords):
    lines = [
        *filter(str.strip, LINES[:300]),
        "don\u00b4t why\u00b4s",
        "a \x01 b",
        "a\u2581b \u2581 c",
        "\u00a8 \u00a8",
        "\x01",
    ]
    rows = subwords.encode(lines)
    generator = random.Random(3)
    # Ids of another text: their words are the last at most.
    rows += [generator.choices(range(1, subwords.size), k=8) for _ in range(500)]
    lines += generator.choices(lines, k=500)
    ids = tf.ragged.constant(rows, dtype=tf.int32).to_tensor()
    numbers = text_ops.word_numbers(tf.constant(lines), ids).numpy()
    for of_row, line, row in zip(numbers, lines, rows, strict=True):
        assert of_row[: len(row)].tolist() == subwords.word_numbers(line, row)
        assert (of_row[len(row) :] == NO_WORD).all()


def test_what_is_no_utf8_counts_as_the_replacement_character(text_ops):
    strange = [b"a\xff\xfeb", b"\xed\xa0\x80", b"\xc3", b"ok\xf0\x9f\x98"]
    ids, _ = text_ops.encode(tf.constant(strange))
    mended = [text.decode("utf-8", errors="replace") for text in strange]
    for row, text in zip(ids.to_list(), mended, strict=True):
        # How many of them stand for a truncated character is not laid down.
        alone = text_ops.encode(tf.constant([text]))[0].to_list()[0]
        assert set(row) == set(alone)


def test_no_text_at_all(text_ops):
    ids, is_blank = text_ops.encode(tf.constant([], tf.string))
    assert ids.to_list() == is_blank.numpy().tolist() == []
    assert texts_of(text_ops.decode(tf.zeros([0, 3], tf.int32))) == []
    assert texts_of(text_ops.decode(tf.zeros([2, 0], tf.int32))) == ["", ""]
