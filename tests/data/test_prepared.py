"""Prepared data as a reader finds them: mixtures by corpus, damage named, older forms read."""

import json
import shutil
from typing import Any

import numpy as np
import pytest

from t2t_repro.data.batch_shapes import BatchSettings
from t2t_repro.data.batches import Batches
from t2t_repro.data.cleaning import Cleaning
from t2t_repro.data.corpora import Mixture, TextFilesCorpus
from t2t_repro.data.preparation import Preparation
from t2t_repro.data.prepared import open_data
from t2t_repro.data.stages import prepare
from t2t_repro.errors import UserError
from t2t_repro.text.training import SubwordTraining
from tests.data.test_preparation import contents, pairs_of, write_pairs
from tests.token_stores import read_pair

SUBWORDS = SubwordTraining(vocab_size=310, character_coverage=1.0)
LONG, OTHER_LONG = ("red " * 80, "blue " * 80), ("tree " * 80, "bird " * 80)


def corpus_of(folder, name, train, dev=None, test=None):
    given = {"train": train, "dev": dev, "test": test}
    files = [
        pairs and write_pairs(folder, f"{name}.{split}", pairs) for split, pairs in given.items()
    ]
    return TextFilesCorpus(*files)


def mixture_of(folder, **others):
    """News has a duplicate and a pair that talks hold out; talks have a pair of news."""
    news, talks, held_out = pairs_of(60, 1), pairs_of(40, 5), pairs_of(7, 6)
    of_news = [*news, news[3], held_out[0], LONG]
    corpora = {
        "news": corpus_of(folder, "news", of_news, dev=[*pairs_of(5, 2), OTHER_LONG]),
        "talks": corpus_of(
            folder, "talks", [*talks, news[3], ("", "x")], dev=held_out, test=pairs_of(4, 7)
        ),
    }
    given: dict[str, Any] = {"tags": {"talks": "<talk>"}, "weights": {"news": 1, "talks": 3}}
    return Mixture(corpora, **(given | others))


def prepared(mixture, folder):
    return prepare(Preparation(mixture, Cleaning(), SUBWORDS, 64, workers=1), folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixture")
    mixture = mixture_of(folder)
    return mixture, prepared(mixture, folder / "data"), folder


def test_every_corpus_is_cleaned_by_itself_and_of_all_held_out_pairs(made):
    _, data, _ = made
    manifest = json.loads((data.directory / "manifest.json").read_text())
    assert manifest["corpora"]["train"] == {
        "news": {"kept": 60, "duplicate": 1, "held_out_overlap": 1, "over_long_subwords": 1},
        # The tag does not fill an empty source, and a pair of news is not a duplicate here.
        "talks": {"kept": 41, "empty_side": 1},
    }
    assert manifest["cleaning"]["train"]["kept"] == 101
    assert data.corpora("train") == {"news": range(60), "talks": range(60, 101)}
    assert list(data.corpora("test")) == ["talks"]


def test_the_part_of_a_corpus_is_read_by_name(made):
    _, data, _ = made
    source, target = data.text("dev.talks")
    assert list(zip(source, target, strict=True)) == [
        (f"<talk> {source}", target) for source, target in pairs_of(7, 6)
    ]
    # One of the news is too long for the token store.
    assert len(data.text("dev.news")[0]) == len(data.store("dev.news")) + 1 == 6
    store = data.store("dev.talks")
    assert len(store) == 7
    for number, line in enumerate(source):
        ids = read_pair(store, number)[0]
        assert data.subwords.source.decode(ids) == line
        assert "<talk>" in [data.subwords.source.pieces()[token] for token in ids]
    for open_split in (data.store, data.text):
        with pytest.raises(UserError, match=r"'test.news'.*dev.news"):
            open_split("test.news")


def test_other_weights_take_the_same_data_and_other_tags_do_not(made):
    _, data, folder = made
    before = contents(folder / "data")
    for others in ({"weights": {"news": 9, "talks": 1}}, {"weights": None, "temperature": 5.0}):
        assert prepared(mixture_of(folder, **others), folder / "data").checksum == data.checksum
    with pytest.raises(UserError, match=r"was made with corpus\.tags"):
        prepared(mixture_of(folder, tags={"news": "<talk>"}), folder / "data")
    assert contents(folder / "data") == before


def batches_of(mixture, data):
    mixed = Preparation(mixture, subwords=SUBWORDS).mixture(data, seed=3)
    return Batches(data.store("train"), BatchSettings(400), 3, 2, mixture=mixed)


def test_an_epoch_has_the_shares_of_the_weights(made):
    mixture, data, _ = made
    batches = batches_of(mixture, data)
    orders = [batches.plan(epoch).order.tolist() for epoch in range(3)]
    for order in orders:
        assert (len(order), sum(one < 60 for one in order)) == (101, 25)
    assert sorted(orders[0]) != sorted(orders[1])
    # The corpora are shuffled together.
    plan = batches.plan(2)
    mixed = [{int(one) < 60 for one in plan.sentences(batch)} for batch in range(len(plan))]
    assert sum(map(len, mixed)) > 1.5 * len(mixed)
    report = batches.report()
    store = data.store("train")
    assert report.source_tokens == store.source_lengths[orders[0]].sum()
    of_news = [one for one in orders[0] if one < 60]
    assert report.corpora["news"].sentences == 25
    assert report.corpora["news"].target_tokens == store.target_lengths[of_news].sum()
    seen = sum(np.count_nonzero(source) for source, *_ in batches.epoch(0, 0))
    assert seen == report.source_tokens


@pytest.fixture
def copied(made, tmp_path):
    shutil.copytree(made[1].directory, tmp_path / "prepared")
    return tmp_path / "prepared"


@pytest.mark.parametrize("how", ["cut", "missing"])
@pytest.mark.parametrize("name", ["train.tokens/target.tokens", "manifest.json"])
def test_a_damaged_file_is_named(copied, name, how):
    path = copied / name
    content = path.read_bytes()
    path.unlink()
    if how == "cut":
        path.write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match=f"{name} .*copy .* again, or delete it"):
        open_data(copied.parent)
