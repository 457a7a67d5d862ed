"""Preparation: nothing is lost unseen; whole or not at all; the same bytes after a kill."""

import dataclasses
import json
import random
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest

from t2t_repro.data import prepared, stages
from t2t_repro.data.cleaning import REASONS, Cleaning
from t2t_repro.data.corpora.mixture import Reversed
from t2t_repro.data.corpora.text_files import TextFilesCorpus
from t2t_repro.data.preparation import Preparation, prepare_corpus
from t2t_repro.data.prepared import CleanText
from t2t_repro.data.stages import prepare
from t2t_repro.errors import UserError
from t2t_repro.text.training import SubwordTraining
from tests.data.corpora.test_noised_source import Pairs
from tests.token_stores import read_pair
from text_variants import TextVariants

SUBWORDS = SubwordTraining(vocab_size=300, character_coverage=1.0)
ODD_PAIRS = [
    ("one\u2028line", "eine\u2028Zeile"),
    ("carriage\rreturn", "Wagen\rrücklauf"),
    ("next\x85line \x0b\x0c\x1c", "neue\x85Zeile"),
    ("  spaces   all over ", " überall  Leerzeichen"),
    ("emoji 🙂👩‍👩‍👧", "Emoji 🙂"),
]


def pairs_of(count, seed):
    generator = random.Random(seed)
    words = ["red", "blue", "green", "tree", "house", "river", "stone", "bird", "cloud", "road"]
    sources = [" ".join(generator.choices(words, k=6)) for _ in range(count)]
    return [(source, source[::-1]) for source in sources]


def write_pairs(folder, name, pairs):
    folder.mkdir(exist_ok=True)
    paths = folder / f"{name}.en", folder / f"{name}.de"
    for side, path in enumerate(paths):
        path.write_bytes("".join(pair[side] + "\n" for pair in pairs).encode())
    return tuple(map(str, paths))


def corpus_of(folder, train, dev=None):
    splits = (("train", train), ("dev", dev or pairs_of(5, 2)), ("test", pairs_of(6, 3)))
    return TextFilesCorpus(*(write_pairs(folder, name, pairs) for name, pairs in splits))


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def repetitive(tmp_path_factory):
    """Duplicates near and far, overlaps with dev, a pair beyond 64 subwords, many bad pairs."""
    some = pairs_of(60, 1)
    train = [*some, *some[20:30], ("", "x"), *pairs_of(5, 2), (10 * some[0][0], 10 * some[0][1])]
    train += some[::-1] + pairs_of(60, 4) + [("x", "y" * 99)] * 14
    corpus = corpus_of(tmp_path_factory.mktemp("text"), train)
    variants = TextVariants(capitals=0.1, words=0.2, seed=2)
    return Preparation(corpus, Cleaning(), SUBWORDS, 64, workers=1, variants=variants)


@pytest.fixture(scope="module")
def whole(repetitive, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return prepare(repetitive, folder / "data"), contents(folder / "data")


def set_block_size(patch, pairs):
    patch.setattr(prepared, "PAIRS_IN_BLOCK", pairs)


def test_text_and_tokens_agree_and_odd_characters_stay_in_their_line(tmp_path):
    train = pairs_of(60, 1) + ODD_PAIRS
    corpus = corpus_of(tmp_path, train, dev=pairs_of(5, 2) + ODD_PAIRS[:1])
    data = prepare(Preparation(corpus, Cleaning(drop_held_out=False), SUBWORDS), tmp_path / "data")
    assert data.splits == ("train", "dev", "test")
    assert list(zip(*data.text("train"), strict=True)) == train
    for split in data.splits:
        store, sides = data.store(split), data.text(split)
        ids = [data.subwords.source.encode(lines) for lines in sides]
        read = [read_pair(store, index) for index in range(len(store))]
        assert read == list(zip(*ids, strict=True))


def test_lines_that_subwords_change_are_counted(tmp_path, caplog):
    odd = [("½ tree", "½，x"), ("a²", "b"), ("e\u0301", "x\u00a0y  z")]
    subwords = SubwordTraining(310, normalization="nmt_nfkc")
    with caplog.at_level("INFO", logger="absl"):
        prepare(
            Preparation(corpus_of(tmp_path, pairs_of(60, 1) + odd), subwords=subwords), tmp_path
        )
    changes = [line for line in caplog.messages if "subwords change" in line]
    assert ["train: " in line for line in changes] == [True, True]
    assert "2 source lines" in changes[0]
    assert "1 target lines, e.g. '½' to '1⁄2'" in changes[1]


def test_the_manifest_counts_every_dropped_pair_by_reason(tmp_path):
    kept = pairs_of(60, 1)
    dev = [("held out source", "gehalten"), ("held", "draußen ist dieses Ziel"), ("", "blank")]
    dropped = [
        ("", "empty"),
        (" \u2028 ", "blank"),
        ("word " * 31, "Wort " * 31),
        ("x", "y" * 10),
        ("HELD out  source", "something else"),
        ("something else", "Draußen ist dieses Ziel"),
        kept[3],
        (kept[4][0] + " ", kept[4][1]),
        tuple(" ".join(source for source, _ in pairs_of(5, seed)) for seed in (9, 10)),
    ]
    corpus = corpus_of(tmp_path, kept + dropped, dev=dev)
    subwords = SubwordTraining(vocab_size=280, character_coverage=0.98)
    data = prepare(Preparation(corpus, Cleaning(max_words=30), subwords, 64), tmp_path / "data")
    counts = json.loads((data.directory / "manifest.json").read_text())["cleaning"]
    expected = dict.fromkeys(REASONS, 1) | {"empty_side": 2, "held_out_overlap": 2, "duplicate": 2}
    assert counts["train"] == expected | {"kept": 60}
    # Held-out pairs are never dropped: every sentence is translated and scored.
    assert list(zip(*data.text("dev"), strict=True)) == dev
    assert len(data.store("train")) == 60


def test_blocks_and_workers_change_no_byte(repetitive, whole, tmp_path, monkeypatch):
    data, expected = whole
    assert 100 < len(data.store("train")) < len(data.text("train")[0])
    set_block_size(monkeypatch, 7)
    prepare(dataclasses.replace(repetitive, workers=2), tmp_path / "data")
    assert contents(tmp_path / "data") == expected


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it."""


@pytest.mark.parametrize("stage", ["train.text", "subwords", "train.tokens", "rename"])
def test_killed_at_the_end_of_a_stage(repetitive, whole, tmp_path, monkeypatch, stage):
    """Complete stages are kept, the interrupted one is made again, with the same bytes."""
    write_json = stages.write_json

    def die(path, value):
        if path.stem == stage:
            raise Killed
        write_json(path, value)

    def die_at_rename(path, target):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(stages, "write_json", die)
        if stage == "rename":
            patch.setattr("pathlib.Path.rename", die_at_rename)
        with pytest.raises(Killed):
            prepare(repetitive, tmp_path / "data")
    assert not (tmp_path / "data" / "prepared").exists()
    if stage != "train.text":
        monkeypatch.setattr(CleanText, "write", None)
    if stage in ("train.tokens", "rename"):
        monkeypatch.setattr(SubwordTraining, "train", None)
    prepare(repetitive, tmp_path / "data")
    assert contents(tmp_path / "data") == whole[1]


@pytest.mark.parametrize("stage", ["cleaning", "encoding"])
def test_killed_within_a_stage(repetitive, whole, tmp_path, monkeypatch, stage):
    set_block_size(monkeypatch, 7)
    advance = stages.Progress.advance
    count = iter(range(10**6))

    def die(progress, pairs):
        if progress._stage == f"data: train: {stage}" and next(count) == 5:
            raise Killed
        advance(progress, pairs)

    with monkeypatch.context() as patch:
        patch.setattr(stages.Progress, "advance", die)
        with pytest.raises(Killed):
            prepare(repetitive, tmp_path / "data")
    prepare(repetitive, tmp_path / "data")
    assert contents(tmp_path / "data") == whole[1]


def test_leftovers_of_other_settings_are_not_used(repetitive, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(stages.Stages, "_encode", None)
        with pytest.raises(TypeError):
            prepare(repetitive, tmp_path / "data")
    other = dataclasses.replace(repetitive, cleaning=Cleaning(drop_duplicates=False))
    prepare(other, tmp_path / "data")
    prepare(other, tmp_path / "fresh")
    assert contents(tmp_path / "data") == contents(tmp_path / "fresh")


def test_a_second_call_writes_nothing(repetitive, whole, monkeypatch):
    data, expected = whole
    monkeypatch.setattr(stages, "write_json", None)
    again = prepare(repetitive, data.directory.parent)
    assert again.checksum == data.checksum
    assert contents(data.directory.parent) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleaning", Cleaning(max_words=77)),
        ("subwords", dataclasses.replace(SUBWORDS, vocab_size=299)),
        ("max_length", 63),
        ("variants", None),
    ],
)
def test_data_of_other_settings_are_refused(repetitive, whole, name, value):
    data, expected = whole
    with pytest.raises(UserError, match=f"was made with {name}"):
        prepare(dataclasses.replace(repetitive, **{name: value}), data.directory.parent)
    assert contents(data.directory.parent) == expected


def test_settings_that_leave_nothing_leave_no_data(repetitive, tmp_path):
    with pytest.raises(UserError, match=r"'train' has no .*over long subwords 1.*max_length"):
        prepare(dataclasses.replace(repetitive, max_length=2), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".prepared.partial"]


@pytest.mark.parametrize("new_file", [False, True])
def test_text_that_has_grown_is_named_by_file_and_size(tmp_path, new_file):
    pairs = pairs_of(60, 1)
    corpus = corpus_of(tmp_path, pairs[:40])
    prepare(Preparation(corpus, subwords=SUBWORDS), tmp_path / "run" / "data")
    sizes = [(tmp_path / "train.en").stat().st_size]
    if new_file:
        more = write_pairs(tmp_path, "more", pairs[40:])
        corpus = TextFilesCorpus([write_pairs(tmp_path, "train", pairs[:40]), more], more)
    else:
        corpus = corpus_of(tmp_path, pairs)
        sizes.append((tmp_path / "train.en").stat().st_size)
    # Whatever the settings of the subwords, which TensorFlow may be needed for.
    with pytest.raises(UserError) as caught:
        prepare_corpus(Preparation(corpus), tmp_path / "run" / "data")
    words = ["more.en, "] if new_file else [f"'train.en, {size:,} bytes" for size in sizes]
    words += [f"train.init_from = '{tmp_path}/run/model'", f"--data_dir={tmp_path}/run/data_2"]
    assert all(word in str(caught.value) for word in words)


def test_two_processes_that_prepare_the_same_wait_for_each_other(repetitive, whole, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        for made in pool.map(lambda _: prepare(repetitive, tmp_path / "data"), range(4)):
            assert made.checksum == whole[0].checksum
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["prepared"]


@pytest.mark.parametrize("item", [3, ("a",), ("a", "b\nc"), ("a", "b\ud800")])
def test_items_that_are_not_pairs_of_lines_are_shown(tmp_path, item):
    for corpus in (Pairs(item), Reversed(Pairs(item))):
        with pytest.raises(UserError, match=r"Pairs\.read yields .* split 'dev'"):
            prepare(Preparation(corpus, subwords=SUBWORDS), tmp_path / "data")


def test_a_start_with_prepared_data_reads_the_corpus_once(tmp_path, monkeypatch):
    corpus = corpus_of(tmp_path, pairs_of(40, 1))
    prepare(Preparation(corpus, subwords=SUBWORDS), tmp_path / "data")
    described = Mock(wraps=corpus.describe)
    monkeypatch.setattr(corpus, "describe", described)
    settings = Preparation(corpus, subwords=SUBWORDS)
    prepare_corpus(settings, tmp_path / "data")
    prepare(settings, tmp_path / "data")
    assert described.call_count == 1
