"""A treebank becomes a corpus: its files found, its order kept, its mistakes named."""

import json
import re
import shutil

import pytest

from t2t_repro.data.cleaning import Cleaning
from t2t_repro.data.preparation import Preparation
from t2t_repro.data.stages import prepare
from t2t_repro.errors import UserError
from t2t_repro.experiment import configure
from t2t_repro.parsing.treebank import TreebankCorpus
from t2t_repro.parsing.trees import delinearise
from t2t_repro.text.training import SubwordTraining
from tests.parsing.test_trees import TREEBANK

CLEANING = Cleaning(512, 100.0, drop_duplicates=False, drop_held_out=False)
SUBWORDS = SubwordTraining(500, normalization="identity", split_scripts=False)


def corpus(train="02", dev="22", test="23", folder=TREEBANK):
    return TreebankCorpus(train, dev, test, str(folder))


def pairs(bank, split="train"):
    return list(bank.read(split, None))


def test_sentences_are_pairs_of_words_and_symbols():
    found = pairs(corpus())
    assert len(found) == 42
    # The folder's files come in the order of their names.
    assert found[30] == (
        "The old gardener wanted to water the roses .",
        "S NP DT JJ NN /NP VP VBD S VP TO VP VB NP DT NNS /NP /VP /VP /S /VP . /S",
    )
    assert found[32] == (
        "`` It rains , '' Ada said .",
        "S `` S NP PRP /NP VP VBZ /VP /S , '' NP NNP /NP VP VBD /VP . /S",
    )


def test_files_patterns_and_folders_name_the_same(tmp_path):
    expected = pairs(corpus())
    for train in ("0?", ["02/made*", "02/odd_0201.mrg"], "**/*_02*", str(TREEBANK / "02")):
        assert pairs(corpus(train)) == expected
    assert pairs(corpus(["02/odd_0201.mrg", "02/made_0202.mrg"])) == expected[30:] + expected[:30]
    assert corpus(str(TREEBANK / "02")).describe() == corpus().describe()
    (tmp_path / "02").mkdir()
    (tmp_path / "02" / "README").write_text("no tree")
    with pytest.raises(UserError, match=r"TreebankCorpus\.train: no file of trees at .*02; .*mrg"):
        corpus(folder=tmp_path).prepare(tmp_path)


def test_an_existing_name_is_not_a_pattern(tmp_path):
    shutil.copytree(TREEBANK, tmp_path / "wsj[1]")
    for train, folder in (("wsj[1]/02", tmp_path), ("02", tmp_path / "wsj[1]")):
        assert pairs(corpus(train, train, train, folder)) == pairs(corpus())


def test_mistakes_are_named():
    assert corpus(test=None).splits == ("train", "dev")
    for value in (3, [3]):
        with pytest.raises(UserError, match=r"TreebankCorpus\.train is .*, expected"):
            corpus(value)
    for bad in ("nowhere", "nowhere*", ""):
        with pytest.raises(UserError, match=f"no file of trees at .*{re.escape(bad)}"):
            corpus(bad).prepare(TREEBANK)


def test_a_bad_tree_stops_before_anything_is_made(tmp_path):
    bad = tmp_path / "bad.mrg"
    bad.write_text("(S (NN a))\n(NP (NP a)\n (NN b))\n")
    for bank in (corpus(train=["02", str(bad)]), corpus(dev=str(bad))):
        with pytest.raises(UserError, match=r"bad\.mrg, line 2: NP is a constituent and"):
            prepare(Preparation(bank, CLEANING, SUBWORDS), tmp_path / "data")
        assert not (tmp_path / "data" / "prepared").exists()


def test_subwords_keep_the_symbols_whole_and_the_trees_exact(tmp_path):
    data = prepare(Preparation(corpus(), CLEANING, SUBWORDS), tmp_path)
    manifest = json.loads((data.directory / "manifest.json").read_text())
    assert {name: split["kept"] for name, split in manifest["cleaning"].items()} == {
        "train": 42,
        "dev": 6,
        "test": 6,
    }
    for split in data.splits:
        targets = data.text(split)[1]
        expected = [tree for _, line in pairs(corpus(), split) for tree in [delinearise(line)]]
        encoded = data.subwords.target.encode(targets)
        assert [delinearise(data.subwords.target.decode(ids)) for ids in encoded] == expected
    # A symbol is one id, but for what occurs once; and an odd word comes back too.
    symbols = "S NP DT NN /NP VP VBZ /VP . /S"
    assert len(data.subwords.target.encode([symbols])[0]) == len(symbols.split()) + 1
    odd = "-LRB- 1\\/2 `` 東京 … ﬁ"
    assert data.subwords.target.decode(data.subwords.target.encode([odd])[0]) == odd


def test_a_treebank_is_known_by_what_it_holds(tmp_path):
    copied = shutil.copytree(TREEBANK, tmp_path / "elsewhere")
    assert corpus(folder=copied).describe() == corpus().describe()
    (copied / "22" / "made_2200.mrg").write_text("(NN a)\n")
    assert corpus(folder=copied).describe() != corpus().describe()


def test_gin_binds_it_as_its_docstring_says():
    example = re.findall(r"TreebankCorpus\.\w+ = .*", TreebankCorpus.__doc__ or "")
    assert len(example) == 4
    configure(None, [*example, "prepare.corpus = @TreebankCorpus()"])
    assert TreebankCorpus().splits == ("train", "dev", "test")  # type: ignore[call-arg]
