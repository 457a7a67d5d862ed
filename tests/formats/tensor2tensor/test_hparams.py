"""Sizes of T2T's checkpoints, and settings that our Transformer does not have."""

import pytest

from t2t_repro.errors import UserError
from t2t_repro.formats.tensor2tensor.hparams import (
    BODY,
    layer_config,
    numbers_of_layers,
)
from t2t_repro.model.layer_config import LayerConfig

# The sets transformer_base_v1 and transformer_base_v3 of T2T 1.15, in part.
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
PRE_NORM = {"layer_preprocess_sequence": "n", "layer_postprocess_sequence": "da"}
BASE_V3 = {**BASE_V1, **PRE_NORM, "attention_dropout": 0.1, "relu_dropout": 0.1}
CHANNELS = {"attention_key_channels": 128, "attention_value_channels": 256}


def shapes(d_model=512, d_ff=2048, normalization="post", layers=(6, 6), channels=None):
    keys, values = channels or (d_model, d_model)
    result = {}
    for stack, count in zip(("encoder", "decoder"), layers, strict=True):
        for i in range(count):
            layer = f"{BODY}/{stack}/layer_{i}"
            result[f"{layer}/ffn/conv1/kernel"] = [d_model, d_ff]
            for name, size in (("k", keys), ("v", values)):
                kernel = f"{layer}/self_attention/multihead_attention/{name}/kernel"
                result[kernel] = [d_model, size]
        if normalization == "pre":
            norm = f"{BODY}/{stack}/layer_prepostprocess/layer_norm/layer_norm_scale"
            result[norm] = [d_model]
    return result


BASE, PRE = shapes(), shapes(normalization="pre")


@pytest.mark.parametrize(
    ("hparams", "checkpoint", "expected"),
    [
        (BASE_V1, BASE, LayerConfig(512, 2048, 8, 64, 64, 0.1, 0.0, 0.0, "post")),
        (BASE_V3, PRE, LayerConfig(512, 2048, 8, 64, 64, 0.1, 0.1, 0.1, "pre")),
        (
            BASE_V1 | CHANNELS,
            shapes(channels=(128, 256)),
            LayerConfig(512, 2048, 8, 16, 32, 0.1, 0.0, 0.0, "post"),
        ),
        ({"num_heads": 8}, PRE, LayerConfig(512, 2048, 8, 64, 64, 0.0, 0.0, 0.0, "pre")),
    ],
    ids=["base_v1", "base_v3", "channels", "heads alone"],
)
def test_sizes(hparams, checkpoint, expected):
    assert layer_config(hparams, checkpoint) == expected
    assert numbers_of_layers(checkpoint) == (6, 6)


def test_heads_that_do_not_fit_are_named():
    with pytest.raises(UserError, match="num_heads=7"):
        layer_config({**BASE_V1, "num_heads": 7}, BASE)
    assert numbers_of_layers(shapes(layers=(6, 5))) == (6, 5)
