"""From a tokenizer's files to ours: ids in our order, and settings that change text are refused."""

import json

import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.formats.hugging_face.tokenizer import read_marian_text
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
    assert text.target.file.pieces[-len(CODES) :] == CODES


def test_older_versions_name_special_tokens_in_files_of_their_own(tmp_path):
    folder = write_marian_text(tmp_path / "theirs", pad_token=None)
    special = {"pad_token": "<pad>", "eos_token": {"content": "</s>", "lstrip": False}}
    (folder / "special_tokens_map.json").write_text(json.dumps(special))
    (folder / "added_tokens.json").write_text(json.dumps({"</s>": 0}))
    assert read_marian_text(folder).source.file.pieces[:3] == ["<pad>", "</s>", "<unk>"]
    (folder / "added_tokens.json").write_text(json.dumps({"</s>": 0, "<new>": 999}))
    with pytest.raises(UserError, match="<new>"):
        read_marian_text(folder)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"tokenizer_class": "BartTokenizer"}, "tokenizer_class = 'BartTokenizer'"),
        ({"pad_token": "<blank>"}, "<blank>"),
        ({"added_tokens_decoder": {"5": "<x>"}}, "added_tokens_decoder"),
        ({"separate_vocabs": True}, "target_vocab.json"),
    ],
)
def test_what_changes_ids_is_refused_by_name(tmp_path, config, named):
    folder = write_marian_text(tmp_path / "theirs", **config)
    with pytest.raises(UserError, match=named):
        read_marian_text(folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("vocab.json", "[]"),
        ("source.spm", None),
        ("target.spm", "<html>"),
        ("special_tokens_map.json", "{"),
    ],
)
def test_a_damaged_or_missing_file_is_named(tmp_path, name, content):
    folder = write_marian_text(tmp_path / "theirs")
    (folder / name).unlink(missing_ok=True)
    if content is not None:
        (folder / name).write_text(content)
    with pytest.raises(UserError, match=rf"{name} cannot be used"):
        read_marian_text(folder)
