"""A small translator of odd sentences: random weights, and a vocabulary of few words."""

from dataclasses import replace

import numpy as np

from t2t_repro.decoding.translator import Translator
from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.text.training import SubwordTraining
from t2t_repro.vocabulary import EOS_ID
from tests.layer_test import randomize

TEXT = ["the red bird sees a tree", "a blue house", "the river, the stone and the cloud"] * 9
ODD_LINES = [
    *("the red bird", "", "   ", "\u2028", "\t\r", "a", "a tree\u2028a house", "the\tred\tbird"),
    *("🙂👩‍👩‍👧", "𒀀𒀁 Ω", "\u200b", "\ufeff"),
    *("word " * 2000, "x" * 10_000, "a ⁇ \u2581 b", "the red bird"),
]


def write_subwords(path):
    return SubwordTraining(vocab_size=300).train(TEXT, path)


def with_search(translator, search):
    """A translator that differs in its search only."""
    settings = replace(translator.settings, search=search)
    return Translator(translator.models, translator.subwords, settings)


def random_model(
    subwords, dtype="float32", d_model=16, num_layers=1, seed=2, layer=None, rows=20, **sizes
):
    """Inclined to end its sentences, so that finished and unfinished hypotheses are seen."""
    config = LayerConfig(d_model=d_model, d_ff=16, num_heads=2, **layer or {})
    model = Transformer(subwords.size + rows, num_layers, config=config, dtype=dtype, **sizes)
    randomize(model, seed, lambda weight: 1.0 if weight.name == "table" else 0.5)
    end = np.asarray(model.embedding.table)[EOS_ID]
    last_norm = model.trainable_variables[-1]
    last_norm.assign(np.asarray(last_norm) + 6.0 * end / (end @ end))
    return model
