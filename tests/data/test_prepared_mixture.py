"""Data of several corpora: each whole and in its place, tags outside of what cleaning judges."""

import contextlib
import itertools
import json
from typing import Any

import numpy as np
import pytest

from t2t_repro.data import clean_text
from t2t_repro.data.batches import Batches
from t2t_repro.data.block_files import BlockFiles
from t2t_repro.data.cleaning import Cleaning
from t2t_repro.data.corpora import Mixture, TextFilesCorpus
from t2t_repro.data.prepared import Preparation, PreparedData, mixing_of
from t2t_repro.errors import UserError
from t2t_repro.text.training import SubwordTraining
from tests.data.test_prepared import (
    APPEND,
    Killed,
    files_of,
    kill_at_write,
    pairs_of,
    write_pairs,
)
from tests.token_stores import read_pair

SUBWORDS = SubwordTraining(vocab_size=310, character_coverage=1.0)
LONG, OTHER_LONG = ("red " * 80, "blue " * 80), ("tree " * 80, "bird " * 80)


def corpus_of(folder, name, **splits):
    return TextFilesCorpus(
        **{split: write_pairs(folder, f"{name}.{split}", pairs) for split, pairs in splits.items()}
    )


def mixture_of(folder, **others):
    """News has a duplicate and what talks hold out; talks have what news has, and "" once."""
    news, talks = pairs_of(60, 1), pairs_of(40, 5)
    held_out = pairs_of(7, 6)
    corpora = {
        "news": corpus_of(
            folder,
            "news",
            train=[*news, news[3], held_out[0], LONG],
            dev=[*pairs_of(5, 2), OTHER_LONG],
        ),
        "talks": corpus_of(
            folder, "talks", train=[*talks, news[3], ("", "x")], dev=held_out, test=pairs_of(4, 7)
        ),
    }
    given: dict[str, Any] = {"tags": {"talks": "<talk>"}, "weights": {"news": 1, "talks": 3}}
    return Mixture(corpora, **(given | others))


def prepare(mixture, folder, rules=None, workers=1):
    return Preparation(mixture, rules or Cleaning(), SUBWORDS, 64, workers).run(folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixture")
    mixture = mixture_of(folder)
    return mixture, prepare(mixture, folder / "data"), folder


def test_every_corpus_is_cleaned_by_itself_and_of_all_held_out_pairs(made):
    _, data, _ = made
    manifest = json.loads((data.directory / "manifest.json").read_text())
    assert manifest["corpora"]["train"] == {
        "news": {"kept": 60, "duplicate": 1, "held_out_overlap": 1, "over_long_subwords": 1},
        # The tag makes no empty source full, and the same pair in news is no duplicate.
        "talks": {"kept": 41, "empty_side": 1},
    }
    assert manifest["cleaning"]["train"]["kept"] == 101
    assert list(data.corpora_in_store("train").values()) == [range(60), range(60, 101)]
    assert list(data.corpora_in_store("dev")) == ["news", "talks"]
    assert list(data.corpora_in_store("test")) == ["talks"]


def test_what_a_corpus_has_of_a_split_is_read_by_name(made):
    _, data, _ = made
    source, target = data.text("dev.talks")
    assert list(zip(source, target, strict=True)) == [
        (f"<talk> {source}", target) for source, target in pairs_of(7, 6)
    ]
    # One of the news is too long for the token store, so that places differ there.
    assert len(data.text("dev.news")[0]) == len(data.store("dev.news")) + 1 == 6
    subwords = data.subwords.source
    for split, lines in (("dev.talks", source), ("test.talks", data.text("test")[0])):
        store = data.store(split)
        assert len(store) == len(lines)
        for number, line in enumerate(lines):
            assert subwords.decode(read_pair(store, number)[0]) == line
            assert "<talk>" in [subwords.pieces()[token] for token in read_pair(store, number)[0]]
    assert len(data.store("dev")) == len(data.store("dev.news")) + len(data.store("dev.talks"))
    with pytest.raises(UserError, match=r"no split 'test.news' in this corpus; it has: .*dev.news"):
        data.store("test.news")


def test_other_weights_take_the_same_data_and_other_tags_do_not(made):
    _, data, folder = made
    before = files_of(folder / "data")
    for others in ({"weights": {"news": 9, "talks": 1}}, {"weights": None, "temperature": 5.0}):
        again = prepare(mixture_of(folder, **others), folder / "data")
        assert again.checksum == data.checksum
    with pytest.raises(UserError, match=r"was made with corpus\.tags"):
        prepare(mixture_of(folder, tags={"news": "<talk>"}), folder / "data")
    assert files_of(folder / "data") == before


def test_an_epoch_has_the_shares_of_the_weights(made):
    mixture, data, _ = made
    places = data.corpora_in_store("train")
    batches = Batches(
        data.store("train"), 3, 2, tokens_per_batch=400, mixing=mixing_of(mixture, data, 3)
    )
    orders = []
    for epoch in range(3):
        order = batches.plan(epoch).order.tolist()
        orders.append(order)
        assert len(order) == 101
        found = {name: sum(one in own for one in order) for name, own in places.items()}
        assert found == {"news": 25, "talks": 76}
        # Both are in one batch: they are shuffled together.
        plan = batches.plan(epoch)
        mixed = [{int(one) < 60 for one in plan.sentences(batch)} for batch in range(len(plan))]
        assert sum(map(len, mixed)) > 1.5 * len(mixed)
    assert sorted(orders[0]) != sorted(orders[1])
    report = batches.report()
    assert report.sentences == 101
    assert {name: one.sentences for name, one in report.corpora.items()} == {
        "news": 25,
        "talks": 76,
    }
    store = data.store("train")
    assert report.source_tokens == store.source_lengths[orders[0]].sum()
    of_news = [one for one in orders[0] if one < 60]
    assert report.corpora["news"].target_tokens == store.target_lengths[of_news].sum()
    assert "; news 24.75% of sentences (25), " in str(report)
    # What is trained on is what is planned, tokens and all.
    seen = sum(np.count_nonzero(source) for source, *_ in batches.epoch(0, 0))
    assert seen == report.source_tokens


def test_a_mixture_as_its_corpora_are_has_the_plan_of_one_corpus(made):
    _, data, folder = made
    mixture = mixture_of(folder, weights=None)
    store = data.store("train")
    mixed = Batches(store, 3, 2, tokens_per_batch=400, mixing=mixing_of(mixture, data, 3))
    plain = Batches(store, 3, 2, tokens_per_batch=400)
    for epoch in range(2):
        np.testing.assert_array_equal(mixed.plan(epoch).order, plain.plan(epoch).order)
        np.testing.assert_array_equal(mixed.plan(epoch).cuts, plain.plan(epoch).cuts)


def test_blocks_workers_and_kills_change_no_byte(made, tmp_path, monkeypatch):
    mixture, _, folder = made
    expected = files_of(folder / "data")
    monkeypatch.setattr(clean_text, "_PAIRS_IN_BLOCK", 7)
    prepare(mixture, tmp_path / "workers", workers=2)
    assert files_of(tmp_path / "workers") == expected
    for number in itertools.count(0, 6):
        kill_at_write(monkeypatch, number)
        try:
            prepare(mixture, tmp_path / str(number))
        except Killed:
            kill_at_write(monkeypatch, 4)
            with contextlib.suppress(Killed):
                prepare(mixture, tmp_path / str(number))
        else:
            break
        monkeypatch.setattr(BlockFiles, "append", APPEND)
        prepare(mixture, tmp_path / str(number))
        assert files_of(tmp_path / str(number)) == expected
    assert number > 30


def test_a_corpus_of_which_nothing_is_left_is_named(tmp_path):
    corpora = {
        "a": corpus_of(tmp_path, "a", train=pairs_of(60, 1), dev=pairs_of(5, 2)),
        "b": corpus_of(tmp_path, "b", train=[("", "x")]),
    }
    with pytest.raises(UserError, match=r"the split 'train.b' has no sentence pairs left"):
        prepare(Mixture(corpora), tmp_path / "data")
    corpora["b"] = corpus_of(tmp_path, "b", train=[("tree " * 80, "baum " * 80)])
    message = "all sentence pairs of the split 'train' of 'b' have more than prepare.max_length"
    with pytest.raises(UserError, match=message):
        prepare(Mixture(corpora), tmp_path / "data")


@pytest.mark.parametrize("value", [[], {"train": {"news": {}}}, {"train": {"news": {"kept": -1}}}])
def test_damaged_places_are_refused(made, tmp_path, value):
    _, data, _ = made
    text = json.loads((data.directory / "manifest.json").read_text()) | {"corpora": value}
    (tmp_path / "manifest.json").write_text(json.dumps(text))
    with pytest.raises(UserError, match=r"manifest.json is missing or damaged"):
        PreparedData(tmp_path)
