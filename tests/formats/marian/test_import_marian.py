"""Marian models of Hugging Face, imported by the command line; and what Hugging Face computed.

The reference values are not in the repository; see `real_corpora`.
"""

import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (its operations)

from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.decoding.loading import load_translator
from t2t_repro.decoding.pair_scores import padded
from t2t_repro.decoding.search import power_penalty
from t2t_repro.decoding.translator import Translator, TranslatorSettings
from t2t_repro.formats.marian.config import read_marian_config
from t2t_repro.formats.marian.hugging_face_import import transformer_from_marian, weights_file
from t2t_repro.formats.marian.text import read_marian_text
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.records import read_ancestry, weights_hash
from t2t_repro.runs.weights import named_values
from t2t_repro.vocabulary import PAD_ID
from tests.commands import outcomes_of
from tests.formats.marian.marian_directory import write_marian_model
from tests.real_corpora import shared_folder

LINES = ["the quick brown fox", "a man in a blue shirt!", "", ">>deu<< the dogs"]


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """A folder with a model of theirs, `theirs`, imported as `model`."""
    folder = tmp_path_factory.mktemp("imported")
    write_marian_model(folder / "theirs")
    (folder / "lines").write_text("".join(f"{line}\n" for line in LINES))
    flags = ["--model=theirs", "--model_dir=model"]
    (outcome,) = outcomes_of([("import_marian", flags, "")], folder)
    assert outcome.status == 0, outcome.err
    assert "parameters of" in outcome.err
    return folder


def test_the_directory_is_complete_in_itself_and_says_where_it_is_from(imported):
    theirs = imported / "theirs"
    config = read_marian_config(theirs)
    text, weights = read_marian_text(theirs), weights_file(theirs)
    model = transformer_from_marian(theirs, config, text, weights)
    directory = ModelDirectory(imported / "model")
    found = directory.load_model()
    for ours, other in zip(found.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, other)
    (ancestor,) = read_ancestry(directory.ancestry_json)
    assert (ancestor.model_dir, ancestor.checkpoint) == (str(theirs), "model.safetensors")
    assert ancestor.weights_sha256 == weights_hash(named_values(found))
    assert directory.config_gin.read_text().startswith(config.decoding)
    assert not list(imported.glob(".*"))


def test_it_translates_as_its_settings_say_and_is_served_alike(imported):
    commands = [
        ("translate", ["--model_dir=model", "--input=lines"], ""),
        ("export", ["--model_dir=model", "--export_dir=servable"], ""),
        ("export", ["--model_dir=model", "--export_dir=engine", "--format=ctranslate2"], ""),
        ("score", ["--model_dir=model", "--source=lines", "--target=lines"], ""),
    ]
    outcomes = outcomes_of(commands, imported)
    assert [outcome.status for outcome in outcomes] == [0] * 4, [o.err for o in outcomes]
    served = tf.saved_model.load(str(imported / "servable" / "1")).signatures["serving_default"]
    texts = served(source=tf.constant(LINES))["translation"].numpy()
    assert b"".join(text + b"\n" for text in texts).decode() == outcomes[0].out
    assert len({*outcomes[0].out.splitlines()}) > 2
    translator = load_translator(imported / "model")
    search = translator.settings.search
    assert isinstance(search, BeamSearch)
    assert (search.beam_size, search.length_penalty, search.penalty) == (3, 0.5, power_penalty)
    assert translator.settings.forbid_pad
    assert translator.max_source_length == 64


def test_exported_and_imported_again_its_sentences_are_no_longer(imported):
    commands = [
        ("export", ["--model_dir=model", "--export_dir=hub", "--format=hugging_face"], ""),
        ("import_marian", ["--model=hub", "--model_dir=again"], ""),
    ]
    outcomes = outcomes_of(commands, imported)
    assert [outcome.status for outcome in outcomes] == [0, 0], [o.err for o in outcomes]
    bindings = (imported / "again" / "operative_config.gin").read_text()
    assert "Translator.max_source_length = 64" in bindings


def test_what_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    weights = tmp_path / "theirs" / "model.safetensors"
    write_marian_model(weights.parent)
    weights.write_bytes(weights.read_bytes()[:-1])
    flags = ["--model=theirs", "--model_dir=model"]
    missing = ["--model=no-such-owner/no-such-model", "--model_dir=model"]
    (tmp_path / "t5").mkdir()
    (tmp_path / "t5" / "config.json").write_text('{"model_type": "t5"}')
    other_kind = ["--model=t5", "--model_dir=model"]
    truncated, absent, other = outcomes_of(
        [("import_marian", given, "") for given in (flags, missing, other_kind)], tmp_path
    )
    assert (truncated.status, absent.status, other.status) == (2, 2, 2)
    assert other.err.splitlines()[-1].startswith("error: t5/config.json has model_type 't5', expec")
    assert truncated.err.splitlines()[-1].startswith("error: theirs/model.safetensors cannot be")
    last = absent.err.splitlines()[-1]
    assert "pip install 't2t_repro[hub]'" in last or "cannot be downloaded from the Hug" in last
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"theirs", "t5"}


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_model_of_the_hub(name, tmp_path, monkeypatch):
    """Where the hub's library has brought it, without a network."""
    pytest.importorskip("huggingface_hub")
    commit, hub_name = "0123456789abcdef" * 2 + "01234567", "Helsinki-NLP/opus-mt-en-de"
    there = tmp_path / "hub" / f"models--{hub_name.replace('/', '--')}"
    folder = there / "snapshots" / commit
    write_marian_model(folder)
    (folder / "model.safetensors").rename(folder / name)
    (there / "refs").mkdir()
    (there / "refs" / "main").write_text(commit)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    flags = [f"--model={hub_name}", "--model_dir=model"]
    (outcome,) = outcomes_of([("import_marian", flags, "")], tmp_path)
    if name == "model.safetensors":
        assert outcome.status == 0, outcome.err
        (ancestor,) = read_ancestry(ModelDirectory(tmp_path / "model").ancestry_json)
        assert (ancestor.model_dir, ancestor.checkpoint) == (hub_name, f"{name}@{commit}")
    else:
        assert outcome.status == 2
        last = outcome.err.splitlines()[-1]
        assert "has no model.safetensors or tf_model.h5 on the hub: convert it once, " in last
        assert f"from_pretrained('{hub_name}', revision='{commit}')" in last
        assert not (tmp_path / "model").exists()


# What Hugging Face computed


@pytest.fixture(scope="module")
def oracle():
    """Its folder, the model, its text, and of every id of theirs that of ours."""
    folder = shared_folder("marian_oracle")
    config, text = read_marian_config(folder), read_marian_text(folder)
    model = transformer_from_marian(folder, config, text, weights_file(folder))
    return folder, model, text, np.argsort(text.target.ids)


def test_encoder_logits_and_losses_are_theirs(oracle):
    folder, model, text, ours = oracle
    with np.load(folder / "oracle.npz") as values:
        source, target = (ours[values[f"{side}_ids"]] for side in ("source", "target"))
        tokens = source != PAD_ID
        found = model.encode(source.astype(np.int32)).numpy()
        np.testing.assert_allclose(found[tokens], values["encoder_output"][tokens], atol=1e-4)
        pair = source.astype(np.int32), target.astype(np.int32)
        expected = values["logits"][..., text.target.ids]
        np.testing.assert_allclose(model(pair), expected, atol=1e-4)
        nll = -model.token_log_probabilities(*pair).numpy()
        np.testing.assert_allclose(nll, values["nll_per_token"], atol=1e-4)


def translated(translator, subwords, lines, ours):
    """Of every line: ids with EOS, text, score, and whether it has ended."""
    sources = tf.constant(padded([ours[line["source_ids"]].tolist() for line in lines]))
    found = tf.function(translator.search_batch, autograph=False)(sources, 1)
    for row, ids in enumerate(found.ids.numpy()[:, 0].tolist()):
        kept = [token for token in ids if token != PAD_ID]
        score, has_ended = float(found.scores[row, 0]), bool(found.finished[row])
        yield kept, subwords.target.decode(kept), score, has_ended


@pytest.mark.parametrize(
    ("search", "least"), [(BeamSearch(4, 1.0, power_penalty), 45), (BeamSearch(4, 0.6), 30)]
)
def test_how_many_translations_of_beam_4_are_theirs(search, least, oracle, tmp_path):
    """All 45 with the imported penalty, which is theirs; with the paper's, 33."""
    folder, model, text, ours = oracle
    subwords = text.write(tmp_path)
    lines = json.loads((folder / "translations.json").read_text())
    translator = Translator(
        [model], subwords, TranslatorSettings(search, max_extra_length=49, forbid_pad=True)
    )
    found = list(translated(translator, subwords, lines, ours))
    pairs = list(zip(lines, found, strict=True))
    assert sum(decoded == line["beam4"] for line, (_, decoded, *_) in pairs) >= least
    for line, (_, _, score, has_ended) in pairs:
        if search.penalty is power_penalty and has_ended:
            assert score == pytest.approx(line["beam4_score"], abs=1e-4)
