"""Subwords in a graph give the ids, texts and word numbers of those in Python."""

import random
import sys

import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.formats.hugging_face.tokenizer import read_marian_text
from t2t_repro.text.characters import visible
from t2t_repro.text.in_graph import is_word
from t2t_repro.text.marian import MarianFile, MarianSubwords
from t2t_repro.text.t2t import RESERVED, T2TSubwords
from t2t_repro.vocabulary import EOS_ID, NO_WORD
from tests.decoding.random_translator import ODD_LINES
from tests.text.marian_directory import CODES, SOURCE_TEXT, TARGET_TEXT, train, write_marian_text
from tests.text.odd_text import ENDS, HOSTILE, WORDS, any_text, hypothetical
from tests.text.test_t2t import ESCAPES, VOCABULARY, write

# Letters that occur within subwords only: T2T itself could not spell "q" or "ab" alone.
WITHOUT_LETTERS = [*RESERVED, *ESCAPES, "qu", "abc", "a_", "bc_", "ß ß_", "", "a_b"]
LINES = [
    *(*ODD_LINES, *SOURCE_TEXT, *TARGET_TEXT, *HOSTILE, " ".join(WORDS)),
    *(f"{end}a {end} tree{end} {end}" for end in ENDS),
    *(f"{odd}{word}" for odd in HOSTILE for word in ("", " ", " the man", "Männer")),
    *("don\u00b4t why\u00b4s", "a \x01 b", "a\u2581b \u2581 c", "\u00a8 \u00a8", "\x01"),
    *(">>fra<<>>deu<<", ">>fra<< >>deu<<  the man", ">>deu<< >>x<< a", "\u200b\x850"),
    *("a\\b_c \\\\ \\u \\8364; €", "a 's . n't ' ? a", "☃" * 3000, " ".join("abc" * 500)),
]
KINDS = ["plain", "ending", "marian, two vocabularies, clean spaces", "t2t", "t2t, no letters"]
KINDS += [f"marian's {kind}" for kind in ("pieces", "sentencepiece", "words", "languages")]


SPECIAL = {"<pad>", "</s>", "<unk>"}


def pieces_of(model):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(number) for number in range(len(processor))]


@pytest.fixture(scope="module", params=KINDS)
def subwords(request, models, tmp_path_factory):
    """A subword model of each kind."""
    if request.param in models:
        return models[request.param]
    folder = tmp_path_factory.mktemp("subwords")
    if "t2t" in request.param:
        pieces = WITHOUT_LETTERS if "," in request.param else VOCABULARY
        return T2TSubwords(write(folder / "vocab", pieces))
    if "'s " in request.param:
        kind = request.param.split()[-1]
        model = b"" if kind == "words" else train(TARGET_TEXT)
        words = " ".join(TARGET_TEXT).split() if kind == "words" else pieces_of(model)
        pieces = ["<pad>", "</s>", "<unk>", *sorted({*words, *CODES} - SPECIAL)]
        kinds = {"languages": CODES[1:]} if kind == "languages" else {"kind": kind}
        (folder / "made.model").write_bytes(MarianFile(model, pieces, **kinds).content())
        return MarianSubwords(folder / "made.model")
    two = "two" in request.param
    theirs = write_marian_text(folder / "theirs", two, clean_up_tokenization_spaces=two)
    return read_marian_text(theirs).write(folder).target


@pytest.fixture(scope="module")
def text_ops(subwords):
    return subwords.in_graph()


def in_graph(text_ops, texts):
    """The ids of every text with EOS, as a translator asks for them: none of a blank text."""
    ids, is_blank = text_ops.encode(tf.constant(texts, tf.string))
    rows = zip(ids.to_list(), is_blank.numpy().tolist(), strict=True)
    return [[] if blank else [*row, EOS_ID] for row, blank in rows]


def in_python(subwords, texts):
    pairs = zip(texts, subwords.encode([text.strip() for text in texts]), strict=True)
    return [[] if not visible(text.strip()) or ids == [EOS_ID] else ids for text, ids in pairs]


def texts_of(strings):
    return [text.decode() for text in strings.numpy()]


def padded(rows):
    return tf.ragged.constant(rows, dtype=tf.int32).to_tensor()


def test_ids_of_odd_lines_are_equal(text_ops, subwords, random_lines):
    lines = [*LINES, *random_lines]
    assert in_graph(text_ops, lines) == in_python(subwords, lines)


@settings(hypothetical, max_examples=20)
@given(texts=st.lists(st.lists(any_text | st.sampled_from(ENDS), max_size=3).map("".join)))
def test_ids_of_any_text_are_equal(text_ops, subwords, texts):
    assert in_graph(text_ops, texts) == in_python(subwords, texts)


def test_texts_of_any_ids_are_equal(text_ops, subwords):
    generator = random.Random(2)
    rows = subwords.encode(LINES)
    # Lone bytes are not UTF-8; ids outside the vocabulary, PAD and EOS may occur.
    for largest in (20, 260, subwords.size + 9):
        rows += [generator.choices(range(-1, largest), k=9) for _ in range(100)]
    texts = [subwords.decode(row) for row in rows]
    assert texts_of(text_ops.decode(padded(rows))) == texts
    assert "\ufffd" not in "".join(texts)


@pytest.mark.parametrize(
    "text", ["\ufeffein Mann \u200b", "e\u00adin M\ufeffa\u200bn\u2060n\u00ad", "e\u200ein Mann"]
)
def test_invisible_characters_change_no_ids_but_joiners_do(text_ops, subwords, text):
    (expected,) = subwords.encode(["ein Mann"])
    assert in_python(subwords, [text]) == in_graph(text_ops, [text]) == [expected]
    assert subwords.encode_block([text])[0].tolist() == expected
    assert subwords.word_numbers(text, expected) == subwords.word_numbers("ein Mann", expected)
    for joiner in "\u200c\u200d":
        assert in_graph(text_ops, [f"ein Ma{joiner}nn"]) != [expected]


@pytest.mark.parametrize("name", ["plain", "ending"])
def test_bytes_of_no_character_are_left_out(models, name):
    model = models[name]
    ids = {piece: number for number, piece in enumerate(model.pieces())}
    byte, mark = ids["<0xC3>"], ids["\u2581"]
    man, stray = model.encode(["Mann"])[0][:-1], [byte, mark] if name == "ending" else [mark, byte]
    rows = [[byte, *man, byte], [*stray, *man], [*man, *stray], [*man, *stray * 2, *man]]
    found = texts_of(model.in_graph().decode(padded(rows)))
    assert found == ["Mann", "Mann", "Mann", "Mann Mann"]


def test_word_numbers_are_equal(text_ops, subwords):
    if isinstance(subwords, T2TSubwords):
        pytest.skip("T2T's words are not numbered in a graph")
    lines = [line for line in LINES if line.strip()]
    rows = subwords.encode(lines)
    generator = random.Random(3)
    # Ids of another text: their words are the last at most.
    rows += [generator.choices(range(1, subwords.size), k=8) for _ in range(100)]
    lines += generator.choices(lines, k=100)
    numbers = text_ops.word_numbers(tf.constant(lines), padded(rows)).numpy()
    for of_row, line, row in zip(numbers, lines, rows, strict=True):
        assert of_row[: len(row)].tolist() == subwords.word_numbers(line, row)
        assert (of_row[len(row) :] == NO_WORD).all()


def test_no_text_at_all(text_ops):
    ids, is_blank = text_ops.encode(tf.constant([], tf.string))
    assert ids.to_list() == is_blank.numpy().tolist() == []
    assert texts_of(text_ops.decode(tf.zeros([0, 3], tf.int32))) == []
    assert texts_of(text_ops.decode(tf.zeros([2, 0], tf.int32))) == ["", ""]


def test_blank_and_word_mean_what_they_mean_to_python(models):
    characters = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    text_ops = models["plain"].in_graph()
    blank = [character for character in characters if not character.strip()]
    assert text_ops.encode(tf.constant(blank))[1].numpy().all()
    assert not text_ops.encode(tf.constant([f"a{c}" for c in characters[::97]]))[1].numpy().any()
    codes = range(sys.maxunicode + 1)
    assert is_word(tf.range(len(codes))).numpy().tolist() == [chr(c).isalnum() for c in codes]


@pytest.mark.parametrize(
    ("escape", "text"),
    [
        *(("\\8364;", "€"), ("\\;", "\\;"), ("\\1114112;", "\u3013"), ("\\55296;", "\u3013")),
        *(("\\u65;", "_65;"), ("\\\\65;", "\\65;"), (f"\\{'1' * 30};", "\u3013")),
    ],
)
def test_escapes_of_t2t_are_undone(tmp_path, escape, text):
    subwords = T2TSubwords(write(tmp_path / "vocab", VOCABULARY))
    ids = [subwords.pieces().index(character) for character in f"{escape}_"]
    assert subwords.decode(ids) == text
    assert texts_of(subwords.in_graph().decode(tf.constant([ids]))) == [text]


def test_one_long_text_among_many(tmp_path):
    """A mask of all texts by all characters would have 4 GB."""
    subwords = T2TSubwords(write(tmp_path / "vocab", VOCABULARY))
    lines = [*("the fox" for _ in range(20_000)), "xab_" * 50_000]
    ids, _ = subwords.in_graph().encode(tf.constant(lines))
    few = subwords.encode([lines[0], lines[-1]])
    assert [ids[0].numpy().tolist(), ids[-1].numpy().tolist()] == [few[0][:-1], few[1][:-1]]
