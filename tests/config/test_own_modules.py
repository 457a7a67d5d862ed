"""A module of one's own, from the gin file to a translation, and in a stranger's hands."""

import shutil

import pytest

from tests.commands import outcomes_of
from tests.test_bugs import GIN

pytestmark = pytest.mark.long

MY_PARTS = """
import gin
import keras
import my_helper
from t2t_repro.evaluation.scores import Score

@gin.configurable
def my_metric(translations, references, sources, scale: float = 1.0) -> Score:
    return Score("mine", scale)

@keras.saving.register_keras_serializable(package="my_parts")
def squared_relu(x):
    return keras.ops.square(keras.ops.relu(x))

print("my_parts runs")
"""


def test_a_module_beside_the_gin_file_comes_along_and_a_stranger_s_is_asked_for(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    mine, here, stranger = (tmp_path / name for name in ("mine", "here", "stranger"))
    for folder in (mine, here):
        folder.mkdir()
    (mine / "my_parts.py").write_text(MY_PARTS)
    (mine / "my_helper.py").write_text("")
    (mine / "my.gin").write_text(
        "import my_parts\n" + GIN + "adam.learning_rate = 0.001\n"
        "DevEvaluation.metric = @my_parts.my_metric\nmy_metric.scale = 3.0\n"
        "LayerConfig.activation = 'my_parts>squared_relu'\n"
    )
    for language in ("en", "de"):
        (here / f"train.{language}").write_text("abc abc\nacb\n" * 20)
    translate = ("translate", ["--model_dir=model"], "abc\n")
    train = ("trainer", ["--gin_file=../mine/my.gin", "--model_dir=model", "--data_dir=data"], "")
    average = ("average", ["--model_dir=model", "--last=1"], "")
    trained, again, averaged, translated = outcomes_of([train, train, average, translate], here)
    for outcome in (trained, again, averaged, translated):
        assert outcome.status == 0, outcome.err
    assert "my_parts runs" in translated.out

    # The model directory goes to another machine, with hostile code in it and around it.
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "other_config"))
    stranger.mkdir()
    shutil.copytree(here / "model", stranger / "model")
    shutil.copy(mine / "my_parts.py", stranger)
    shutil.copy(mine / "my_helper.py", stranger)
    shutil.rmtree(mine)
    allowed = ("translate", ["--model_dir=model", "--allow_import=my_parts"], "abc\n")
    *asked, confirmed, second = outcomes_of([translate, average, allowed, translate], stranger)
    for outcome in asked:
        assert (outcome.status, outcome.out) == (2, "")
        [line] = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
        assert f"{stranger / 'my_parts.py'}; if you trust it, give --allow_import=my_parts" in line
    assert [one.status for one in (confirmed, second)] == [0, 0]
    assert translated.out == confirmed.out == second.out
