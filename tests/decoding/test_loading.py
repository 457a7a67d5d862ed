"""A model directory becomes a translator: its settings and its models."""

import numpy as np
import pytest

from t2t_repro.decoding.loading import load_translator, read_settings
from t2t_repro.decoding.settings import BeamSearch, mean_probability, sum_log_probabilities
from t2t_repro.errors import UserError
from t2t_repro.text.subword_model import shared
from tests.decoding.random_translator import random_model
from tests.training.tiny import assert_same, copies, written


def test_model_directories_are_loaded_as_an_ensemble(model, subwords, tmp_path):
    models = [model, random_model(subwords, "float32", 8, 2, 7, {"decoder_self_attention": "ssru"})]
    trained = "BeamSearch.beam_size = 2\n", "prepare.max_length = 40\n"
    for name, one in zip("ab", models, strict=True):
        directory = written(tmp_path / name, one, shared(subwords), *trained)
    for member in (directory.path, (directory.path, None)):
        loaded = load_translator(tmp_path / "a", ensemble=[member])
        assert (loaded.settings.search, loaded.settings.trained_length) == (BeamSearch(2), 40)
        for found, one in zip(loaded.models, models, strict=True):
            assert_same(copies(found), copies(one))
    written(tmp_path / "c", random_model(subwords, rows=21), shared(subwords), *trained)
    with pytest.raises(UserError, match="vocab_size"):
        load_translator(tmp_path / "a", ensemble=[tmp_path / "c"])
    # What the run itself has bound goes before.
    directory.config_gin.write_text("Translator.trained_length = 30\n")
    assert read_settings(directory).trained_length == 30


def test_models_are_combined_by_their_mean_or_their_product():
    log_p = np.log([[[[0.25, 0.75]]], [[[0.5, 0.5]]]])
    np.testing.assert_allclose(np.exp(mean_probability(log_p)), [[[0.375, 0.625]]])
    np.testing.assert_allclose(np.exp(sum_log_probabilities(log_p)), [[[0.125, 0.375]]])
