"""Marian models of Hugging Face: what they compute, and files that do not fit."""

import json
import pickle

import numpy as np
import pytest
from ml_dtypes import bfloat16
from safetensors.numpy import save_file

from t2t_repro.decoding.loading import load_translator
from t2t_repro.decoding.settings import BeamSearch, power_penalty
from t2t_repro.errors import UserError
from t2t_repro.formats.hugging_face.model import (
    POSITIONS,
    SHARED,
    SOFTMAX,
    SOURCE,
    TARGET,
    read_hugging_face,
)
from t2t_repro.formats.imported import model_files
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.records import read_ancestry, weights_hash
from t2t_repro.runs.weights import named_values
from t2t_repro.vocabulary import EOS_ID, PAD_ID
from tests.commands import outcomes_of
from tests.formats.hugging_face.directory import D_MODEL, read, write_h5, write_marian_model
from tests.marian_formulas import Marian, assert_same_weights, logits_of, sinusoids


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("shares", [True, False])
def test_logits_are_those_of_the_formulas(shares, ties, tmp_path):
    weights = write_marian_model(tmp_path, shares, ties)
    model, text, *_ = read_hugging_face(tmp_path)
    config = read(tmp_path / "config.json")
    if shares:
        # Theirs make one tensor of these three.
        weights |= dict.fromkeys((SOURCE, TARGET), weights[SHARED])
    assert_same_logits(model, text, Marian(config, weights))


def assert_same_logits(model, text, formulas):
    rng = np.random.default_rng(1)
    source, target = ([*rng.integers(3, 50, length), EOS_ID] for length in (7, 5))
    expected = formulas.logits(text.source.ids[source], text.target.ids[target])
    ours = logits_of(model, source, target)
    np.testing.assert_allclose(ours, expected[:, text.target.ids], atol=2e-5)


@pytest.mark.parametrize("kind", ["h5", "shards", "bfloat16"])
def test_other_files_and_types_hold_the_same(kind, tmp_path):
    weights = write_marian_model(tmp_path)
    expected = read_hugging_face(tmp_path).model.get_weights()
    path = tmp_path / "model.safetensors"
    if kind == "h5":
        path.unlink()
        write_h5(tmp_path / "tf_model.h5", weights)
    elif kind == "shards":
        path.unlink()
        files = {name: f"{number % 2}.safetensors" for number, name in enumerate(weights)}
        index = tmp_path / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": files}))
        with pytest.raises(UserError, match=r"^[^ ]*0\.safetensors cannot be used"):
            read_hugging_face(tmp_path)
        for file in ("0.safetensors", "1.safetensors"):
            save_file({x: weights[x] for x in files if files[x] == file}, tmp_path / file)
    else:
        save_file({name: value.astype(bfloat16) for name, value in weights.items()}, path)
        expected = [value.astype(bfloat16) for value in expected]
    np.testing.assert_equal(read_hugging_face(tmp_path).model.get_weights(), expected)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"decoder_layers": 1}, "decoder.layers.1"),
        ({"decoder_layers": 3}, "no such weight for model.decoder.layers.2"),
        ({"vocab_size": 20, "decoder_vocab_size": 20}, "has 20 ids"),
        ({"encoder_ffn_dim": 13, "decoder_ffn_dim": 13}, r"\(12, 8\) for model.encoder"),
        ({"eos_token_id": 1, "forced_eos_token_id": 1}, "eos_token_id = 1"),
    ],
)
def test_files_of_two_models(fields, named, tmp_path):
    write_marian_model(tmp_path, **fields)
    with pytest.raises(UserError, match=named):
        read_hugging_face(tmp_path)


@pytest.mark.parametrize("name", [SOFTMAX, SOURCE, TARGET])
def test_one_table_under_any_of_its_names(name, tmp_path):
    weights = write_marian_model(tmp_path)
    expected = read_hugging_face(tmp_path).model
    weights[name] = weights.pop(SHARED)
    save_file(weights, tmp_path / "model.safetensors", {SHARED: name})
    assert_same_weights(read_hugging_face(tmp_path).model, expected)


def test_tied_tables_with_different_numbers_are_refused(tmp_path):
    weights = write_marian_model(tmp_path)
    weights[SOURCE] = weights[SHARED] + 1
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="different numbers in"):
        read_hugging_face(tmp_path)


def test_the_row_of_pad_counts_in_the_softmax_and_begins_as_zeros(tmp_path):
    """As training with transformers leaves it."""
    weights = write_marian_model(tmp_path)
    weights[SHARED][read(tmp_path / "config.json")["pad_token_id"]] = 0.3
    save_file(weights, tmp_path / "model.safetensors")
    model, text, *_ = read_hugging_face(tmp_path)
    begun = weights[SHARED].copy()
    begun[text.target.ids[PAD_ID]] = 0
    formulas = Marian(
        read(tmp_path / "config.json") | {"tie_word_embeddings": False},
        weights | dict.fromkeys((SOURCE, TARGET), begun) | {SOFTMAX: weights[SHARED]},
    )
    assert_same_logits(model, text, formulas)


def test_forbidden_subwords_stay_forbidden_under_our_ids(tmp_path):
    write_marian_model(tmp_path, bad_words_ids=[[other := 7], [0], [4, 5]])
    _, text, decoding, *_ = read_hugging_face(tmp_path)
    assert f"forbidden_ids = ({[*text.target.ids].index(other)},)" in decoding
    assert "forbid_pad = False" in decoding


@pytest.mark.parametrize("kind", [np.float32, np.float16, bfloat16])
@pytest.mark.parametrize(("apart", "expected"), [(0, "halves"), (2, "concatenated")])
def test_positions_in_the_file_are_the_model_s(kind, apart, expected, tmp_path):
    weights = write_marian_model(tmp_path)
    weights |= dict.fromkeys(POSITIONS, sinusoids(D_MODEL, apart=apart).astype(kind))
    save_file(weights, tmp_path / "model.safetensors")
    assert read_hugging_face(tmp_path).model.positional_encoding.kind == expected


@pytest.mark.parametrize(
    ("tables", "named"),
    [
        ({POSITIONS[0]: sinusoids(D_MODEL, apart=2)}, "not the sinusoids"),
        (dict.fromkeys(POSITIONS, sinusoids(D_MODEL, apart=1)), "not the sinusoids"),
        (dict.fromkeys(POSITIONS, sinusoids(D_MODEL, 63)), r"\(63, 8\) for model.encoder"),
    ],
)
def test_other_positions_are_refused(tables, named, tmp_path):
    weights = write_marian_model(tmp_path)
    weights |= {name: table.astype(np.float32) for name, table in tables.items()}
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=named):
        read_hugging_face(tmp_path)


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "model.safetensors", "tf_model.h5", "source.spm"]
)
def test_a_pointer_of_git_lfs_is_called_one(name, tmp_path):
    write_marian_model(tmp_path)
    if name != "source.spm":
        (tmp_path / "model.safetensors").unlink()
    (tmp_path / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    with pytest.raises(UserError, match=f"{name} is a pointer of Git LFS"):
        read_hugging_face(tmp_path)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors", "tf_model.h5"])
def test_a_pickle_is_refused(name, tmp_path):
    class Program:
        def __reduce__(self):
            return (tmp_path / "ran").write_text, ("",)

    write_marian_model(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / name).write_bytes(pickle.dumps(Program()))
    with pytest.raises(UserError, match=name):
        read_hugging_face(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_an_imported_directory_is_complete_and_says_where_it_is_from(tmp_path):
    theirs = tmp_path / "theirs"
    write_marian_model(theirs)
    run = "import_marian", ["--model=theirs", "--model_dir=model"], ""
    (outcome,) = outcomes_of([run], tmp_path)
    assert outcome.status == 0, outcome.err
    marian = read_hugging_face(theirs)
    (ancestor,) = read_ancestry(ModelDirectory(tmp_path / "model").ancestry_json)
    assert (ancestor.model_dir, ancestor.checkpoint) == (str(theirs), "model.safetensors")
    assert ancestor.weights_sha256 == weights_hash(named_values(marian.model))
    translator = load_translator(tmp_path / "model")
    assert_same_weights(translator.model, marian.model)
    assert translator.settings.search == BeamSearch(3, 0.5, power_penalty)
    assert translator.settings.imported.forbid_pad
    assert translator.max_source_length == 64


def test_a_model_in_a_directory_is_found_or_both_are_named(tmp_path, monkeypatch):
    for step in (500, 1000):
        write_marian_model(tmp_path / f"checkpoint-{step}")
        (tmp_path / "tokenizer_config.json").write_text("{}")
        if step == 500:
            with model_files(tmp_path) as files:
                assert files.name == "checkpoint-500"
    with pytest.raises(UserError, match=r"checkpoint-1000, .*checkpoint-500"):
        model_files(tmp_path).__enter__()
    # Unless it is one itself.
    write_marian_model(tmp_path)
    monkeypatch.chdir(tmp_path)
    with model_files(tmp_path.relative_to(tmp_path)) as files:
        assert files == tmp_path


def test_a_model_of_the_hub(tmp_path, monkeypatch):
    """Where the hub's library has downloaded it."""
    pytest.importorskip("huggingface_hub")
    commit, name = "0123456789abcdef" * 2 + "01234567", "Helsinki-NLP/opus-mt-en-de"
    cached = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
    write_marian_model(cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(commit)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    flags = [f"--model={name}", "--model_dir=model"]
    wrong = ["--model=hub", "--model_dir=x", "--revision=a"], [*flags, "--revision=b"]
    commands = [("import_marian", one, "") for one in (flags, *wrong)]
    outcome, *refused = outcomes_of(commands, tmp_path)
    assert outcome.status == 0, outcome.err
    for one, said in zip(refused, ("--revision is for", "cannot download"), strict=True):
        assert said in one.err.splitlines()[-1]
    (ancestor,) = read_ancestry(ModelDirectory(tmp_path / "model").ancestry_json)
    assert (ancestor.model_dir, ancestor.checkpoint) == (name, f"model.safetensors@{commit}")
