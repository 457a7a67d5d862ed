"""Marian models of Hugging Face: what they compute, and what cannot be imported."""

import json

import h5py
import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.formats.marian.config import read_marian_config
from t2t_repro.formats.marian.hugging_face_import import transformer_from_marian, weights_file
from t2t_repro.formats.marian.safetensors_file import write_safetensors
from t2t_repro.formats.marian.text import read_marian_text
from t2t_repro.formats.marian.weights import OWN_TABLES, SHARED, weights_of
from tests.formats.marian.marian_directory import read, write_h5, write_marian_model
from tests.marian_formulas import Marian


def loaded(folder):
    config = read_marian_config(folder)
    text = read_marian_text(folder)
    return transformer_from_marian(folder, config, text, weights_file(folder)), text


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("shares", [True, False])
def test_logits_are_those_of_the_formulas(shares, ties, tmp_path):
    weights = write_marian_model(tmp_path, shares, ties)
    model, text = loaded(tmp_path)
    kinds = {(True, True): "all", (True, False): "source_target", (False, True): "target_softmax"}
    assert model.tied_embeddings == kinds.get((shares, ties), "none")
    config = read(tmp_path / "config.json") | {"normalize_before": False}
    rng = np.random.default_rng(1)
    source = [*rng.integers(3, 50, 7), 1]
    target = [*rng.integers(3, 50, 5), 1]
    found = model((np.array([source], np.int32), np.array([target], np.int32)))[0].numpy()
    theirs = text.source.ids[source].tolist(), text.target.ids[target].tolist()
    if shares:
        # Theirs make one tensor of these three.
        weights |= dict.fromkeys(OWN_TABLES.values(), weights[SHARED])
    expected = Marian(config, weights).logits(theirs[0], theirs[1])
    np.testing.assert_allclose(found, expected[:, text.target.ids], atol=2e-5)


def test_every_weight_has_one_name(tmp_path):
    weights = write_marian_model(tmp_path, False, False)
    model, text = loaded(tmp_path)
    found = {weight.name: weight for weight in weights_of(model)}
    assert found.keys() == weights.keys()
    assert len({id(weight.variable) for weight in found.values()}) == len(model.trainable_variables)
    sides = {"source": text.source, "target": text.target}
    for name, weight in found.items():
        value = weight.theirs(np.array(weight.variable))
        assert value.shape == weight.shape == weights[name].shape
        if weight.rows:
            order = np.argsort(sides[weight.rows].ids)
            value = value[:, order] if name == "final_logits_bias" else value[order]
        np.testing.assert_array_equal(value, weights[name])


def test_tf_model_h5_holds_the_same(tmp_path):
    write_marian_model(tmp_path / "a")
    write_marian_model(tmp_path / "b", weights="h5")
    ours, theirs = (loaded(tmp_path / name)[0] for name in "ab")
    for weight, other in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, other)


def test_decoding_is_what_the_model_came_with(tmp_path):
    write_marian_model(tmp_path)
    decoding = read_marian_config(tmp_path).decoding
    expected = [
        "BeamSearch.beam_size = 3",
        "BeamSearch.length_penalty = 0.5",
        "BeamSearch.penalty = @power_penalty",
        "Translator.forbid_pad = True",
        "Translator.renormalize = False",
        "Translator.max_extra_length = 50",
    ]
    assert decoding.splitlines()[1:] == expected
    # A file of its own has all that counts.
    pad = read(tmp_path / "config.json")["pad_token_id"]
    given = {"num_beams": 6, "bad_words_ids": [[pad]], "renormalize_logits": True}
    (tmp_path / "generation_config.json").write_text(json.dumps(given))
    lines = read_marian_config(tmp_path).decoding.splitlines()[1:]
    assert lines[:2] == ["BeamSearch.beam_size = 6", "BeamSearch.length_penalty = 1.0"]
    assert "Translator.renormalize = True" in lines
    (tmp_path / "generation_config.json").write_text("{}")
    lines = read_marian_config(tmp_path).decoding.splitlines()[1:]
    assert lines[0] == "BeamSearch.beam_size = 1"
    assert "Translator.forbid_pad = False" in lines


def test_what_need_not_be_there_may_be_if_it_is_the_same(tmp_path):
    weights = write_marian_model(tmp_path)
    shared = weights["model.shared.weight"]
    angles = np.arange(64)[:, None] / 10000 ** (np.arange(0, 8, 2) / 8)
    positions = np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
    copies = {"lm_head.weight": shared, "model.encoder.embed_positions.weight": positions}
    path = tmp_path / "model.safetensors"
    write_safetensors(path, weights | copies)
    loaded(tmp_path)
    for name, value in copies.items():
        write_safetensors(path, weights | copies | {name: value + 1})
        with pytest.raises(UserError, match=f"model.safetensors has {name}"):
            loaded(tmp_path)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"model_type": "bart"}, r"config.json has model_type 'bart', expected 'marian': give"),
        ({"model_type": "t5"}, r"config.json has model_type 't5', expected 'marian': give"),
        ({"activation_function": "snake"}, r"activation_function = 'snake', expected one of gelu"),
        ({"activation_function": ["relu"]}, r"activation_function = \['relu'\], expected one of"),
        ({"encoder_layers": 3}, r"decoder_layers = 2, expected encoder_layers, which is 3: only"),
        ({"decoder_attention_heads": 4}, r"decoder_attention_heads = 4, expected encoder_att"),
        ({"d_model": 7}, r"config.json describes no Transformer: LayerConfig.d_model is 7"),
        ({"d_model": "8"}, r"d_model = '8', expected a size"),
        ({"d_model": None}, r"d_model = None, expected a size"),
        (
            {"vocab_size": 10**8, "decoder_vocab_size": 10**8},
            r"the shape \[1, \d+\] for final_logits_bias",
        ),
        (
            {"vocab_size": 20, "decoder_vocab_size": 20},
            r"for final_logits_bias, expected \[1, 20\] as",
        ),
        ({"decoder_vocab_size": 9}, r"decoder_vocab_size 9, expected the same with share_enc"),
        (
            {"decoder_ffn_dim": 10**6, "encoder_ffn_dim": 10**6},
            r"\[12, 8\] for .*1000000, 8\] as",
        ),
        ({"encoder_layers": 999, "decoder_layers": 999}, r"has no model.decoder.layers.998.fc1"),
        ({"encoder_layers": 1, "decoder_layers": 1}, r"has model.decoder.layers.1.encoder_attn"),
        ({"normalize_before": True}, r"normalize_before = True, expected False: only models"),
        ({"scale_embedding": False}, r"scale_embedding = False, expected True"),
        ({"decoder_layerdrop": 0.1}, r"decoder_layerdrop = 0.1, expected 0"),
        ({"decoder_start_token_id": 3}, r"decoder_start_token_id = 3, expected \d+"),
        ({"eos_token_id": 5}, r"forced_eos_token_id = 0, expected 5"),
        ({"dropout": 2}, r"describes no Transformer: LayerConfig.dropout is 2, .* below 1\.$"),
        ({"dropout": "x"}, r"dropout = 'x', expected a number"),
        ({"tie_word_embeddings": 1}, r"tie_word_embeddings = 1, expected true or false"),
        ({"new_thing": 1}, r"new_thing = 1, expected no such field: only models"),
        ({"architectures": ["MarianModel"]}, r"architectures = \['MarianModel'\], expected \['"),
        ({"num_beams": 0}, r"num_beams = 0, expected a size"),
        ({"num_beams": 10**6}, r"num_beams = 1000000, expected at most 1024: only models"),
        ({"length_penalty": -1}, r"length_penalty = -1, expected a number from 0 to 100"),
        ({"bad_words_ids": [[3]]}, r"bad_words_ids = \[\[3\]\], expected \[\["),
        ({"do_sample": True}, r"do_sample = True, expected False"),
        ({"no_repeat_ngram_size": 3}, r"no_repeat_ngram_size = 3, expected 0"),
        ({"forced_bos_token_id": 3}, r"forced_bos_token_id = 3, expected no such field"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_imported(more, message, tmp_path):
    write_marian_model(tmp_path, **more)
    with pytest.raises(UserError, match=message):
        loaded(tmp_path)


def test_special_ids_are_those_of_the_vocabulary(tmp_path):
    write_marian_model(tmp_path, eos_token_id=1, forced_eos_token_id=1)
    with pytest.raises(UserError, match=r"eos_token_id = 1, but the vocab.* source has it at 0"):
        loaded(tmp_path)


def test_a_vocabulary_that_is_too_large(tmp_path):
    write_marian_model(tmp_path)
    pieces = read(tmp_path / "vocab.json")
    (tmp_path / "vocab.json").write_text(json.dumps(pieces | {"more": len(pieces)}))
    with pytest.raises(UserError, match=r"vocabulary of \d+ pieces, but config.json has room for"):
        loaded(tmp_path)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda w: w.pop("lm_head.weight"), r"no such weight for lm_head.weight, expected \["),
        (lambda w: w.update({"score.weight": np.ones((2, 2))}), "has score.weight, expected the"),
        (
            lambda w: w.update({"final_logits_bias": np.ones((1, 3))}),
            r"the shape \[1, 3\] for final_logits_bias, expected \[1, ",
        ),
        (
            lambda w: w["lm_head.weight"].fill(np.nan),
            "not finite in lm_head.weight: give",
        ),
        (
            lambda w: w["model.shared.weight"].fill(1.0),
            "numbers in the row of PAD, with which the decoder begins, expected zeros",
        ),
    ],
)
def test_weights_that_do_not_fit(spoil, message, tmp_path):
    weights = write_marian_model(tmp_path, True, False)
    spoil(weights)
    write_safetensors(tmp_path / "model.safetensors", weights)
    with pytest.raises(UserError, match=message):
        loaded(tmp_path)


def test_pytorch_s_own_file_is_converted_with_the_command_of_the_message(tmp_path):
    write_marian_model(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"pytorch_model.bin alone, .* python -c \"from transform"):
        weights_file(tmp_path)
    (tmp_path / "pytorch_model.bin").rename(tmp_path / "model.safetensors.index.json")
    with pytest.raises(
        UserError, match=r"weights in several files, expected .* python -c \"from t"
    ):
        weights_file(tmp_path)
    (tmp_path / "model.safetensors.index.json").unlink()
    with pytest.raises(UserError, match=r"has no weights, expected model.safetensors or tf_mod"):
        weights_file(tmp_path)


@pytest.mark.parametrize("kind", ["link", "outside", "compressed", "int8", "nested"])
def test_h5_that_could_do_more_than_hold_numbers(kind, tmp_path):
    weights = write_marian_model(tmp_path, weights="h5")
    (tmp_path / "model.safetensors").unlink(missing_ok=True)
    path = tmp_path / "tf_model.h5"
    write_h5(path, weights)
    with h5py.File(path, "a") as file:
        if kind == "link":
            file["more"] = h5py.ExternalLink("/etc/passwd", "/")
        elif kind == "outside":
            file.create_dataset("more", (4,), "f4", external=[("/etc/passwd", 0, 16)])
        elif kind == "compressed":
            file.create_dataset("more", (1000,), "f4", compression="gzip", data=np.zeros(1000))
        elif kind == "int8":
            file["more"] = np.zeros(3, np.int8)
        else:
            file.create_group("/".join("x" * 30))
    with pytest.raises(UserError, match=r"tf_model.h5 cannot be used \(.*\), expected a tf_model"):
        weights_file(tmp_path)
