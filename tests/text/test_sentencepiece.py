"""SentencePiece's subwords: nothing is lost, and ids are those of SentencePiece itself."""

import numpy as np
import pytest
import sentencepiece
from hypothesis import given

from t2t_repro.errors import UserError
from t2t_repro.text import sentencepiece as sentencepiece_model
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.training import SubwordTraining
from t2t_repro.vocabulary import EOS_ID, NO_WORD, PAD_ID, UNK_ID
from tests.text.odd_text import TAGS, any_text, hypothetical, normalized, seen, sentences


def assert_as_sentencepiece(model, lines):
    """SentencePiece is given whole lines, and adds a lone mark where nothing is left of one."""
    whole = sentencepiece.SentencePieceProcessor(model_file=str(model.model_path))
    cleaned = [seen(line).encode("utf-8", errors="replace") for line in lines]
    expected = [
        [EOS_ID] if whole.id_to_piece(ids[:-1]) == ["▁"] and model.word_marks.at_end else ids
        for ids in whole.encode(cleaned, add_eos=True)
    ]
    assert model.encode(lines) == expected


@hypothetical
@given(text=any_text)
def test_any_text_comes_back_with_the_ids_of_sentencepiece(any_model, text):
    (ids,) = any_model.encode([text])
    assert ids[-1] == EOS_ID
    assert all(UNK_ID < token < any_model.size for token in ids[:-1])
    assert any_model.decode(ids) == normalized(any_model, text)
    assert_as_sentencepiece(any_model, [text])


def test_no_character_changes_what_is_beyond_a_space(subwords):
    # All below the thousands of Han and Hangul characters, and the compatibility forms after them.
    codes = [*range(0x3400), *range(0xF900, 0x10000)]
    assert_as_sentencepiece(subwords, [f"e {chr(code)} {chr(code)}e" for code in codes])


def test_a_lone_surrogate_counts_as_a_question_mark(subwords):
    assert subwords.decode(subwords.encode(["Hund \ud800"])[0]) == "Hund ?"


def test_symbols_are_one_subword_each_wherever_they_stand(models):
    tagged = models["tagged"]
    for line in ("<2de> der Hund", "<2de> [BT] Hund", "a⟨ﬁ½⟩b [BT]", "<2de>Hund<2de>"):
        (ids,) = tagged.encode([line])
        pieces = [tagged.pieces()[token] for token in ids]
        assert [pieces.count(tag) for tag in TAGS] == [line.count(tag) for tag in TAGS]
        # Not even what normalization would rewrite changes.
        assert tagged.decode(ids) == line
    (broken,) = tagged.encode(["<2d e> [B T]"])
    assert not {tagged.pieces()[token] for token in broken} & set(TAGS)


def test_the_cache_is_bounded_and_forgetting_changes_nothing(subwords, monkeypatch):
    monkeypatch.setattr(sentencepiece_model, "_MOST_WORDS", 5)
    monkeypatch.setattr(sentencepiece_model, "_LONGEST_WORD", 4)
    fresh = SentencePieceModel(subwords.model_path)
    lines = sentences(100, seed=1)
    assert fresh.encode(lines) == subwords.encode(lines)
    assert 0 < len(fresh._word_ids) <= 5
    assert max(map(len, fresh._word_ids)) <= 4


def test_decoding_reads_up_to_eos_and_takes_any_ids(subwords):
    (ids,) = subwords.encode(["der Hund schläft"])
    padded = [PAD_ID, *ids, *ids, PAD_ID]
    assert subwords.decode(np.array(padded, dtype=np.int32)) == "der Hund schläft"
    assert subwords.decode([]) == subwords.decode([EOS_ID, *ids]) == ""
    for outside in (UNK_ID, subwords.size, subwords.size + 10_000, -1):
        assert subwords.decode([*ids[:-1], outside]) == "der Hund schläft ⁇ "


def test_labels_are_what_a_reader_knows(tmp_path):
    lines = ["the red bird sees a tree"] * 9
    subwords = SubwordTraining(vocab_size=290).train(lines, tmp_path / "m")
    (ids,) = subwords.encode(["the redtree é q <s>"])
    labels = subwords.labels(ids)
    assert len(labels) == len(ids)
    assert labels[:2] == ["the", "red"]
    assert "".join(labels[1:]).startswith("red##t")
    assert labels[-1] == "<EOS>"
    # An unknown character is spelled in bytes.
    at = labels.index("<0xC3>")
    assert labels[at - 1 : at + 2] == ["\u2581", "<0xC3>", "<0xA9>"]
    assert subwords.labels([UNK_ID]) == ["<unk>"]


def test_a_word_and_the_end_of_a_compound_are_one_subword_with_marks_at_the_end(tmp_path):
    lines = ["der hund sieht einen schäferhund", "hundehütte und haushund"] * 9
    subwords = SubwordTraining(vocab_size=300, word_mark="end").train(lines, tmp_path / "model")
    texts = ["hund", "xhund hund", "hundx q"]
    ids, longer, other = subwords.encode(texts)
    assert len(ids) == 2
    assert longer.count(ids[0]) == 2
    assert ids[0] not in other
    assert subwords.labels(longer) == ["<0x78>", "##hund", "hund", "<EOS>"]
    assert subwords.word_numbers(texts[1], longer) == [0, 0, 1, NO_WORD]
    assert subwords.word_numbers(texts[2], other)[-4:-1] == [0, 1, 1]
    assert subwords.labels(other)[-2:] == ["\u2581", "<EOS>"]


def test_a_model_with_other_ids_is_refused(tmp_path):
    path = tmp_path / "other.model"
    with path.open("wb") as file:
        given = {"sentence_iterator": iter(sentences()), "vocab_size": 60, "minloglevel": 2}
        sentencepiece.SentencePieceTrainer.train(**given, model_writer=file)
    with pytest.raises(UserError, match=r"at .-1, 2, 0, 1"):
        SentencePieceModel(path)


def test_a_file_that_is_missing_damaged_or_too_large_is_refused(tmp_path, subwords, monkeypatch):
    path = tmp_path / "some.model"
    for write in (str, path.write_text):
        write("garbage")
        with pytest.raises(UserError, match="some"):
            SentencePieceModel(path)
    monkeypatch.setattr(sentencepiece_model, "MAX_FILE_BYTES", 1000)
    with pytest.raises(UserError, match="plain"):
        SentencePieceModel(subwords.model_path)
