"""T2T's subwords: its documented behaviour in closed cases, and a plain reference for the rest."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_repro.errors import UserError
from t2t_repro.text.characters import visible
from t2t_repro.text.t2t import RESERVED, T2TSubwords, text_of, tokens_of
from t2t_repro.vocabulary import EOS_ID, NO_WORD, PAD_ID
from tests.text.odd_text import any_text, hypothetical

ESCAPES = list("\\_u;0123456789")
LETTERS = list("abcdefghijklmnopqrstvwxyz .,'\"ß<>EOS\u2028")
WORDS = [
    *("the_", "the", "th", "he_", "quick_", "qui", "ck", "ck_", "fox_", "ox", "straße_", "str"),
    *("aße", ". _", ", _", " _", "  _", "'_", '"_', "\\u", "\\\\", "\\8", "64;", "3_"),
]
VOCABULARY = [*RESERVED, *WORDS, *ESCAPES, *LETTERS]


def write(path, subwords, quote="'"):
    path.write_bytes("".join(f"{quote}{s}{quote}\n" for s in subwords).encode())
    return path


@pytest.fixture(scope="module")
def subwords(tmp_path_factory):
    return T2TSubwords(write(tmp_path_factory.mktemp("t2t") / "vocab.subwords", VOCABULARY))


def pieces(model, line):
    (ids,) = model.encode([line])
    assert ids[-1] == EOS_ID
    return [VOCABULARY[i] for i in ids[:-1]]


# The reference: the definition, character by character


def is_word(character):
    return unicodedata.category(character)[0] in "LN"


def reference_tokens(line):
    tokens: list[str] = []
    for i, character in enumerate(line):
        if i and is_word(character) == is_word(line[i - 1]):
            tokens[-1] += character
        else:
            tokens.append(character)
    last = len(tokens) - 1
    return [token for i, token in enumerate(tokens) if token != " " or i in (0, last)]


def reference_encode(vocabulary, line):
    known = set("".join(vocabulary)) | set(ESCAPES)
    longest_first = sorted(filter(None, vocabulary), key=len, reverse=True)
    found = []
    for token in reference_tokens(line):
        rest = "".join(
            {"\\": "\\\\", "_": "\\u"}.get(c) or (c if c in known else f"\\{ord(c)};")
            for c in token
        )
        rest += "_"
        while rest:
            best = next(subword for subword in longest_first if rest.startswith(subword))
            found.append(best)
            rest = rest[len(best) :]
    return found


some_text = any_text | st.lists(
    st.sampled_from([*WORDS, *"\\_;u09ß .,'\"\n\t€日", "the quick", "  ", " \u2028", "\u0301"])
).map("".join)


@hypothetical
@given(line=some_text)
def test_any_text_comes_back_and_has_the_reference_s_subwords(subwords, line):
    line = visible(line)
    (ids,) = subwords.encode([line])
    assert all(EOS_ID < i < subwords.size for i in ids[:-1])
    assert subwords.decode(ids) == line
    assert tokens_of(line) == reference_tokens(line)
    assert text_of(tokens_of(line)) == line
    assert pieces(subwords, line) == reference_encode(VOCABULARY, line)


# What T2T documents


def test_decoding_reads_up_to_eos(subwords):
    (ids,) = subwords.encode(["the fox"])
    assert subwords.decode([PAD_ID, *ids, *ids]) == "the fox"
    assert subwords.decode([*ids[:-1], subwords.size, -1, subwords.size + 10**6]) == "the fox"
    assert subwords.decode([]) == subwords.decode([EOS_ID, *ids]) == ""


@pytest.mark.parametrize(
    ("subword_texts", "text"),
    [
        (["the", "fox_"], "thefox"),
        (["the_", "ox"], "the ox"),  # The end of the last token may be missing.
        (["_", "_", "the_", "_"], "the"),
        (["\\", "1", "_"], "\\1"),
    ],
)
def test_decoding_what_no_text_encodes_to(subwords, subword_texts, text):
    assert subwords.decode([VOCABULARY.index(s) for s in subword_texts]) == text


def test_a_subword_is_of_the_word_that_it_ends_in(subwords):
    ids = [*map(VOCABULARY.index, ("qui", "ck_", "fox_")), EOS_ID, PAD_ID]
    assert subwords.word_numbers("", ids) == [0, 0, 1, NO_WORD, NO_WORD]


# Files


def test_lines_as_t2t_reads_them(tmp_path):
    path = tmp_path / "v"
    lines = ["'<pad>_'", "'<EOS>_'", *ESCAPES, "", "'a'  ", "'b'\r", "'b", "'", "'b'", '"c d"']
    path.write_text("\n".join(lines), newline="")
    model = T2TSubwords(path)
    first = 2 + len(ESCAPES)
    assert model.size == first + 7
    assert [model.decode([first + i]) for i in range(7)] == ["", "a", "b", "'b", "", "b", "c d"]
    # Of two equal subwords, the last is used.
    assert model.encode(["b"])[0][0] == first + 5


def test_a_character_that_does_not_stand_alone_is_spelled(tmp_path):
    model = T2TSubwords(write(tmp_path / "v", [*RESERVED, *ESCAPES, "ab", "a"]))
    for line in ("ab", "b", "ba", "<pad>"):
        assert model.decode(model.encode([line])[0]) == line
    assert model.encode(["ab"])[0] == [16, 3, EOS_ID]
    assert model.encode(["b"])[0] == [2, *(6 + int(d) for d in "98"), 5, 3, EOS_ID]


@pytest.mark.parametrize("content", [None, b"<pad>\n<EOS>\nthe\n", b"'<pad>_'\n\xff\n"])
def test_a_file_that_cannot_be_used_is_one_line(tmp_path, content):
    path = tmp_path / "vocab"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=str(path)) as error:
        T2TSubwords(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("theck box 3", ["the", "##ck", "b", "##ox", "##_", "3"]),
        # An underscore of the text is a token, which its end follows.
        ("a_b", ["a", "##_", "_", "##_", "b", "##_"]),
        # An escape that lies in several subwords cannot be taken back in any of them.
        ("quick€", ["quick", "\\8", "##3", "##64;", "##_"]),
    ],
)
def test_subwords_are_named_as_a_reader_knows_them(subwords, line, expected):
    (ids,) = subwords.encode([line])
    assert subwords.labels(ids) == [*expected, "<EOS>"]
