"""Text to ids and back in a graph, against the subword model in Python."""

import random
import sys

import pytest
import tensorflow as tf

from t2t_repro.data.subwords import Subwords, SubwordTraining
from t2t_repro.serving.text_ops import TextOps
from t2t_repro.vocabulary import EOS_ID
from tests.decoding.random_translator import ODD_LINES, TEXT

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


LINES = [*ODD_LINES, *TEXT[:3], *random_texts(1500), *CHARACTERS[:0x3100]]


@pytest.fixture(scope="module", params=["nmt_nfkc", "identity"])
def subwords(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("subwords") / "made.model"
    recipe = SubwordTraining(vocab_size=360, normalization=request.param)
    recipe.train([*TEXT, *ODD_LINES[:10]], path)
    return Subwords(path)


@pytest.fixture(scope="module")
def text_ops(subwords):
    return TextOps(subwords)


def texts_of(strings):
    return [text.decode() for text in strings.numpy()]


def test_ids_are_those_of_the_subword_model(text_ops, subwords):
    ids, is_blank = text_ops.encode(tf.constant(LINES))
    expected = subwords.encode(LINES)
    assert [[*row, EOS_ID] for row in ids.to_list()] == expected
    assert is_blank.numpy().tolist() == [
        len(row) == 1 or not line.strip() for row, line in zip(expected, LINES, strict=True)
    ]


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
