"""From text files to what training reads: nothing lost unseen, whole or not at all."""

import contextlib
import dataclasses
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from t2t_repro.data import clean_text, file_manifest, prepared
from t2t_repro.data.block_files import BlockFiles
from t2t_repro.data.cleaning import REASONS, Cleaning
from t2t_repro.data.corpora.corpus import held_out_pairs
from t2t_repro.data.corpora.text_files import TextFilesCorpus
from t2t_repro.data.prepared import Preparation, PreparedData
from t2t_repro.errors import Unfinished, UserError
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.subword_model import SHARED_SUBWORDS
from t2t_repro.text.training import SubwordTraining
from tests.token_stores import read_pair

SUBWORDS = SubwordTraining(vocab_size=300, character_coverage=1.0)
SPLITS = ("train", "dev", "test")
ODD_PAIRS = [
    ("one\u2028line", "eine\u2028Zeile"),
    ("carriage\rreturn", "Wagen\rrücklauf"),
    ("a\ttab", "ein\tTab"),
    ("next\x85line \x0b\x0c\x1c", "neue\x85Zeile"),
    ("  spaces   all over ", " überall  Leerzeichen"),
    ("emoji 🙂👩‍👩‍👧", "Emoji 🙂"),
]


def sentences(count, seed):
    generator = random.Random(seed)
    words = ["red", "blue", "green", "tree", "house", "river", "stone", "bird", "cloud", "road"]
    return [" ".join(generator.choices(words, k=6)) for _ in range(count)]


def pairs_of(count, seed):
    return [(source, source[::-1]) for source in sentences(count, seed)]


def write_pairs(folder, name, pairs):
    paths = folder / f"{name}.en", folder / f"{name}.de"
    for side, path in enumerate(paths):
        path.write_bytes("".join(pair[side] + "\n" for pair in pairs).encode())
    return tuple(map(str, paths))


def corpus_of(folder, train, dev=None, test=None):
    splits = {"train": train, "dev": dev or pairs_of(5, 2), "test": test or pairs_of(6, 3)}
    return TextFilesCorpus(
        **{name: write_pairs(folder, name, pairs) for name, pairs in splits.items()}
    )


def contents(folder):
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_text_and_tokens_agree_and_odd_characters_stay_in_their_line(tmp_path):
    train = pairs_of(60, 1) + ODD_PAIRS
    corpus = corpus_of(tmp_path, train, dev=pairs_of(5, 2) + ODD_PAIRS[:1])
    rules = Cleaning(drop_held_out=False)
    data = Preparation(corpus, rules, SUBWORDS).run(tmp_path / "data")
    subwords = SentencePieceModel(data.subwords.target.model_path)
    assert data.splits == SPLITS
    assert subwords.size == 300
    read = list(zip(*data.text("train"), strict=True))
    assert read == train
    for split in SPLITS:
        store, (source, target) = data.store(split), data.text(split)
        assert len(store) == len(source) == len(target)
        for index in range(len(store)):
            lines = source[index], target[index]
            for line, ids in zip(lines, read_pair(store, index), strict=True):
                assert ids[-1] == 1
                assert subwords.decode(ids) == subwords.normalize(line)


def test_the_manifest_counts_every_pair_that_is_dropped_and_why(tmp_path, caplog):
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
        (" ".join(sentences(5, 9)), " ".join(sentences(5, 10))),
    ]
    corpus = corpus_of(tmp_path, kept + dropped, dev=dev)
    subwords = SubwordTraining(vocab_size=280, character_coverage=0.98)
    caplog.set_level("INFO", logger="absl")
    data = Preparation(corpus, Cleaning(max_words=30), subwords, max_length=64).run(
        tmp_path / "data"
    )
    manifest = json.loads((tmp_path / "data" / "prepared" / "manifest.json").read_text())
    assert manifest["cleaning"]["train"] == {
        "kept": 60,
        "empty_side": 2,
        "over_long": 1,
        "length_ratio": 1,
        "held_out_overlap": 2,
        "duplicate": 2,
        "over_long_subwords": 1,
    }
    assert set(manifest["cleaning"]["train"]) == {"kept", *REASONS}
    # Nothing held out is ever dropped: every sentence is translated and scored.
    assert manifest["cleaning"]["dev"]["kept"] == 3
    assert list(zip(*data.text("dev"), strict=True)) == dev
    assert manifest["identity"]["max_length"] == data.max_length == 64
    store = data.store("train")
    assert len(store) == 60
    assert max(store.source_lengths.max(), store.target_lengths.max()) <= 64
    assert "train: kept 60 of 69 pairs" in caplog.text
    assert "over long subwords 1" in caplog.text


def test_a_second_call_rewrites_nothing_and_opens_the_same(tmp_path, monkeypatch):
    corpus = corpus_of(tmp_path, pairs_of(60, 1))
    Preparation(corpus, Cleaning(drop_held_out=False), SUBWORDS).run(tmp_path / "data")
    before = contents(tmp_path / "data")
    monkeypatch.setattr(prepared, "_write_text", None)
    again = TextFilesCorpus(
        *((str(tmp_path / f"{s}.en"), str(tmp_path / f"{s}.de")) for s in SPLITS)
    )
    data = Preparation(again, Cleaning(drop_held_out=False), SUBWORDS).run(tmp_path / "data")
    assert contents(tmp_path / "data") == before
    assert list((tmp_path / "data").iterdir()) == [tmp_path / "data" / "prepared"]
    assert len(data.store("train")) == 60
    assert PreparedData(tmp_path / "data" / "prepared").text("dev") == data.text("dev")


def test_the_same_input_makes_the_same_bytes(tmp_path):
    corpus = corpus_of(tmp_path, pairs_of(60, 1))
    made = []
    for name in ("a", "b"):
        Preparation(corpus, Cleaning(drop_held_out=False), SUBWORDS).run(tmp_path / name)
        made.append({path: data for path, (_, data) in contents(tmp_path / name).items()})
        del made[-1]["prepared/verified.json"]
    assert made[0] == made[1]


@pytest.mark.parametrize("changed", ["cleaning", "subwords", "max_length", "corpus"])
def test_data_made_otherwise_are_refused_in_one_line(tmp_path, changed):
    corpus = corpus_of(tmp_path, pairs_of(60, 1))
    given = {
        "corpus": corpus,
        "cleaning": Cleaning(drop_held_out=False),
        "subwords": SUBWORDS,
        "max_length": 100,
    }
    Preparation(**given).run(tmp_path / "data")
    before = contents(tmp_path / "data")
    other = {
        "cleaning": Cleaning(drop_held_out=False, max_words=77),
        "subwords": SubwordTraining(vocab_size=299, character_coverage=1.0),
        "max_length": 99,
        "corpus": corpus,
    }
    if changed == "corpus":
        (tmp_path / "train.en").write_text(
            (tmp_path / "train.en").read_text().replace("red", "tan")
        )
    with pytest.raises(UserError) as caught:
        Preparation(**{**given, changed: other[changed]}).run(tmp_path / "data")
    line = str(caught.value).splitlines()[0]
    assert f"was made with {changed}" in line
    assert " there, " in line
    assert len(line) < 400 + len(str(tmp_path))
    assert "give another --data_dir" in line
    assert contents(tmp_path / "data") == before


def broken_utf8(folder):
    path = folder / "train.de"
    lines = path.read_bytes().split(b"\n")
    lines[30] = b"caf\xe9"
    path.write_bytes(b"\n".join(lines))


def too_few_lines_in_test(folder):
    path = folder / "test.de"
    path.write_bytes(path.read_bytes().split(b"\n", 1)[1])


@pytest.mark.parametrize(
    ("breakage", "vocab_size", "max_length", "message"),
    [
        (broken_utf8, 300, 100, r"train\.de, line 31: byte 0xe9"),
        (too_few_lines_in_test, 300, 100, "line 6 has no partner"),
        (None, 5000, 100, "has only enough text for"),
        (None, 100, 100, "need"),
        (None, 300, 2, "all sentence pairs of the split 'train' have more than"),
    ],
)
def test_a_failure_leaves_nothing(tmp_path, breakage, vocab_size, max_length, message):
    corpus = corpus_of(tmp_path, pairs_of(60, 1))
    if breakage:
        breakage(tmp_path)
    recipe = SubwordTraining(vocab_size=vocab_size, character_coverage=1.0)
    rules = Cleaning(drop_held_out=False)
    with pytest.raises(UserError, match=message) as caught:
        Preparation(corpus, rules, recipe, max_length).run(tmp_path / "data")
    assert ".partial" not in str(caught.value).splitlines()[0]
    assert list((tmp_path / "data").glob("*")) == list((tmp_path / "data").glob(".*")) == []


def test_what_a_failure_says_nothing_against_is_gone_on_with(tmp_path, monkeypatch):
    made = Preparation(repetitive_corpus(tmp_path), Cleaning(), SUBWORDS)
    made.run(tmp_path / "whole")
    encode = prepared.encode_text

    def encode_or_end(text, store, *others):
        if store.name == "dev.tokens":
            raise Unfinished("a worker process was killed")
        return encode(text, store, *others)

    monkeypatch.setattr(prepared, "encode_text", encode_or_end)
    with pytest.raises(Unfinished):
        made.run(tmp_path / "data")
    monkeypatch.setattr(prepared, "encode_text", encode)
    monkeypatch.setattr(SubwordTraining, "train", None)
    made.run(tmp_path / "data")
    assert files_of(tmp_path / "data") == files_of(tmp_path / "whole")


def test_a_note_that_was_half_written_is_no_part_of_the_data(tmp_path):
    (tmp_path / "text").write_text("a\n")
    (tmp_path / ".partial8a7").mkdir()
    (tmp_path / ".partial8a7" / "verified.json").write_text("{")
    assert list(file_manifest.describe_files(tmp_path)) == ["text"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text", "verified.json"]


def test_what_a_killed_run_left_is_cleared_away(tmp_path):
    corpus = corpus_of(tmp_path, pairs_of(60, 1))
    left = tmp_path / "data" / ".prepared.partial"
    left.mkdir(parents=True)
    (left / "train.source.txt").write_text("half a senten")
    Preparation(corpus, Cleaning(drop_held_out=False), SUBWORDS).run(tmp_path / "data")
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["prepared"]
    assert "half" not in (tmp_path / "data" / "prepared" / "train.source.txt").read_text()


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(clean_text, "_PAIRS_IN_BLOCK", 7)


def repetitive_corpus(folder):
    """Duplicates near and far, overlaps with dev, a pair beyond 64 subwords."""
    some = pairs_of(60, 1)
    train = [*some, *some[20:30], ("", "x"), *pairs_of(5, 2), (10 * some[0][0], 10 * some[0][1])]
    return corpus_of(folder, train + some[::-1] + pairs_of(60, 4) + [("x", "y" * 99)] * 14)


def plainly_prepared(folder, corpus, rules):
    """What train becomes, by the rules as they read; text and ids, sentence by sentence."""
    squeezed = [(" ".join(a.split()), " ".join(b.split())) for a, b in corpus.read("train", folder)]
    held = [set(side) for side in zip(*held_out_pairs(corpus, folder), strict=True)]
    kept = []
    for pair in squeezed:
        misshapen = not all(pair) or max(map(len, pair)) > 9 * min(map(len, pair))
        too_long = max(len(side.split()) for side in pair) > rules.max_words
        overlaps = any(side in there for side, there in zip(pair, held, strict=True))
        if not (misshapen or too_long or overlaps or pair in kept):
            kept.append(pair)
    return kept


@pytest.mark.parametrize("workers", [1, 2])
def test_blocks_and_workers_change_no_byte(tmp_path, monkeypatch, workers):
    corpus, rules = repetitive_corpus(tmp_path), Cleaning()
    whole = Preparation(corpus, rules, SUBWORDS, 64).run(tmp_path / "whole")
    kept = plainly_prepared(tmp_path, corpus, rules)
    assert list(zip(*whole.text("train"), strict=True)) == kept
    ids = [tuple(whole.subwords.target.encode(pair)) for pair in kept]
    ids = [pair for pair in ids if max(map(len, pair)) <= 64]
    store = whole.store("train")
    assert [read_pair(store, i) for i in range(len(store))] == ids
    assert 100 < len(store) == len(kept) - 1
    monkeypatch.setattr(clean_text, "_PAIRS_IN_BLOCK", 7)
    Preparation(corpus, rules, SUBWORDS, 64, workers).run(tmp_path / "blocks")
    assert files_of(tmp_path / "blocks") == files_of(tmp_path / "whole")


def files_of(folder):
    """What the files hold; which of them were verified, and when, is of this machine."""
    found = {name: content for name, (_, content) in contents(folder).items()}
    del found["prepared/verified.json"]
    return found


APPEND = BlockFiles.append


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it."""


def kill_at_write(monkeypatch, number):
    """The journal's writes count; the one of that number, and its block, are half done."""
    writes = itertools.count()

    def append_or_die(self, parts, note):
        if next(writes) < number:
            return APPEND(self, parts, note)
        for name, part in list(parts.items())[:2]:
            self._files[name].write(part[: len(part) // 2])
        raise Killed

    monkeypatch.setattr(BlockFiles, "append", append_or_die)


@pytest.mark.usefixtures("small_blocks")
def test_killed_anywhere_it_goes_on_and_ends_with_the_same_bytes(tmp_path, monkeypatch):
    corpus = repetitive_corpus(tmp_path)
    given = (corpus, Cleaning(), SUBWORDS, 64)
    Preparation(*given, workers=1).run(tmp_path / "whole")
    expected = files_of(tmp_path / "whole")
    for number in itertools.count(0, 3):
        folder = tmp_path / str(number)
        kill_at_write(monkeypatch, number)
        try:
            Preparation(*given, workers=1).run(folder)
        except Killed:
            assert not (folder / "prepared").exists()
            kill_at_write(monkeypatch, 4)
            with contextlib.suppress(Killed):
                Preparation(*given, workers=1).run(folder)
        else:
            break
        monkeypatch.setattr(BlockFiles, "append", APPEND)
        Preparation(*given, workers=1).run(folder)
        assert files_of(folder) == expected
    assert number > 40


@pytest.mark.usefixtures("small_blocks")
def test_what_is_whole_is_not_made_again(tmp_path, monkeypatch):
    corpus = repetitive_corpus(tmp_path)
    given = (corpus, Cleaning(), SUBWORDS, 64)
    kill_at_write(monkeypatch, 40)
    with pytest.raises(Killed):
        Preparation(*given, workers=1).run(tmp_path / "data")
    left = tmp_path / "data" / ".prepared.partial" / "result"
    before = {name: path.stat().st_ino for name, path in ((p.name, p) for p in left.iterdir())}
    assert SHARED_SUBWORDS in before
    monkeypatch.undo()
    monkeypatch.setattr(TextFilesCorpus, "read", "not called")
    monkeypatch.setattr(SubwordTraining, "train", None)
    data = Preparation(*given, workers=1).run(tmp_path / "data")
    assert {name: (data.directory / name).stat().st_ino for name in before} == before


def test_killed_before_the_last_step_it_describes_the_same_files(tmp_path, monkeypatch):
    given = (repetitive_corpus(tmp_path), Cleaning(), SUBWORDS, 64)
    Preparation(*given).run(tmp_path / "whole")

    def die(self, target):
        raise Killed

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", die)
            with pytest.raises(Killed):
                Preparation(*given).run(tmp_path / "data")
    Preparation(*given).run(tmp_path / "data")
    assert files_of(tmp_path / "data") == files_of(tmp_path / "whole")


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("changed", ["cleaning", "max_length", "corpus"])
def test_what_was_left_of_something_else_is_not_used(tmp_path, monkeypatch, changed):
    corpus, rules, max_length = repetitive_corpus(tmp_path), Cleaning(), 64
    kill_at_write(monkeypatch, 40)
    with pytest.raises(Killed):
        Preparation(corpus, rules, SUBWORDS, max_length, workers=1).run(tmp_path / "data")
    monkeypatch.undo()
    if changed == "corpus":
        corpus = corpus_of(tmp_path, pairs_of(70, 8))
    elif changed == "cleaning":
        rules = Cleaning(drop_duplicates=False)
    else:
        max_length = 50
    Preparation(corpus, rules, SUBWORDS, max_length, workers=1).run(tmp_path / "fresh")
    Preparation(corpus, rules, SUBWORDS, max_length, workers=1).run(tmp_path / "data")
    assert files_of(tmp_path / "data") == files_of(tmp_path / "fresh")


def test_two_that_prepare_the_same_at_once_wait_for_each_other(tmp_path):
    corpus = corpus_of(tmp_path, pairs_of(60, 1))

    def run(_):
        return Preparation(corpus, Cleaning(), SUBWORDS).run(tmp_path / "data").text("train")

    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(run, range(4)))
    assert all(text == texts[0] for text in texts)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["prepared"]


HOLDER = """
import sys, time
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_who_waits_says_so_and_a_killed_holder_leaves_no_lock(tmp_path, caplog):
    corpus, lock = corpus_of(tmp_path, pairs_of(60, 1)), tmp_path / "data" / ".prepared.lock"
    lock.parent.mkdir()
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, lock], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    caplog.set_level("INFO", logger="absl")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(Preparation(corpus, Cleaning(), SUBWORDS).run, tmp_path / "data")
        while not waiting.done() and "waiting for another process" not in caplog.text:
            time.sleep(0.01)
        assert not waiting.done()
        holder.kill()
        holder.communicate()
        assert waiting.result().splits == SPLITS
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["prepared"]


class OwnCorpus:
    """A user's corpus, with what is wrong in its train split."""

    splits: tuple[str, ...] = ("train", "dev")

    def __init__(self, wrong):
        self._wrong = wrong

    def describe(self):
        return {"corpus": "OwnCorpus"}

    def prepare(self, download_dir):
        pass

    def read(self, split, download_dir):
        yield from pairs_of(60, 1 if split == "train" else 2)
        if split == "train":
            yield self._wrong()


def test_a_bug_in_ones_own_corpus_keeps_its_traceback(tmp_path):
    with pytest.raises(IndexError) as caught:
        Preparation(OwnCorpus(lambda: [][1]), Cleaning(), SUBWORDS).run(tmp_path / "data")
    text = "".join(traceback.format_exception(caught.value))
    assert "lambda: [][1]" in text


@pytest.mark.parametrize("pair", [3, "ab", ("a",), ("a", 2), (b"a", b"b"), ("a", "b\nc")])
def test_what_is_no_pair_of_sentences_is_shown(tmp_path, pair):
    message = re.escape(f"OwnCorpus.read gives {pair!r} in the split 'train', expected pairs")
    with pytest.raises(UserError, match=message):
        Preparation(OwnCorpus(lambda: pair), Cleaning(), SUBWORDS).run(tmp_path / "data")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("corpus", TextFilesCorpus),
        ("corpus", "TextFilesCorpus"),
        ("cleaning", Cleaning),
        ("subwords", 8000),
        ("max_length", 0),
        ("workers", -1),
    ],
)
def test_a_wrong_argument_is_said_before_anything_is_made(tmp_path, name, value):
    given = {"corpus": corpus_of(tmp_path, pairs_of(60, 1))} | {name: value}
    with pytest.raises(UserError, match=f"Preparation.{name} is .*, expected"):
        Preparation(**given).run(tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_split_that_cleaning_empties_is_named_with_the_reasons(tmp_path):
    corpus = corpus_of(tmp_path, [("", "a"), ("b", ""), ("c", "c" * 20)])
    with pytest.raises(UserError, match=r"'train' has no sentence pairs left .*empty side 2"):
        Preparation(corpus, Cleaning(), SUBWORDS).run(tmp_path / "data")


def test_a_split_that_is_not_there_is_named(tmp_path):
    data = Preparation(
        corpus_of(tmp_path, pairs_of(60, 1)), Cleaning(drop_held_out=False), SUBWORDS
    ).run(tmp_path / "data")
    for open_split in (data.store, data.text):
        with pytest.raises(UserError, match=r"no split 'valid'.*train, dev, test"):
            open_split("valid")


def test_data_older_than_a_setting_are_as_good_as_its_default(tmp_path):
    corpus = corpus_of(tmp_path, pairs_of(60, 1))
    data = Preparation(corpus, Cleaning(), SUBWORDS).run(tmp_path / "data")
    path = data.directory / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["identity"]["subwords"]["split_scripts"]
    path.write_text(json.dumps(manifest))
    Preparation(corpus, Cleaning(), SUBWORDS).run(tmp_path / "data")
    other = dataclasses.replace(SUBWORDS, split_scripts=False)
    with pytest.raises(
        UserError, match=r"was made with subwords\.split_scripts True there, False now: "
    ):
        Preparation(corpus, Cleaning(), other).run(tmp_path / "data")


def damage(path, how):
    content = bytearray(path.read_bytes())
    if how == "missing":
        path.unlink()
        return
    if how == "cut":
        del content[len(content) // 2 :]
    else:
        content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["cut", "changed", "missing"])
@pytest.mark.parametrize(
    "name", ["train.tokens/target.tokens", "dev.source.txt", "subwords.model", "manifest.json"]
)
def test_a_damaged_file_is_named(tmp_path, name, how):
    corpus = corpus_of(tmp_path, pairs_of(60, 1))
    directory = Preparation(corpus, Cleaning(), SUBWORDS).run(tmp_path / "data").directory
    if name == "manifest.json" and how == "changed":
        (directory / name).write_text('{"splits": []}')
    else:
        damage(directory / name, how)
    with pytest.raises(UserError, match=f"{name} .*copy .* again, or delete it") as error:
        PreparedData(directory)
    assert "\n" not in str(error.value)


def test_checksums_are_read_once_for_every_copy(tmp_path, monkeypatch):
    corpus = corpus_of(tmp_path, pairs_of(60, 1))
    directory = Preparation(corpus, Cleaning(), SUBWORDS).run(tmp_path / "data").directory
    read, inner = [], file_manifest._sha256

    def counting(path):
        read.append(path)
        return inner(path)

    monkeypatch.setattr(file_manifest, "_sha256", counting)
    PreparedData(directory)
    assert read == []
    shutil.copytree(directory, tmp_path / "copy")
    PreparedData(tmp_path / "copy")
    assert len(read) == 3 * 2 + 1 + 3 * 5
    PreparedData(tmp_path / "copy")
    assert len(read) == 3 * 2 + 1 + 3 * 5


TWO = SubwordTraining(vocab_size=295, character_coverage=1.0)


def test_a_shared_vocabulary_is_kept_as_it_was_before_there_could_be_two(tmp_path):
    data = Preparation(corpus_of(tmp_path, pairs_of(60, 1)), subwords=SUBWORDS).run(tmp_path / "d")
    assert data.subwords.source is data.subwords.target
    assert set(data.identity) == {"format", "corpus", "cleaning", "subwords", "max_length"}
    assert [path.name for path in data.directory.glob("*.model")] == ["subwords.model"]


def test_one_vocabulary_and_two_are_other_data(tmp_path):
    corpus = corpus_of(tmp_path, pairs_of(60, 1))
    one = Preparation(corpus, subwords=SUBWORDS)
    two = Preparation(corpus, subwords=SUBWORDS, source_subwords=TWO)
    other = dataclasses.replace(two, source_subwords=SUBWORDS)
    for name, made, others in (("one", one, (two,)), ("two", two, (one, other))):
        made.run(tmp_path / name)
        for asked in others:
            with pytest.raises(UserError, match="was made with source_subwords"):
                asked.run(tmp_path / name)
        made.run(tmp_path / name)


def test_a_side_without_text_enough_is_named(tmp_path):
    corpus = corpus_of(tmp_path, pairs_of(60, 1))
    large = dataclasses.replace(SUBWORDS, vocab_size=5000)
    for given, name in (((SUBWORDS, large), "source_subwords"), ((large, TWO), "subwords")):
        with pytest.raises(UserError, match=rf"^prepare\.{name}: SubwordTraining.vocab_size is 50"):
            Preparation(corpus, subwords=given[0], source_subwords=given[1]).run(tmp_path / "data")
        assert not list((tmp_path / "data").glob("prepared"))


@pytest.mark.usefixtures("small_blocks")
def test_killed_between_two_vocabularies_it_goes_on_and_ends_with_the_same_bytes(
    tmp_path, monkeypatch
):
    made = Preparation(
        repetitive_corpus(tmp_path), subwords=SUBWORDS, source_subwords=TWO, workers=1
    )
    made.run(tmp_path / "whole")
    train = SubwordTraining.train

    def train_or_die(recipe, sentences, path):
        if recipe is SUBWORDS:
            raise Killed
        return train(recipe, sentences, path)

    monkeypatch.setattr(SubwordTraining, "train", train_or_die)
    with pytest.raises(Killed):
        made.run(tmp_path / "data")
    left = tmp_path / "data" / ".prepared.partial" / "result"
    assert [path.name for path in left.glob("*.model")] == ["source_subwords.model"]
    monkeypatch.undo()
    made.run(tmp_path / "data")
    assert files_of(tmp_path / "data") == files_of(tmp_path / "whole")


def test_a_vocabulary_of_other_data(tmp_path):
    corpus = corpus_of(tmp_path, pairs_of(60, 1))
    data = Preparation(corpus, Cleaning(), SUBWORDS).run(tmp_path / "data")
    other = Preparation(corpus, Cleaning(), dataclasses.replace(SUBWORDS, vocab_size=290)).run(
        tmp_path / "other"
    )
    (data.directory / "subwords.model").write_bytes(
        (other.directory / "subwords.model").read_bytes()
    )
    with pytest.raises(UserError, match=r"subwords\.model (has|is damaged)"):
        PreparedData(data.directory)
    # Data from before there were checksums.
    path = data.directory / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["files"]
    path.write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=r"with 300 subwords, but .*subwords.model has 290"):
        PreparedData(data.directory).store("train")


def test_a_process_killed_with_all_its_workers_is_gone_on_with(tmp_path):
    """SIGKILL, while a pool encodes; the same command then ends with the same bytes."""
    corpus_of(tmp_path, repetitive_corpus_pairs(20), dev=pairs_of(5, 2))
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def start(folder):
        return subprocess.Popen([sys.executable, script, folder], cwd=tmp_path, env=environment)

    assert start("whole").wait() == 0
    for journal, blocks in (("train.text.journal", 5), ("train.tokens.journal", 3)):
        run = start("killed")
        path = tmp_path / "killed" / ".prepared.partial" / "work" / journal
        while run.poll() is None and not (
            path.is_file() and path.read_bytes().count(b"\n") > blocks
        ):
            time.sleep(0.001)
        run.kill()
        assert run.wait() == -signal.SIGKILL
    assert start("killed").wait() == 0
    assert files_of(tmp_path / "killed") == files_of(tmp_path / "whole")


def lines_of(path):
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def repetitive_corpus_pairs(times):
    return [pair for seed in range(times) for pair in pairs_of(60, seed % 15)]


SCRIPT = """
import sys
from pathlib import Path
from t2t_repro.data import clean_text
from t2t_repro.data.prepared import Preparation
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.training import SubwordTraining
from t2t_repro.data.corpora.text_files import TextFilesCorpus

if __name__ == "__main__":
    clean_text._PAIRS_IN_BLOCK = 20
    files = {split: (f"{split}.en", f"{split}.de") for split in ("train", "dev")}
    recipe = SubwordTraining(vocab_size=280, character_coverage=1.0)
    Preparation(TextFilesCorpus(**files), subwords=recipe, workers=2).run(Path(sys.argv[1]))
"""
