"""Marian's text, compared with what `MarianTokenizer` does, written down plainly from its files."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from t2t_repro.errors import UserError
from t2t_repro.formats.hugging_face.tokenizer import read_marian_text
from t2t_repro.text.characters import visible
from t2t_repro.text.marian import MarianFile, MarianSubwords
from t2t_repro.text.subword_model import open_subwords
from t2t_repro.vocabulary import EOS_ID, NO_WORD, PAD_ID, UNK_ID
from tests.marian_formulas import MarianTokenizer
from tests.text.marian_directory import CODES, train, write_marian_text
from tests.text.odd_text import any_text, hypothetical


@pytest.fixture(scope="module", params=[False, True], ids=["one vocabulary", "two vocabularies"])
def made(request, tmp_path_factory):
    """Of each side: ours, which ids of theirs these are, the reference, the side."""
    folder = tmp_path_factory.mktemp("marian")
    theirs = write_marian_text(folder / "theirs", request.param)
    text = read_marian_text(theirs)
    (folder / "ours").mkdir()
    pair, reference = text.write(folder / "ours"), MarianTokenizer(theirs)
    sides = "source", "target"
    return [(getattr(pair, side), getattr(text, side).ids, reference, side) for side in sides]


@hypothetical
@given(any_text)
@example("")
@example(">>fra<< the man")
@example(">>fra<<Männer")
@example(" >>fra<< the man")
@example(">> a\nb << man")
@example("ÄÖÜ ☃☃ z")
@example("</s><pad><unk>")
def test_ids_are_theirs(made, line):
    line = visible(line.encode("utf-8", "replace").decode())
    for ours, ids, reference, side in made:
        assert ids[ours.encode([line])[0]].tolist() == reference.encode(line, side)


@hypothetical
@given(st.data())
def test_texts_are_theirs(made, data):
    for ours, ids, reference, side in made:
        numbers = st.integers(0, ours.size - 1).filter(lambda number: number != EOS_ID)
        tokens = data.draw(st.lists(numbers, max_size=12))
        expected = reference.decode(ids[tokens].tolist(), side)
        assert ours.decode([*tokens, EOS_ID, ours.size - 1]) == expected
        assert ours.decode([*tokens, ours.size + 5, -3, UNK_ID]) == expected


def test_text_never_becomes_a_special_id_but_unk(tmp_path):
    """Where letters are unknown, what is written as PAD is, is one piece."""
    path = tmp_path / "subwords.model"
    pieces = ["<pad>", "</s>", "<unk>", "\u2581", "1", "2", ">></s><<"]
    path.write_bytes(MarianFile(train(["1 2 12 21"] * 9, 12), pieces, False).content())
    subwords = MarianSubwords(path)
    assert subwords.sentencepiece() == subwords.content.model
    found = subwords.encode(["<pad>", "</s>", "1 <pad> 2 </s>", "<unk>", ">></s><< <pad>"])
    assert found[0] == found[1] == found[3] == [3, UNK_ID, EOS_ID]
    assert found[2] == [UNK_ID, 3, UNK_ID, UNK_ID, 3, UNK_ID, EOS_ID]
    assert found[4] == [6, 3, UNK_ID, EOS_ID]


def test_words_and_labels(made):
    source, target = made[0][0], made[1][0]
    line = ">>deu<< Zwei junge Männer"
    (ids,) = target.encode([line])
    numbers = target.word_numbers(line, [*ids, PAD_ID])
    assert [*dict.fromkeys(numbers)] == [0, 1, 2, 3, NO_WORD]
    labels = target.labels([*ids, PAD_ID])
    assert (labels[0], labels[-2:]) == (">>deu<<", ["<EOS>", "<pad>"])
    text = "".join(" " * (not one.startswith("##")) + one.removeprefix("##") for one in labels)
    assert text.replace("\u2581", "") == " >>deu<< Zwei junge Männer <EOS> <pad>"
    for ours in (source, target):
        begins = [piece.startswith(("\u2581", ">>")) for piece in ours.pieces()]
        assert ours.word_marks == (begins, False)


def test_spaces_before_punctuation_go_where_the_configuration_says_so(tmp_path):
    texts = []
    for clean in (False, True):
        folder = write_marian_text(tmp_path / str(clean), clean_up_tokenization_spaces=clean)
        subwords = read_marian_text(folder).write(tmp_path / str(clean)).source
        (ids,) = subwords.encode(["the dog 's , a fox ' s . man n't is"])
        texts.append(subwords.decode(ids))
    assert texts == ["the dog 's , a fox ' s . man n't is", "the dog's, a fox's. mann't is"]


def test_language_codes_are_the_symbols_that_there_can_be(made):
    _, target = made[0][0], made[1][0]
    assert target.with_symbols(CODES[:2]) == target.model_path.read_bytes()
    for symbol in (">>pol<<", "<2de>", "\u2581"):
        with pytest.raises(UserError, match=f"no language code {symbol}, .* expected one of >>fra"):
            target.with_symbols([CODES[0], symbol])


def test_a_file_that_is_damaged_or_was_imported_with_punctuation_is_refused(made, tmp_path):
    content = json.loads(made[0][0].content.content()) | {"punctuation": "moses:en"}
    path = tmp_path / "subwords.model"
    whole = json.dumps(content, separators=(",", ":"))
    for text in (whole, whole[:999], whole.replace("==", "="), '{"marian":1}'):
        path.write_text(text)
        with pytest.raises(UserError, match=r"import (the model|it) again"):
            open_subwords(path)
