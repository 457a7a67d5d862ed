"""Subwords that are there already, taken as they are: of a shared vocabulary, of two, of T2T's."""

import json
import shutil

import pytest

from t2t_repro.data.cleaning import Cleaning
from t2t_repro.data.corpora.text_files import TextFilesCorpus
from t2t_repro.data.prepared import Preparation
from t2t_repro.errors import UserError
from t2t_repro.text.given import GivenSubwords
from t2t_repro.text.t2t import T2TSubwords
from t2t_repro.text.training import SubwordTraining
from tests.data.test_prepared import contents, corpus_of, pairs_of
from tests.text.test_t2t import VOCABULARY, write
from tests.token_stores import read_pair

LEARNED = SubwordTraining(vocab_size=300, character_coverage=1.0)


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """Directories with a vocabulary that is shared, and with two."""
    folder = tmp_path_factory.mktemp("there")
    corpus = corpus_of(folder, pairs_of(60, 1))
    one = Preparation(corpus, subwords=LEARNED).run(folder / "one")
    other = SubwordTraining(vocab_size=290, character_coverage=1.0)
    two = Preparation(corpus, subwords=LEARNED, source_subwords=other).run(folder / "two")
    return one.directory, two.directory


def given(directory, side=None):
    return GivenSubwords(str(directory), side)


def test_other_data_are_prepared_with_the_same_file_and_nothing_is_learned(
    there, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(SubwordTraining, "train", None)
    caplog.set_level("INFO", logger="absl")
    corpus = corpus_of(tmp_path, [("a quick brown fox", "ein Fuchs")] * 3)
    recipe = given(there[0])
    assert recipe.vocab_size == 300
    data = Preparation(corpus, subwords=recipe).run(tmp_path / "data")
    model = there[0] / "subwords.model"
    assert data.subwords.contents() == {"subwords.model": model.read_bytes()}
    ids, _ = read_pair(data.store("train"), 0)
    assert data.subwords.source.decode(ids) == "a quick brown fox"
    assert f"data: taking 300 subwords from {model}: subwords.model" in caplog.text
    assert "learning" not in caplog.text


def test_it_is_the_file_that_counts_not_where_it_lies(there, tmp_path):
    corpus = corpus_of(tmp_path, pairs_of(20, 5))
    made = Preparation(corpus, subwords=given(there[0])).run(tmp_path / "data").directory
    before = contents(made)
    shutil.copytree(there[0], tmp_path / "copy")
    again = Preparation(corpus, subwords=given(tmp_path / "copy")).run(tmp_path / "data")
    assert contents(again.directory) == before
    with pytest.raises(UserError, match=r"was made with subwords\.sha256 .* there, .* now: give"):
        Preparation(corpus, subwords=given(there[1], "source")).run(tmp_path / "data")


def test_data_whose_subwords_were_learned_serve_a_run_that_is_given_them(there):
    """As where a model is trained on with another optimizer: nothing is prepared twice."""
    corpus = corpus_of(there[0].parent.parent, pairs_of(60, 1))
    before = contents(there[0])
    for recipes, directory in (
        ({"subwords": given(there[0])}, there[0]),
        (
            {
                "subwords": given(there[1], "target"),
                "source_subwords": given(there[1], "source"),
            },
            there[1],
        ),
    ):
        made = Preparation(corpus, **recipes).run(directory.parent)
        assert made.directory == directory
    assert contents(there[0]) == before
    with pytest.raises(UserError, match=r"was made with source_subwords\.sha256"):
        Preparation(
            corpus, subwords=given(there[1], "target"), source_subwords=given(there[0])
        ).run(there[1].parent)


def test_each_side_takes_its_own_of_two(there, tmp_path):
    corpus = corpus_of(tmp_path, pairs_of(20, 5))
    recipes = given(there[1], "target"), given(there[1], "source")
    assert [recipe.vocab_size for recipe in recipes] == [300, 290]
    data = Preparation(corpus, subwords=recipes[0], source_subwords=recipes[1])
    made = data.run(tmp_path / "data").subwords.contents()
    assert made == {name: (there[1] / name).read_bytes() for name in made}
    assert len(made) == 2


def test_of_two_one_has_to_be_chosen(there):
    with pytest.raises(
        UserError, match=r"a vocabulary for the source and one .* GivenSubwords\.side = 'source'"
    ):
        _ = given(there[1]).vocab_size


@pytest.mark.parametrize("name", ["", "nowhere"])
def test_no_vocabulary_is_one_line(name, tmp_path):
    (tmp_path / "subwords.model").write_text("no model")
    message = "no subword model, expected" if name else "is not a SentencePiece model"
    with pytest.raises(UserError, match=message) as error:
        _ = given(tmp_path / name).vocab_size
    assert "\n" not in str(error.value)


def test_data_are_prepared_with_the_subwords_of_tensor2tensor(tmp_path):
    """Each line is stripped, as T2T strips it."""
    write(tmp_path / "subwords.model", VOCABULARY)
    pairs = [("  the cat  sat.", "cat the"), ("_odd_ \\ 🙂", "x y")]
    corpus = TextFilesCorpus(
        **{split: str(tmp_path / "all.tsv") for split in ("train", "dev", "test")}
    )
    (tmp_path / "all.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    rules = Cleaning(drop_held_out=False)
    data = Preparation(corpus, rules, given(tmp_path)).run(tmp_path / "data")
    vocabulary = T2TSubwords(tmp_path / "subwords.model")
    assert data.subwords.target.size == vocabulary.size
    store = data.store("train")
    for index, (source, target) in enumerate(pairs):
        expected = vocabulary.encode([source.strip(), target])
        assert list(read_pair(store, index)) == expected
    identity = json.loads((data.directory / "manifest.json").read_text())["identity"]
    assert list(identity["subwords"]) == ["sha256"]


def test_symbols_are_added_behind_what_is_there(there, tmp_path, caplog):
    caplog.set_level("INFO", logger="absl")
    recipe = GivenSubwords(str(there[0]), symbols=["<2de>"]).with_symbols(["<BT>", "<2de>"])
    before = given(there[0]).model
    made = recipe.train([], tmp_path / "subwords.model")
    assert recipe.vocab_size == made.size == before.size + 2
    assert made.pieces() == [*before.pieces(), "<2de>", "<BT>"]
    lines = ["red house 12", "Straße", "<2x> <"]
    assert made.encode(lines) == before.encode(lines)
    (ids,) = made.encode(["<BT> red<2de>house"])
    assert [made.pieces()[token] for token in ids if token >= before.size] == ["<BT>", "<2de>"]
    assert made.decode(ids) == "<BT> red<2de>house"
    assert ", adding <2de>, <BT>: subwords.model" in caplog.text
    # A vocabulary that has them all is taken as it is.
    again = GivenSubwords(str(tmp_path), symbols=["<BT>"])
    assert again.content == made.model_path.read_bytes()
    assert recipe.describe() == again.describe() != given(there[0]).describe()


def test_a_piece_that_is_a_symbol_by_chance_keeps_its_id(tmp_path):
    recipe = SubwordTraining(vocab_size=280, character_coverage=1.0, split_scripts=False)
    learned = recipe.train(["x<ab>"] * 50 + ["<ab>", "cd"], tmp_path / "subwords.model")
    (piece,) = [one for one in learned.pieces() if one == "<ab>"]
    made = GivenSubwords(str(tmp_path), symbols=[piece]).train([], tmp_path / "new.model")
    assert made.pieces() == learned.pieces()
    for line in ("<ab>", "c<ab>d"):
        assert made.pieces().index(piece) in made.encode([line])[0]


def test_t2t_s_vocabulary_has_no_room_for_symbols(tmp_path):
    write(tmp_path / "subwords.model", VOCABULARY)
    with pytest.raises(UserError, match="a vocabulary of Tensor2Tensor, to which symbols such as"):
        GivenSubwords(str(tmp_path), symbols=["<2de>"]).train([], tmp_path / "new.model")
