"""Sizes of T2T's checkpoints, and settings that our Transformer does not have."""

import json

import pytest

from t2t_repro.errors import UserError
from t2t_repro.formats.tensor2tensor.hparams import (
    BODY,
    layer_config,
    number_of_layers,
    read_hparams,
)
from t2t_repro.model.layer_config import LayerConfig

# The sets transformer_base_v1, transformer_base_v3 and transformer_big of T2T 1.15, in part.
BASE_V1 = {
    "hidden_size": 512,
    "filter_size": 2048,
    "num_heads": 8,
    "num_hidden_layers": 6,
    "num_encoder_layers": 0,
    "num_decoder_layers": 0,
    "attention_key_channels": 0,
    "attention_value_channels": 0,
    "layer_preprocess_sequence": "none",
    "layer_postprocess_sequence": "dan",
    "layer_prepostprocess_dropout": 0.1,
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
    "pos": "timing",
    "norm_epsilon": 1e-6,
}
BASE_V3 = {
    **BASE_V1,
    "layer_preprocess_sequence": "n",
    "layer_postprocess_sequence": "da",
    "attention_dropout": 0.1,
    "relu_dropout": 0.1,
}
BIG = {
    **BASE_V3,
    "hidden_size": 1024,
    "filter_size": 4096,
    "num_heads": 16,
    "layer_prepostprocess_dropout": 0.3,
}


def shapes(d_model=512, d_ff=2048, normalization="post", layers=(6, 6), channels=None):
    keys, values = channels or (d_model, d_model)
    found = {}
    for stack, count in zip(("encoder", "decoder"), layers, strict=True):
        for i in range(count):
            layer = f"{BODY}/{stack}/layer_{i}"
            found[f"{layer}/ffn/conv1/kernel"] = [d_model, d_ff]
            for name, size in (("k", keys), ("v", values)):
                found[f"{layer}/self_attention/multihead_attention/{name}/kernel"] = [d_model, size]
        if normalization == "pre":
            norm = f"{BODY}/{stack}/layer_prepostprocess/layer_norm/layer_norm_scale"
            found[norm] = [d_model]
    return found


@pytest.mark.parametrize(
    ("hparams", "of_checkpoint", "expected"),
    [
        (BASE_V1, shapes(), LayerConfig(512, 2048, 8, 64, 64, 0.1, 0.0, 0.0, "post")),
        (
            BASE_V3,
            shapes(normalization="pre"),
            LayerConfig(512, 2048, 8, 64, 64, 0.1, 0.1, 0.1, "pre"),
        ),
        (
            BIG,
            shapes(1024, 4096, "pre"),
            LayerConfig(1024, 4096, 16, 64, 64, 0.3, 0.1, 0.1, "pre"),
        ),
        (
            {**BASE_V1, "attention_key_channels": 128, "attention_value_channels": 256},
            shapes(channels=(128, 256)),
            LayerConfig(512, 2048, 8, 16, 32, 0.1, 0.0, 0.0, "post"),
        ),
        (
            {"num_heads": 8},
            shapes(normalization="pre", channels=(128, 512)),
            LayerConfig(512, 2048, 8, 16, 64, 0.0, 0.0, 0.0, "pre"),
        ),
    ],
    ids=["base_v1", "base_v3", "big", "channels", "heads alone"],
)
def test_sizes(hparams, of_checkpoint, expected):
    assert layer_config(hparams, of_checkpoint) == expected
    assert number_of_layers(hparams, of_checkpoint) == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": 1024}, "hidden_size=1024, but the checkpoint has 512"),
        ({"filter_size": 4096}, "filter_size=4096, but the checkpoint has 2048"),
        ({"attention_key_channels": 256}, "attention_key_channels=256, but the checkpoint has 512"),
        ({"num_heads": 7}, "num_heads=7, expected a divisor of the 512 channels"),
        ({"num_heads": 0}, "num_heads=0, expected a divisor"),
        ({"num_heads": "8"}, "num_heads='8', expected a divisor"),
        ({"layer_preprocess_sequence": "n"}, "'n' and layer_postprocess_sequence='dan', expected"),
        (
            {"layer_preprocess_sequence": "n", "layer_postprocess_sequence": "da"},
            "for this checkpoint those of post-norm",
        ),
    ],
)
def test_layers_that_do_not_fit(change, message):
    with pytest.raises(UserError, match=message):
        layer_config({**BASE_V1, **change}, shapes())


@pytest.mark.parametrize(
    ("change", "layers", "message"),
    [
        ({}, (6, 5), "num_decoder_layers=6, but the checkpoint has 5"),
        ({"num_hidden_layers": 12}, (6, 6), "num_encoder_layers=12, but the checkpoint has 6"),
        ({"num_decoder_layers": 5}, (6, 5), "6 encoder and 5 decoder layers, expected one number"),
    ],
)
def test_numbers_of_layers_that_do_not_fit(change, layers, message):
    with pytest.raises(UserError, match=message):
        number_of_layers({**BASE_V1, **change}, shapes(layers=layers))


def test_what_is_no_transformer():
    with pytest.raises(UserError, match="no matrix transformer/body/encoder/layer_0/ffn/conv1"):
        layer_config(BASE_V1, {"resnet/body/kernel": [3, 3, 64, 64]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pos": "emb"}, "pos='emb', expected 'timing'"),
        ({"self_attention_type": "dot_product_relative"}, "self_attention_type="),
        ({"shared_embedding_and_softmax_weights": False}, "shared_embedding_and_softmax_weights="),
        ({"multiply_embedding_mode": "none"}, "multiply_embedding_mode="),
        ({"norm_epsilon": 1e-3}, "norm_epsilon=0.001"),
        ({"ffn_layer": "conv_relu_conv"}, "ffn_layer="),
        ({"proximity_bias": True}, "proximity_bias=True"),
        ({"num_area_layers": 2}, "num_area_layers=2"),
    ],
)
def test_models_that_ours_is_not(tmp_path, change, message):
    path = tmp_path / "hparams.json"
    path.write_text(json.dumps(BASE_V1))
    assert read_hparams(path) == BASE_V1
    path.write_text(json.dumps({**BASE_V1, **change}))
    with pytest.raises(UserError, match=message):
        read_hparams(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ("{", "cannot be read"),
        ("[]", "has no num_heads"),
        ('{"hidden_size": 8}', "has no num_heads"),
    ],
)
def test_what_is_no_hparams_file(tmp_path, content, message):
    path = tmp_path / "hparams.json"
    if content:
        path.write_text(content)
    with pytest.raises(UserError, match=message) as error:
        read_hparams(path)
    assert "\n" not in str(error.value)
