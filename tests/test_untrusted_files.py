"""Files of strangers: each of these once ended a process, or had it allocate, wait or run code."""

import json
import os
import struct
import zipfile

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

from t2t_repro.config.decoding_bindings import check_harmless
from t2t_repro.data.file_manifest import read_entries
from t2t_repro.data.token_store import TokenStore
from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.errors import UserError
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.parsing.trees import read_trees
from t2t_repro.strangers.modules import import_confirmed
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.subword_model import open_subwords, shared
from t2t_repro.text.t2t import T2TSubwords
from t2t_repro.training.event_files import read_events
from t2t_repro.training.replay import read_batch
from tests.decoding.random_translator import write_subwords
from tests.text.test_t2t import VOCABULARY, write
from tests.token_stores import write_token_store
from tests.training.tiny import tiny_directory, tiny_model


@pytest.fixture
def directory(tmp_path):
    """A model directory."""
    return tiny_directory(tmp_path)


# Model directories


@pytest.mark.parametrize(
    "sizes",
    [
        {"vocab_size": 10**12},
        {"num_layers": 10**9},
        {"config": {"d_model": 10**9}},
        {"config": {"d_model": 0}},
        {"vocab_size": "40"},
        {"max_length": 10**12, "positional_encoding": "learned"},
        {"source_vocab_size": 10**12, "tied_embeddings": "none"},
        {"source_vocab_size": -(10**12), "tied_embeddings": "none"},
        {"source_vocab_size": 40, "tied_embeddings": "all"},
        {"dtype": {"module": "os", "class_name": "system", "config": {"name": "x"}}},
        {"dtype": {"module": "keras"}},
        {"layers": []},
    ],
)
def test_sizes_beyond_the_checkpoint_are_refused_before_the_model_is_built(directory, sizes):
    path = directory.path / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | sizes))
    with pytest.raises(UserError, match=r"model\.json (describes|does not describe)"):
        directory.load_model()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("import antigravity", "would run code that may be a stranger's: .*antigravity.py"),
        (
            "from os import path as p",
            "would run code that may be a stranger's: .*--allow_import=os",
        ),
        ("import no_such_module", "no_such_module, which is not there; expected it in"),
        ("from __gin__ import dynamic_registration", "with which it could call whatever it names"),
        ("include '/etc/passwd'", "expected bindings alone"),
        ("a = {[1]: 2}", "unhashable"),
        ("a = " + "(" * 5000, "more than 50 brackets deep"),
        ("a = (1,", "EOF"),
    ],
)
def test_a_model_directory_runs_no_code(tmp_path, line, message):
    path = tmp_path / "config.gin"
    path.write_text(f"b = @bleu\n{line}\n")
    with pytest.raises(UserError, match=message):
        import_confirmed(tmp_path, check_harmless(path), {}, [])


def test_a_missing_configuration_is_named_by_its_path(tmp_path):
    path = tmp_path / "config.gin"
    with pytest.raises(UserError, match=f"^{path}: no such file"):
        check_harmless(path)


@pytest.mark.parametrize("bad", [{"beam_size": 10**9}, {"beam_size": "4"}])
def test_a_beam_is_bounded(bad):
    with pytest.raises(ValueError, match="at most 1024"):
        BeamSearch(**bad)


@pytest.mark.parametrize("bad", [{"d_ff": -1}, {"num_heads": 0}, {"d_k": True}, {"dropout": 1.0}])
def test_sizes_are_sizes(bad):
    with pytest.raises(ValueError, match=f"LayerConfig.{next(iter(bad))} is"):
        LayerConfig(**bad)


# Vocabularies


def test_a_piece_that_is_not_utf_8(tmp_path):
    path = write_subwords(tmp_path / "model")
    piece = "\u2581the".encode()
    content = path.read_bytes()
    assert piece in content
    path.write_bytes(content.replace(piece, piece[:-1] + b"\xff"))
    with pytest.raises(UserError, match="is not a SentencePiece model"):
        SentencePieceModel(path)


def test_a_subword_as_long_as_a_book(tmp_path):
    path = write(tmp_path / "vocab", [*VOCABULARY, "x" * 1001])
    with pytest.raises(UserError, match="a subword of 1001 characters"):
        T2TSubwords(path)


@pytest.mark.parametrize("open_one", [SentencePieceModel, T2TSubwords, open_subwords])
def test_a_vocabulary_as_large_as_a_disk(tmp_path, open_one):
    """It takes no room there: all but its beginning was never written."""
    path = write(tmp_path / "vocab", VOCABULARY)
    os.truncate(path, 10**12)
    with pytest.raises(UserError, match=r"vocab( is not| \(it has more than 67,108,864 bytes)"):
        open_one(path)


def test_a_vocabulary_of_millions_of_lines(tmp_path):
    path = write(tmp_path / "vocab", [*VOCABULARY, *(["x"] * 2**20)])
    with pytest.raises(UserError, match="it has more than 1,048,576 lines"):
        T2TSubwords(path)


def test_a_directory_with_a_vocabulary_as_large_as_a_disk(directory):
    os.truncate(directory.path / "subwords.model", 10**12)
    with pytest.raises(UserError, match="is not a SentencePiece model"):
        directory.subwords()
    model = tiny_model(d_model=8)
    subwords = shared(SentencePieceModel(directory.path.parent / "subwords.model"))
    with pytest.raises(UserError, match="has other subwords than the data"):
        directory.describe(model, subwords, "", "")


# Corpora


def test_a_tree_of_a_million_brackets(tmp_path):
    path = tmp_path / "a.mrg"
    path.write_text("(A " * 100_001)
    with pytest.raises(UserError, match="more than 100,000 brackets"):
        list(read_trees(path))


# Token stores and prepared data


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sentences", float("inf")),
        ("token_type", "O"),
        ("vocab_size", []),
        ("source_vocab_size", "x"),
        ("source_vocab_size", 10**9),
        ("tokens", "x"),
    ],
)
def test_a_summary_of_other_types(tmp_path, name, value):
    write_token_store(tmp_path / "store", [([5, 1], [6, 1])], vocab_size=10)
    path = tmp_path / "store" / "store.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    with pytest.raises(UserError, match=r"damaged \(store\.json\)"):
        TokenStore(tmp_path / "store")


def test_ids_outside_of_the_vocabulary(tmp_path):
    write_token_store(tmp_path / "store", [([5, 1], [6, 1])], vocab_size=10)
    np.array([5, 10], "<u2").tofile(tmp_path / "store" / "source.tokens")
    store = TokenStore(tmp_path / "store")
    with pytest.raises(UserError, match=r"damaged \(source\.tokens\)"):
        store.padded_batch(np.array([0]), 2, 2, 1)


@pytest.mark.parametrize("name", ["../x", "/dev/zero", "a/../../x", "", "a\0"])
def test_a_manifest_names_no_files_elsewhere(name):
    assert read_entries({"a/b": [3, "x"]}) == {"a/b": (3, "x")}
    with pytest.raises(ValueError, match="is not below the folder"):
        read_entries({name: [0, "x"]})


# Files of the trainer


def test_a_batch_that_is_larger_than_its_file(tmp_path):
    ids = np.ones((2, 3, 4), np.int32)
    path = tmp_path / "step-7.npz"
    np.savez_compressed(path, step=7, source=ids, target=ids)
    assert read_batch(path).source.shape == (2, 3, 4)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for changed in (b"(2, 3, 40000), }", b"(99999, 99999, 99), }"):
        source = parts["source.npy"].replace(b"(2, 3, 4), }".ljust(len(changed)), changed)
        assert changed in source
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, part in (parts | {"source.npy": source}).items():
                archive.writestr(name, part)
        with pytest.raises(UserError, match="cannot be read"):
            read_batch(path)


def test_a_record_that_is_larger_than_its_file(tmp_path):
    path = tmp_path / "events"
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(tf.compat.v1.Event(step=3).SerializeToString())
    whole = path.read_bytes()
    length = struct.pack("<Q", 2**62)
    path.write_bytes(whole + length + struct.pack("<I", masked_crc32c(length)) + b"x" * 9)
    assert [event.step for event in read_events(path)] == [3]
