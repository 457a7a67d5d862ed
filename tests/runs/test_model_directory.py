"""A model directory refuses what does not belong together, and reads older ones."""

import dataclasses
import json
import shutil

import pytest

from t2t_repro.errors import UserError
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.text.subword_model import SubwordPair
from tests.training.tiny import tiny_model


@pytest.mark.parametrize("rates", [{"dropout": 0.3}, {"relu_dropout": 0.1}])
def test_a_run_goes_on_with_another_dropout(copy, subwords, rates):
    model = tiny_model(dropout=0.1)
    config = dataclasses.replace(model.config, **rates)
    model = Transformer.from_config(model.get_config() | {"config": config.to_dict()})
    copy.write_metadata(model, subwords[0], "a = 2\n", "")
    assert copy.new_model().config == config
    assert copy.config_gin.read_text() == "a = 2\n"


def test_a_directory_that_is_older_than_an_option_has_its_default(copy, subwords):
    saved = json.loads(copy.model_json.read_text())
    older = {**saved, "config": dict(saved["config"]) | {"recompute": False}}
    for name in ("tied_embeddings", "source_vocab_size", "num_decoder_layers"):
        del older[name]
    del older["config"]["norm"], older["config"]["decoder_self_attention"]
    copy.model_json.write_text(json.dumps(older))
    model = copy.new_model()
    copy.write_metadata(model, subwords[0], "", "")
    assert json.loads(copy.model_json.read_text()) == saved


@pytest.mark.parametrize("sizes", [{"d_model": 32}, {"num_decoder_layers": 2}])
def test_a_directory_of_another_model_is_left_as_it_is(copy, subwords, sizes):
    before = copy.model_json.read_bytes()
    (name,) = sizes
    with pytest.raises(UserError, match=f"{name} .* there, .* now"):
        copy.write_metadata(tiny_model(**{"dropout": 0.1, **sizes}), subwords[0], "", "")
    assert copy.model_json.read_bytes() == before
    assert copy.config_gin.read_text() == "a = 1\n"


def test_a_directory_of_another_vocabulary_is_left_as_it_is(copy, subwords):
    with pytest.raises(UserError, match="has other subwords than the data"):
        copy.write_metadata(tiny_model(dropout=0.1), subwords[1], "", "")
    assert copy.subwords().contents() == subwords[0].contents()


def test_a_swapped_subword_model_is_refused(copy, subwords):
    shutil.copy(subwords[1].target.model_path, copy.path / "subwords.model")
    with pytest.raises(UserError, match="has other subwords than the model"):
        copy.subwords()


def test_a_start_that_was_killed_between_two_vocabularies_goes_on(tmp_path, subwords):
    directory = ModelDirectory(tmp_path)
    (one, _), (two, _) = subwords
    shutil.copy(one.model_path, tmp_path / "source_subwords.model")
    with pytest.raises(UserError, match="has other subwords than the data"):
        directory.write_metadata(tiny_model(), SubwordPair(two, one), "", "")
    directory.write_metadata(tiny_model(), SubwordPair(one, two), "", "")
    assert directory.subwords().contents() == SubwordPair(one, two).contents()


@pytest.mark.parametrize("name", ["model.json", "subwords.model"])
def test_a_file_that_is_missing_is_named(copy, name):
    (copy.path / name).unlink()
    for call in (copy.subwords, copy.checkpoint, copy.new_model, copy.load_model):
        with pytest.raises(UserError, match=name):
            call()


def test_the_folder_above_a_model_directory_names_it(copy):
    with pytest.raises(UserError, match=f"--model_dir={copy.path}"):
        ModelDirectory(copy.path.parent).sizes()


@pytest.mark.parametrize("damage", ["cut", "missing", "changed"])
def test_a_damaged_checkpoint_is_one_line(copy, run, damage):
    file = copy.checkpoints / "step-3.data-00000-of-00001"
    content = bytearray(file.read_bytes())
    content[content.index(run[1][3][0].tobytes()) + 5] ^= 0xFF
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(content if damage == "changed" else content[: len(content) // 2])
    with pytest.raises(UserError, match="step-3") as error:
        copy.load_model("latest")
    assert "\n" not in str(error.value)


CALL = {"module": "os", "class_name": "system", "config": {"name": "x"}}


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        # There is room for a larger model: an optimizer's moments are in the checkpoint too.
        ({"num_decoder_layers": 2}, "step-3 does not fit"),
        ({"vocab_size": 41}, "step-3 does not fit"),
        ({"logits_bias": True}, "step-3 does not fit"),
        # Refused before the model is built.
        ({"vocab_size": 10**12}, r"model\.json"),
        ({"num_layers": 10**9}, r"model\.json"),
        ({"config": {"d_model": 10**9}}, r"model\.json"),
        ({"config": {"unknown": 3}}, r"model\.json"),
        ({"max_length": 10**7, "positional_encoding": "learned"}, r"model\.json"),
        ({"dtype": CALL}, r"model\.json"),
    ],
)
def test_sizes_that_do_not_fit_the_checkpoint_are_one_line(copy, sizes, said):
    copy.model_json.write_text(json.dumps(json.loads(copy.model_json.read_text()) | sizes))
    with pytest.raises(UserError, match=said) as error:
        copy.load_model("latest")
    assert "\n" not in str(error.value)


def test_a_path_that_tensorflow_takes_for_a_pattern_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"run\[1\]"):
        ModelDirectory(tmp_path / "run[1]")


@pytest.mark.parametrize("text", ['{"vocab_size": 4', '{"no_size": 1}', "[" * 10**5])
def test_a_damaged_model_json_is_refused(copy, text):
    copy.model_json.write_text(text)
    with pytest.raises(UserError, match=r"model\.json does not describe a Transformer"):
        copy.new_model()
