"""Settings of Marian models: honoured, refused by name, or named in a warning."""

import json
from typing import Any

import pytest

from t2t_repro.errors import UserError
from t2t_repro.formats.hugging_face.model import read_config
from tests.formats.hugging_face.directory import read, write_marian_model
from tests.real_corpora import shared_folder


@pytest.fixture
def folder(tmp_path):
    write_marian_model(tmp_path)
    return tmp_path


def change(folder, fields, name="config.json"):
    path = folder / name
    path.write_text(json.dumps((read(path) if path.exists() else {}) | fields))


def test_generation_config_counts_alone_where_there_is_one(folder):
    pad = read(folder / "config.json")["pad_token_id"]
    settings = {"num_beams": 6, "bad_words_ids": [[pad]], "renormalize_logits": True}
    change(folder, settings, "generation_config.json")
    config = read_config(folder)
    assert [*config.search.values()] == [6, 1.0, "@power_penalty", 50]
    assert (config.forbidden, config.renormalizes) == ([pad], True)
    (folder / "generation_config.json").write_text("{}")
    config = read_config(folder)
    assert config.search["BeamSearch.beam_size"] == 1
    assert (config.forbidden, config.renormalizes) == ([], False)


@pytest.mark.parametrize(
    "fields",
    [
        {"model_type": "t5"},
        {"activation_function": "snake"},
        {"decoder_layers": 0},
        {"decoder_ffn_dim": 13},
        {"d_model": "8"},
        {"normalize_before": True},
        {"decoder_start_token_id": 3},
        {"scale_embedding": None},
        {"num_beams": "4"},
    ],
    ids=str,
)
def test_a_field_that_decides_is_refused_by_name(folder, fields):
    change(folder, fields)
    ((name, value),) = fields.items()
    with pytest.raises(UserError) as refused:
        read_config(folder)
    assert f"{name} = {value!r}, expected" in str(refused.value)


LACKING = {
    "bad_words_ids": [[3, 4], [10**6]],
    "do_sample": True,
    "forced_bos_token_id": 5,
    "length_penalty": -0.5,
    "min_length": 4,
    "no_repeat_ngram_size": 3,
    "repetition_penalty": 1.2,
}


def test_settings_of_the_search_that_ours_lacks_are_one_warning(folder, caplog):
    change(folder, {"num_beams": 5, "num_beam_groups": 1, **LACKING}, "generation_config.json")
    search = read_config(folder).search
    assert (search["BeamSearch.beam_size"], search["BeamSearch.length_penalty"]) == (5, 0.0)
    (record,) = caplog.records
    for name in LACKING:
        assert f"{name} = " in record.getMessage()
    assert "num_beam_groups" not in record.getMessage()


def test_config_has_no_say_in_the_search_where_there_is_a_generation_config(folder, caplog):
    change(folder, {**LACKING, "eos_token_id": 3, "forced_eos_token_id": 4})
    pad = read(folder / "config.json")["pad_token_id"]
    settings = {"eos_token_id": [0], "decoder_start_token_id": pad}
    change(folder, settings, "generation_config.json")
    assert read_config(folder).eos == 0
    assert not caplog.records


def test_unknown_fields_are_named_once_unless_they_say_nothing(folder, caplog):
    nothing: dict[str, Any] = {"new": False, "newer": None, "other": 0, "another": "", "last": {}}
    change(folder, nothing)
    read_config(folder)
    assert not caplog.records
    change(folder, {"new": True, "newer": [3], "num_labels": 3})
    read_config(folder)
    (record,) = caplog.records
    assert "new = True, newer = [3]" in record.getMessage()
    assert "num_labels" not in record.getMessage()


@pytest.fixture(scope="module")
def published():
    return read(shared_folder("marian") / "published_configs.json")


SCALE = "scale_embedding = None, expected True"
# Models of which only some fields are quoted, and why they are refused. All others are read.
INCOMPLETE = {
    "Helsinki-NLP/opus-mt-en-de as a dict in a model-card test (transformers 4.9, to_dict)": SCALE,
    "a custom model of MarianMTModel (zh-th tokenizer script)": "vocab_size = None",
    "opus-mt-en-jap (vocab 46276)": SCALE,
}


def test_all_published_models_that_are_whole_are_read(published, tmp_path, caplog):
    refused = {}
    for model in published["models"]:
        for name in ("config.json", "generation_config.json"):
            (tmp_path / name).write_text(json.dumps(model.get(name, model["config.json"])))
        try:
            described = read_config(tmp_path)
        except UserError as error:
            refused[model["model"]] = str(error)
            continue
        assert not caplog.records, model["model"]
        sizes, config = described.model, model["config.json"]
        assert sizes["config"].d_model == config["d_model"]
        assert sizes["vocab_size"] == config["vocab_size"]
    for name, reason in INCOMPLETE.items():
        assert reason in refused.pop(name)
    assert not refused


@pytest.mark.parametrize("kind", ["marian", "bart"])
@pytest.mark.parametrize("lacks", [None, "_num_labels", "bad_words_ids", "max_length"])
def test_the_1010_models_of_2020_are_read(published, kind, lacks, tmp_path, caplog):
    """Their constant fields with each that varies, or that some lack."""
    own = {"pad_token_id": 7, "decoder_start_token_id": 7, "bad_words_ids": [[7]], "vocab_size": 8}
    fields = published["all_1010_of_2020"]["constant_fields"] | own | {"model_type": kind}
    change(tmp_path, {name: value for name, value in fields.items() if name != lacks})
    described = read_config(tmp_path)
    assert (described.pad, described.eos, described.model["num_layers"]) == (7, 0, 6)
    assert not caplog.records
