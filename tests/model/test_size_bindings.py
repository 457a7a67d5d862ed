"""The sizes of a model as gin has them: they make such a model."""

from typing import Any

import gin
import pytest

from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.size_bindings import size_bindings
from t2t_repro.model.transformer import Transformer

MODELS = [
    Transformer(90),
    Transformer(
        90,
        2,
        LayerConfig(16, 24, 2, activation="swish", attention_biases=True, norm_epsilon=1e-5),
        positional_encoding="halves",
        logits_bias=True,
    ),
    Transformer(
        90,
        1,
        LayerConfig(16, 24, 2, d_k=3, normalization="pre"),
        positional_encoding="learned",
        max_length=50,
        tied_embeddings="none",
        source_vocab_size=80,
    ),
]


@pytest.mark.parametrize("model", MODELS)
def test_bindings_make_a_model_of_the_same_sizes(model):
    text = size_bindings(model)
    gin.clear_config()
    gin.parse_config(text)
    rows: dict[str, Any] = {"vocab_size": 90}
    if model.own_source_embedding:
        rows["source_vocab_size"] = 80
    again = Transformer(**rows)
    gin.clear_config()
    assert {**again.get_config(), "name": ""} == {**model.get_config(), "name": ""}
    assert "vocab_size" not in text


def test_what_is_the_paper_s_is_left_out():
    assert size_bindings(MODELS[0]) == ""
    assert "LayerConfig.activation = 'swish'\n" in size_bindings(MODELS[1])
