"""Settings of Marian models: honoured, refused by name, or named in a warning."""

import json
from typing import Any

import pytest

from t2t_repro.errors import UserError
from t2t_repro.formats.marian.config import read_marian_config
from tests.formats.marian.marian_directory import read, write_marian_model
from tests.real_corpora import shared_folder


@pytest.fixture
def folder(tmp_path):
    write_marian_model(tmp_path)
    return tmp_path


def change(folder, fields, name="config.json"):
    path = folder / name
    path.write_text(json.dumps((read(path) if path.exists() else {}) | fields))


def test_the_search_is_what_the_model_came_with(folder):
    assert read_marian_config(folder).decoding.splitlines()[1:] == [
        "BeamSearch.beam_size = 3",
        "BeamSearch.length_penalty = 0.5",
        "BeamSearch.penalty = @power_penalty",
        "Translator.forbid_pad = True",
        "Translator.renormalize = False",
        "Translator.max_extra_length = 50",
    ]


def test_generation_config_counts_alone_where_there_is_one(folder):
    pad = read(folder / "config.json")["pad_token_id"]
    settings = {"num_beams": 6, "bad_words_ids": [[pad]], "renormalize_logits": True}
    change(folder, settings, "generation_config.json")
    decoding = read_marian_config(folder).decoding
    assert "beam_size = 6" in decoding
    assert "length_penalty = 1.0" in decoding
    assert "renormalize = True" in decoding
    (folder / "generation_config.json").write_text("{}")
    decoding = read_marian_config(folder).decoding
    assert "beam_size = 1" in decoding
    assert "forbid_pad = False" in decoding


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
        {"bad_words_ids": [[3]]},
        {"do_sample": True},
    ],
    ids=str,
)
def test_a_field_that_decides_is_refused_by_name(folder, fields):
    change(folder, fields)
    ((name, value),) = fields.items()
    with pytest.raises(UserError) as refused:
        read_marian_config(folder)
    assert f"{name} = {value!r}, expected" in str(refused.value)


def test_unknown_fields_are_named_once_unless_they_say_nothing(folder, caplog):
    nothing: dict[str, Any] = {"new": False, "newer": None, "other": 0, "another": "", "last": {}}
    change(folder, nothing)
    read_marian_config(folder)
    assert not caplog.records
    change(folder, {"new": True, "newer": [3], "num_labels": 3})
    read_marian_config(folder)
    (record,) = caplog.records
    assert "new = True, newer = [3]" in record.getMessage()
    assert "num_labels" not in record.getMessage()


def test_all_published_configurations_are_read(tmp_path, caplog):
    models = read(shared_folder("marian") / "published_configs.json")["models"]
    whole = [model for model in models if model["seen"] == "real file"]
    assert len(whole) >= 20
    for model in whole:
        for name in ("config.json", "generation_config.json"):
            (tmp_path / name).write_text(json.dumps(model.get(name, model["config.json"])))
        read_marian_config(tmp_path)
        assert not caplog.records, model["model"]
