"""Which kind of subword model a file holds, and which files a directory has."""

import itertools

import pytest

from t2t_repro.errors import UserError
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.subword_model import (
    SHARED_SUBWORDS,
    SOURCE_SUBWORDS,
    TARGET_SUBWORDS,
    check_subword_files,
    open_pair,
    open_subwords,
    shared,
)
from t2t_repro.text.t2t import T2TSubwords
from t2t_repro.text.training import SubwordTraining

SUBWORDS = ["<pad>_", "<EOS>_", *"\\_u;0123456789abc"]


@pytest.mark.parametrize("quote", ["'", '"', ""])
def test_a_vocabulary_of_t2t(tmp_path, quote):
    path = tmp_path / "subwords.model"
    path.write_text("".join(f"{quote}{subword}{quote}\n" for subword in SUBWORDS))
    model = open_subwords(path)
    assert isinstance(model, T2TSubwords)
    assert (model.size, model.model_path) == (len(SUBWORDS), path)


def test_a_model_of_sentencepiece(tmp_path):
    path = tmp_path / "subwords.model"
    SubwordTraining(vocab_size=270).train(["a b c d e f g"] * 9, path)
    model = open_subwords(path)
    assert isinstance(model, SentencePieceModel)
    assert (model.size, model.model_path) == (270, path)


def test_neither(tmp_path):
    with pytest.raises(UserError, match="no subword model at"):
        open_subwords(tmp_path / "subwords.model")
    (tmp_path / "subwords.model").write_text("<pad>\n<EOS>\n")
    with pytest.raises(UserError, match="not a SentencePiece model"):
        open_subwords(tmp_path / "subwords.model")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A pair of vocabularies, and one that is shared."""
    folder = tmp_path_factory.mktemp("models")
    for name, text in ((SOURCE_SUBWORDS, "a b c d e f g"), (TARGET_SUBWORDS, "h i j k l m n")):
        SubwordTraining(vocab_size=270).train([text] * 9, folder / name)
    pair = open_pair(folder)
    return pair, shared(pair.target)


def test_what_a_pair_s_files_are_is_opened_again(models, tmp_path):
    for pair in models:
        folder = tmp_path / str(len(pair.files()))
        folder.mkdir()
        for name, content in pair.contents().items():
            (folder / name).write_bytes(content)
        again = open_pair(folder)
        assert again.contents() == pair.contents()
        assert (again.source is again.target) == (pair.source is pair.target)
        for one, other in zip(pair, again, strict=True):
            assert one.encode(["a k"]) == other.encode(["a k"])
    assert list(models[0].files()) == [SOURCE_SUBWORDS, TARGET_SUBWORDS]
    assert list(models[1].files()) == [SHARED_SUBWORDS]
    assert models[0].source.encode(["a k"]) != models[0].target.encode(["a k"])


def test_of_a_shared_vocabulary_everything_is_made_once(models):
    for pair, count in zip(models, (2, 1), strict=True):
        of_source, of_target = pair.each(lambda model: [model.size])
        assert len({id(of_source), id(of_target)}) == count


def test_a_directory_has_one_pair_s_files(tmp_path):
    names = [SHARED_SUBWORDS, SOURCE_SUBWORDS, TARGET_SUBWORDS]
    for number, there in enumerate(itertools.product([False, True], repeat=3)):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name in itertools.compress(names, there):
            (folder / name).touch()
        if there in ((True, False, False), (False, True, True)):
            check_subword_files(folder)
        else:
            with pytest.raises(UserError, match=r" has .*, expected subwords\.model, or "):
                check_subword_files(folder)
