"""A run's configuration is data: nothing in it is executed, and what decoding needs is read."""

import os
import sys

import pytest

from t2t_repro.config.gin_files import trained_bindings
from t2t_repro.decoding.loading import read_settings
from t2t_repro.decoding.settings import (
    BeamSearch,
    MarianSearch,
    MinimumBayesRisk,
    Sampling,
    power_penalty,
)
from t2t_repro.errors import UserError
from t2t_repro.experiment import EVALUATION
from t2t_repro.runs.model_directory import ModelDirectory

SPY = """
import gin
from pathlib import Path
from t2t_repro.evaluation.scores import Score

Path(__file__).with_name("imported").touch()

@gin.configurable
def spy_search(width: int = 1):
    from t2t_repro.decoding.settings import Sampling
    Path(__file__).with_name("called").touch()
    return Sampling(samples=width)

@gin.configurable
def spy_metric(translations, references, sources):
    return Score("spy", 1.0)
"""


@pytest.fixture
def spy(tmp_path, monkeypatch):
    """The folder of a module that leaves a file when it is imported, and one when it is called."""
    folder = tmp_path / "spy"
    folder.mkdir()
    (folder / "spy_parts.py").write_text(SPY)
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    yield folder
    sys.modules.pop("spy_parts", None)


def load(folder, config, *params, imports=()):
    """Returns the settings of a translator, as `load_translator` finds them."""
    (folder / "config.gin").write_text(config)
    return read_settings(ModelDirectory(folder), params, imports, EVALUATION)


@pytest.mark.parametrize(
    "line",
    [
        "import spy_parts",
        "from __gin__ import dynamic_registration",
        "include '{spy}/other.gin'",
        "a = @spy_parts.spy_search()",
        "train.optimizer = @spy_parts.spy_search",
        "spy_parts.spy_search.width = 3",
    ],
)
def test_nothing_of_a_configuration_happens(tmp_path, spy, line):
    (spy / "other.gin").write_text("import spy_parts\nBeamSearch.beam_size = 7\n")
    settings = load(tmp_path, f"{line.format(spy=spy)}\nBeamSearch.beam_size = 2\n")
    assert settings.search == BeamSearch(beam_size=2)
    assert "spy_parts" not in sys.modules
    assert sorted(path.name for path in spy.iterdir()) == ["other.gin", "spy_parts.py"]


@pytest.mark.parametrize(
    "line",
    [
        "Translator.search = @spy_search()",
        "Translator.search = @os.system",
        "Translator.search = %search\nsearch = @spy_search()",
        "Translator.search = %one\none = %two\ntwo = %one",
        "evaluate.metrics = [@bleu, @spy_metric]",
        "BeamSearch.beam_size = 1000000000",
        "a = " + "(" * 5000,
        "a = (1,",
    ],
)
def test_what_is_not_data_is_refused_in_one_line(tmp_path, spy, line):
    with pytest.raises(UserError) as caught:
        load(tmp_path, f"import spy_parts\n{line}\n")
    assert "\n" not in str(caught.value).partition("\n  In call to")[0]
    assert not (spy / "imported").exists()


def test_a_configuration_as_large_as_a_disk_is_refused(tmp_path):
    (tmp_path / "config.gin").touch()
    os.truncate(tmp_path / "config.gin", 10**12)
    with pytest.raises(UserError, match=r"config\.gin"):
        read_settings(ModelDirectory(tmp_path))


def test_a_module_that_the_user_names_is_used(tmp_path, spy):
    config = "import spy_parts\nTranslator.search = @spy_search()\nspy_search.width = 3\n"
    with pytest.raises(UserError, match="--import=spy_parts"):
        load(tmp_path, config)
    assert load(tmp_path, config, imports=["spy_parts"]).search == Sampling(samples=3)
    # Nothing of it is needed if the user binds another search.
    assert load(tmp_path, config, "Translator.search = @BeamSearch()").search == BeamSearch()


def test_literals_and_names_of_decoding_are_used(tmp_path):
    config = (
        "Translator.search = @wide/BeamSearch()\nwide/BeamSearch.beam_size = %width\nwidth = 8\n"
        "BeamSearch.penalty = @power_penalty\nTranslator.choose = @MinimumBayesRisk()\n"
        "Pace.steps = 5\ntrain.seed = 3\n"
    )
    settings = load(tmp_path, config, "Translator.max_extra_length = 9")
    assert settings.search == BeamSearch(beam_size=8, penalty=power_penalty)
    assert isinstance(settings.rerank, MinimumBayesRisk)
    assert settings.max_extra_length == 9
    (tmp_path / "config.gin").write_text("evaluate.metrics = [@bleu, @exact_match]\n")
    kept = ["evaluate.metrics = [@bleu, @exact_match]"]
    assert trained_bindings(tmp_path / "config.gin", EVALUATION) == kept


def test_a_binding_of_a_search_that_the_model_does_not_use_is_refused(tmp_path):
    config = "Translator.search = @MarianSearch()\nMarianSearch.beam_size = 6\n"
    settings = load(tmp_path, config, "MarianSearch.length_penalty = 0.6")
    assert settings.search == MarianSearch(6, 0.6)
    with pytest.raises(UserError, match=r"binds BeamSearch\.beam_size"):
        load(tmp_path, config, "BeamSearch.beam_size = 1")
    params = "Translator.search = @BeamSearch()", "BeamSearch.beam_size = 1"
    assert load(tmp_path, config, *params).search == BeamSearch(1)
