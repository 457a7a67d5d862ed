"""A module of the user's own, from the gin file to a translation on another machine."""

import shutil

import pytest

from tests.commands import outcomes_of

pytestmark = pytest.mark.long

GIN = """
import my_parts
prepare.corpus = @TextFilesCorpus()
TextFilesCorpus.train = ('train.en', 'train.de')
TextFilesCorpus.dev = ('train.en', 'train.de')
Cleaning.drop_held_out = False
Cleaning.drop_duplicates = False
SubwordTraining.vocab_size = 270
Transformer.num_layers = 1
LayerConfig.d_model = 8
LayerConfig.d_ff = 8
LayerConfig.num_heads = 2
LayerConfig.activation = 'my_parts>squared_relu'
BeamSearch.beam_size = 1
Translator.max_extra_length = 1
Translator.rerank = @MyReranker()
DevEvaluation.sentences = 1
DevEvaluation.metric = @my_parts.my_metric
my_metric.scale = 3.0
adam.learning_rate = 0.001
TrainingSchedule.steps = 1
TrainingSchedule.evaluate_every = 1
"""

MY_PARTS = """
import gin
import keras
import my_helper
from t2t_repro.evaluation.scores import Score

@gin.configurable
def my_metric(translations, references, sources, scale: float = 1.0) -> Score:
    return Score("mine", scale)

@gin.configurable
class MyReranker:
    def rerank(self, hypotheses):
        return list(hypotheses)

@keras.saving.register_keras_serializable(package="my_parts")
def squared_relu(x):
    return keras.ops.square(keras.ops.relu(x))

print("my_parts runs")
"""


def test_a_module_is_found_beside_the_gin_file_and_later_named_by_the_user(tmp_path):
    mine, here, elsewhere = (tmp_path / name for name in ("mine", "here", "elsewhere"))
    for folder in (mine, here):
        folder.mkdir()
    (mine / "my_parts.py").write_text(MY_PARTS)
    (mine / "my_helper.py").write_text("")
    (mine / "my.gin").write_text(GIN)
    for language in ("en", "de"):
        (here / f"train.{language}").write_text("abc abc\nacb\n" * 20)
    train = ("trainer", ["--gin_file=../mine/my.gin", "--model_dir=model", "--data_dir=data"], "")
    for outcome in outcomes_of([train, train], here):
        assert outcome.status == 0, outcome.err

    # The model directory goes elsewhere; a module that lies there runs if the user names it.
    shutil.copytree(here / "model", elsewhere / "model")
    shutil.move(mine / "my_parts.py", elsewhere)
    shutil.move(mine / "my_helper.py", elsewhere)
    average = ("average", ["--model_dir=model", "--last=1"], "")
    translate = ("translate", ["--model_dir=model"], "abc\n")
    commands = [
        (verb, [*flags, *extra], given)
        for extra in ([], ["--import=my_parts"])
        for verb, flags, given in (average, translate)
    ]
    *refused, averaged, translated = outcomes_of(commands, elsewhere)
    for outcome in refused:
        assert (outcome.status, outcome.out) == (2, "")
        assert "--import=my_parts" in outcome.err.splitlines()[-1]
    for outcome in (averaged, translated):
        assert outcome.status == 0, outcome.err
        assert "my_parts runs" in outcome.out
