"""Files of subword models: their kind, and their pairs."""

import pytest

from t2t_repro.errors import UserError
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.subword_model import (
    SHARED_SUBWORDS,
    SOURCE_SUBWORDS,
    TARGET_SUBWORDS,
    SubwordPair,
    open_pair,
    open_subwords,
    shared,
)
from t2t_repro.text.t2t import T2TSubwords
from tests.text.test_t2t import VOCABULARY, write


def test_the_file_says_which_kind_it_is(tmp_path, subwords):
    for quote in ("'", '"', ""):
        assert isinstance(open_subwords(write(tmp_path / "v", VOCABULARY, quote)), T2TSubwords)
    assert isinstance(open_subwords(subwords.model_path), SentencePieceModel)
    (tmp_path / "v").write_text("<pad>\n<EOS>\n")
    with pytest.raises(UserError, match="not a SentencePiece model"):
        open_subwords(tmp_path / "v")


def test_a_pair_is_opened_from_its_files(models, tmp_path):
    for pair in (shared(models["plain"]), SubwordPair(models["plain"], models["tagged"])):
        folder = tmp_path / str(len(pair.files()))
        folder.mkdir()
        for name, content in pair.contents().items():
            (folder / name).write_bytes(content)
        again = open_pair(folder)
        assert again.checksum() == pair.checksum()
        assert (again.source is again.target) == (pair.source is pair.target)
        assert [one.size for one in again] == [one.size for one in pair]
        # What is shared is made once.
        made = again.each(lambda model: [model.size])
        assert (made[0] is made[1]) == (pair.source is pair.target)


@pytest.mark.parametrize("names", [[], [SOURCE_SUBWORDS], [SHARED_SUBWORDS, TARGET_SUBWORDS]])
def test_a_directory_has_the_files_of_one_pair(tmp_path, subwords, names):
    for name in names:
        (tmp_path / name).write_bytes(subwords.sentencepiece())
    with pytest.raises(UserError, match=str(tmp_path)):
        open_pair(tmp_path)
