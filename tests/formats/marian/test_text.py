"""From a tokenizer's files to ours: ids in our order, and what we do not do is refused."""

import json

import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.formats.marian.text import read_marian_text
from t2t_repro.text.subword_model import matching_ids, open_pair
from t2t_repro.vocabulary import EOS_ID, PAD_ID, UNK_ID
from tests.text.marian_directory import CODES, write_marian_text


@pytest.mark.parametrize("separate", [False, True])
def test_special_ids_come_first_and_the_others_keep_their_order(tmp_path, separate):
    folder = write_marian_text(tmp_path / "theirs", separate)
    text = read_marian_text(folder)
    names = {"source": "vocab.json", "target": "target_vocab.json" if separate else "vocab.json"}
    for side, name in names.items():
        theirs = json.loads((folder / name).read_text())
        ours = getattr(text, side)
        assert [theirs[piece] for piece in ours.file.pieces] == ours.ids.tolist()
        assert sorted(ours.ids) == list(range(len(theirs)))
        assert [ours.file.pieces[i] for i in (PAD_ID, EOS_ID, UNK_ID)] == ["<pad>", "</s>", "<unk>"]
        assert (np.diff(ours.ids[3:]) > 0).all()
    assert text.shares_ids is not separate


def test_what_is_written_is_opened_as_a_pair_whose_ids_are_the_same(tmp_path):
    text = read_marian_text(write_marian_text(tmp_path / "theirs"))
    (tmp_path / "ours").mkdir()
    pair = text.write(tmp_path / "ours")
    opened = open_pair(tmp_path / "ours")
    assert opened.contents() == pair.contents()
    assert opened.source.pieces() == opened.target.pieces() == text.source.file.pieces
    assert opened.source.encode(["Männer"]) != opened.target.encode(["Männer"])
    assert matching_ids(*opened).tolist() == list(range(opened.source.size))


def test_older_versions_name_special_tokens_in_files_of_their_own(tmp_path):
    folder = write_marian_text(tmp_path / "theirs", pad_token=None)
    text = read_marian_text(folder)
    special = {"pad_token": "<pad>", "eos_token": {"content": "</s>", "lstrip": False}}
    (folder / "special_tokens_map.json").write_text(json.dumps(special))
    (folder / "added_tokens.json").write_text(json.dumps({"</s>": 0}))
    again = read_marian_text(folder)
    assert again.source.file.pieces[:3] == text.source.file.pieces[:3] == ["<pad>", "</s>", "<unk>"]
    (folder / "added_tokens.json").write_text(json.dumps({"</s>": 0, "<new>": 999}))
    with pytest.raises(UserError, match=r"has added_tokens_decoder = .*<new>.* is not supported"):
        read_marian_text(folder)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"tokenizer_class": "BartTokenizer"}, "is of a BartTokenizer, expected a MarianTokenizer"),
        (
            {"additional_special_tokens": ["<a>"]},
            "has additional_special_tokens = .* not supported",
        ),
        ({"sp_model_kwargs": {"enable_sampling": True}}, "has sp_model_kwargs = .* not supported"),
        (
            {"clean_up_tokenization_spaces": "yes"},
            "has clean_up_tokenization_spaces = 'yes', which",
        ),
        ({"pad_token": "<blank>"}, "vocab.json has no <blank>; expected an id for each of <blank>"),
        ({"pad_token": "</s>"}, r"calls PAD, EOS and UNK \['</s>', '</s>', '<unk>'\], expected"),
        ({"eos_token": [1]}, "expected three texts"),
        *(
            ({"model_max_length": n}, "has model_max_length = .*, expected how many subwords")
            for n in (0, True, "64", float("nan"))
        ),
        ({"added_tokens_decoder": {"5": "<x>"}}, "has added_tokens_decoder = .* not supported"),
        ({"added_tokens_decoder": [5]}, "has added_tokens_decoder = .* not supported"),
        ({"separate_vocabs": True}, r"target_vocab.json cannot be used \(no such file\)"),
    ],
)
def test_what_we_do_not_do_is_refused_by_name(tmp_path, config, message):
    folder = write_marian_text(tmp_path / "theirs")
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    with pytest.raises(UserError, match=message):
        read_marian_text(folder)


@pytest.mark.parametrize(("given", "longest"), [(None, None), (64, 64), (10**30, 10**30)])
def test_how_long_a_sentence_may_be(tmp_path, given, longest):
    config = {} if given is None else {"model_max_length": given}
    assert read_marian_text(write_marian_text(tmp_path / "theirs", **config)).max_length == longest


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.json", "[]", "no table"),
        (
            "vocab.json",
            '{"</s>": 0, "<unk>": 1, "<pad>": 3}',
            "its 3 ids are not 0 to 2, each",
        ),
        (
            "vocab.json",
            '{"</s>": 0, "<unk>": 1, "<pad>": 1}',
            "its 3 ids are not 0 to 2, each",
        ),
        ("vocab.json", '{"</s>": 0, "<unk>": true, "<pad>": 2}', "no whole number"),
        ("tokenizer_config.json", "{", "Expecting"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, name, content, message):
    folder = write_marian_text(tmp_path / "theirs")
    (folder / name).write_text(content)
    with pytest.raises(UserError, match=rf"{name} cannot be used \(.*{message}"):
        read_marian_text(folder)


@pytest.mark.parametrize(
    "name", ["source.spm", "target.spm", "vocab.json", "tokenizer_config.json"]
)
def test_a_missing_file_is_named(tmp_path, name):
    folder = write_marian_text(tmp_path / "theirs")
    (folder / name).unlink()
    with pytest.raises(UserError, match=rf"{name} cannot be used \(no such file\); expected what"):
        read_marian_text(folder)


def test_language_codes_are_pieces_like_others(tmp_path):
    text = read_marian_text(write_marian_text(tmp_path / "theirs", separate=True))
    assert text.target.file.pieces[-len(CODES) :] == CODES
