"""An existing vocabulary: the file as it is, and symbols added to it."""

import shutil

import pytest

from t2t_repro.errors import UserError
from t2t_repro.text.subword_model import SHARED_SUBWORDS, SOURCE_SUBWORDS, TARGET_SUBWORDS
from t2t_repro.text.training import ExistingSubwords, SubwordRecipes, SubwordTraining
from tests.text.test_t2t import VOCABULARY, write


@pytest.fixture
def directory(tmp_path, subwords):
    """Of a vocabulary that source and target share."""
    shutil.copy(subwords.model_path, tmp_path / "subwords.model")
    return str(tmp_path)


def test_the_file_is_taken_as_it_is_wherever_it_lies(directory, subwords, tmp_path):
    recipe = ExistingSubwords(directory)
    assert recipe.vocab_size == subwords.size
    assert recipe.pieces() == subwords.pieces()
    made = recipe.train([], tmp_path / "copy" / "subwords.model")
    assert made.sentencepiece() == subwords.sentencepiece()
    assert ExistingSubwords(str(tmp_path / "copy")).describe() == recipe.describe()


def test_of_two_one_is_chosen(models, tmp_path):
    for name, model in ((SOURCE_SUBWORDS, "plain"), (TARGET_SUBWORDS, "tagged")):
        (tmp_path / name).write_bytes(models[model].sentencepiece())
    assert ExistingSubwords(str(tmp_path), "source").content == models["plain"].sentencepiece()
    assert ExistingSubwords(str(tmp_path), "target").content == models["tagged"].sentencepiece()
    with pytest.raises(UserError, match=r"ExistingSubwords\.side"):
        _ = ExistingSubwords(str(tmp_path)).vocab_size


def test_symbols_are_added_after_the_last_id(directory, subwords, tmp_path):
    recipe = ExistingSubwords(directory, symbols=["<2de>", "<2de>", "<BT>"])
    made = recipe.train([], tmp_path / "more" / "subwords.model")
    assert made.pieces() == recipe.pieces() == [*subwords.pieces(), "<2de>", "<BT>"]
    lines = ["red house 12", "Straße", "<2x> <"]
    assert made.encode(lines) == subwords.encode(lines)
    (ids,) = made.encode(["<BT> red<2de>house"])
    assert [made.pieces()[token] for token in ids if token >= subwords.size] == ["<BT>", "<2de>"]
    assert made.decode(ids) == "<BT> red<2de>house"
    # A vocabulary that has them all stays as it is.
    again = ExistingSubwords(str(tmp_path / "more"), symbols=["<BT>"])
    assert again.content == made.sentencepiece()
    assert recipe.describe() == again.describe() != ExistingSubwords(directory).describe()


def test_t2t_s_vocabulary_is_taken_but_has_no_room_for_symbols(tmp_path):
    write(tmp_path / "subwords.model", VOCABULARY)
    assert ExistingSubwords(str(tmp_path)).pieces() == VOCABULARY
    with pytest.raises(UserError, match="<2de>"):
        _ = ExistingSubwords(str(tmp_path), symbols=["<2de>"]).content


def test_sides_of_equal_pieces_have_the_same_ids(directory):
    shared, learned = ExistingSubwords(directory), SubwordTraining()
    more = ExistingSubwords(directory, symbols=["<2de>"])
    for same in (shared, ExistingSubwords(directory)):
        assert not SubwordRecipes(shared, same).has_own_source_ids
    for pair in ((shared, more), (shared, learned), (learned, SubwordTraining())):
        assert SubwordRecipes(*pair).has_own_source_ids
    assert SubwordRecipes(shared, shared).files() == {SHARED_SUBWORDS: (shared, (0, 1))}
    files = {SOURCE_SUBWORDS: (shared, (0,)), TARGET_SUBWORDS: (more, (1,))}
    assert SubwordRecipes(shared, more).files() == files
