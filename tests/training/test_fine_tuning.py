"""A run that starts from another model's weights: `train.init_from`.

One initial model, trained for a few updates on words in reverse; and runs on other sentences.
"""

import itertools
import shutil
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import gin
import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from t2t_repro import experiment
from t2t_repro.data.prepared import PreparedData
from t2t_repro.errors import UserError
from t2t_repro.evaluation.perplexity import HeldOutLoss
from t2t_repro.evaluation.scores import Score
from t2t_repro.formats.hugging_face.tokenizer import read_marian_text
from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.records import read_ancestry, weights_hash
from t2t_repro.runs.weights import name_of, named_values
from t2t_repro.training import training_run
from t2t_repro.training.fine_tuning import updated_weights
from t2t_repro.training.metrics_log import MetricsLog
from t2t_repro.training.model_for_data import fit_to_data
from tests.evaluation.untranslated import leave_untranslated
from tests.text.marian_directory import write_marian_text
from tests.training.tiny import assert_same, copies, tiny_model, written

WORDS = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay"]
CALLS = itertools.count()
GIN = """
prepare.corpus = @TextFilesCorpus()
TextFilesCorpus.train = 'train.tsv'
TextFilesCorpus.dev = 'dev.tsv'
Cleaning.drop_held_out = False
SubwordTraining.vocab_size = 280
SubwordTraining.character_coverage = 1.0
prepare.workers = 1
prepare.max_length = 40
Transformer.num_layers = 1
LayerConfig.d_model = 16
LayerConfig.d_ff = 16
LayerConfig.num_heads = 2
LayerConfig.dropout = 0.1
Batches.tokens_per_batch = 200
Batches.max_shapes = 1
adam.learning_rate = 0.01
TrainingSchedule.steps = 6
TrainingSchedule.log_every = 2
TrainingSchedule.evaluate_every = 100
"""


def write_corpus(folder, words, seed):
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    for name, count in (("train", 60), ("dev", 6)):
        lines = [rng.choice(words, 4) for _ in range(count)]
        text = "".join(f"{' '.join(line)}\t{' '.join(line[::-1])}\n" for line in lines)
        (folder / f"{name}.tsv").write_text(text)
    return folder


def configure(folder, *bindings):
    gin.clear_config()
    (folder / "experiment.gin").write_text(GIN)
    return experiment.read(folder / "experiment.gin", bindings)


def train(folder, *bindings, model="model", data="data"):
    """Trains in a folder with a corpus, without translating its dev set; returns the last state."""
    settings = configure(folder, *bindings)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        leave_untranslated(patch)
        return training_run.train(settings, experiment.configuration, folder / model, folder / data)


@gin.configurable
def falling(translations, references, sources):
    """A metric by which the first evaluation is the best."""
    return Score("falling", -float(next(CALLS)))


def from_model(folder, model="model"):
    return f"train.init_from = '{folder}/{model}'"


@pytest.fixture(scope="module")
def initial(tmp_path_factory):
    """A folder with a model that has a moving average, and rows without a subword."""
    folder = write_corpus(tmp_path_factory.mktemp("initial"), WORDS, 1)
    bindings = ["MovingAverage.decay = 0.9", "Transformer.vocab_size = 290"]
    train(folder, *bindings, "TrainingSchedule.steps = 2")
    return folder


@pytest.fixture
def other(tmp_path):
    """A folder with another corpus."""
    return write_corpus(tmp_path, [*WORDS[5:], "kiwi", "lynx"], 2)


@contextmanager
def recorded():
    """Records what is logged, and the step and nll of every dev evaluation, exactly."""
    record = SimpleNamespace(text="", evaluations=[])
    report = MetricsLog.report_evaluation

    def evaluation(self, step, scores, seconds):
        record.evaluations.append((step, scores.nll))
        report(self, step, scores, seconds)

    def info(text, *values):
        record.text += f"{text % values if values else text}\n"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetricsLog, "report_evaluation", evaluation)
        patch.setattr(logging, "info", info)
        patch.setattr(logging, "warning", info)
        yield record


def dev_nll(model, folder):
    return HeldOutLoss(model, PreparedData(folder / "data" / "prepared").store("dev")).nll()


def checkpoint_values(folder, step):
    """All that a checkpoint holds of weights, optimizer and state, by name."""
    reader = tf.train.load_checkpoint(str(folder / "model" / "checkpoints" / f"step-{step}"))
    return {
        name: reader.get_tensor(name)
        for name in sorted(reader.get_variable_to_shape_map())
        if name.startswith(("model/", "optimizer/", "average/", "state"))
    }


# The beginning


@pytest.fixture(scope="module")
def begun(initial, tmp_path_factory):
    """A folder with two updates of all that is not frozen, and its record."""
    folder = write_corpus(tmp_path_factory.mktemp("begun"), [*WORDS[5:], "kiwi", "lynx"], 2)
    frozen = "TrainStep.frozen = ['decoder/layer_0', 'encoder']"
    metric = "DevEvaluation.metric = @falling"
    with recorded() as record:
        state = train(folder, from_model(initial), "TrainingSchedule.steps = 2", frozen, metric)
    assert state.step == 2
    record.folder = folder
    return record


def test_it_starts_with_the_weights_that_the_initial_model_is_used_with(initial, begun):
    """Here its moving average; rows without a subword too, which count in the softmax."""
    expected = ModelDirectory(initial / "model").load_model()
    assert expected.vocab_size == 290
    first = ModelDirectory(begun.folder / "model").load_model("best/step-0")
    assert_same(copies(first), copies(expected))
    assert [step for step, _ in begun.evaluations] == [0, 2]
    assert begun.evaluations[0][1] == dev_nll(expected, begun.folder)
    assert "embedding 280 copied, 0 new" in begun.text


def test_the_optimizer_is_fresh_and_frozen_parts_stay(begun):
    after = checkpoint_values(begun.folder, 2)
    assert after["optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE"] == 2
    directory = ModelDirectory(begun.folder / "model")
    first, last = (directory.load_model(name) for name in ("best/step-0", "latest"))
    for one, another in zip(first.trainable_variables, last.trainable_variables, strict=True):
        is_same = (one.numpy() == another.numpy()).all()
        assert is_same == (name_of(one) != "embedding/table")
    # Adam has two moments of it, and none of the others.
    assert sum(name.startswith("optimizer/_variables") for name in after) == 2


def test_an_imported_model_is_trained_on(other):
    """A Marian model: two subword files, and the same ids in both."""
    subwords = read_marian_text(write_marian_text(other / "theirs")).write(other)
    config = LayerConfig(d_model=16, d_ff=16, num_heads=2, attention_biases=True)
    sizes: dict[str, Any] = {"positional_encoding": "halves", "logits_bias": True}
    model = Transformer(subwords.target.size, 1, config, **sizes)
    model.build()
    decoding = "BeamSearch.beam_size = 2\n"
    directory = written(other / "imported", model, subwords, decoding, decoding, step=0)
    bindings = [
        *(f"Transformer.{name} = {value!r}" for name, value in sizes.items()),
        "LayerConfig.attention_biases = True",
    ]
    start = from_model(other, "imported")
    with pytest.raises(UserError, match=r"positional_encoding 'halves'"):
        train(other, start, *bindings[1:])
    assert not (other / "data").exists()
    with recorded() as record:
        train(other, start, *bindings, "TrainingSchedule.steps = 1")
    assert record.evaluations[0] == (0, dev_nll(model, other))
    ours = ModelDirectory(other / "model")
    assert ours.subwords().contents() == directory.subwords().contents()


@pytest.mark.parametrize(("count", "rows"), [(2, 290), (12, 292)])
def test_tags_are_added_to_the_subwords(initial, other, count, rows, monkeypatch):
    """They take rows without a subword first."""
    monkeypatch.chdir(other)
    tags = " ".join(f"<{number}>" for number in range(count))
    mixture = [
        "prepare.corpus = @Mixture()",
        "Mixture.corpora = {'animals': @TextFilesCorpus()}",
        f"Mixture.tags = {{'animals': '{tags}'}}",
    ]
    settings = configure(other, from_model(initial), *mixture)
    directory = ModelDirectory(initial / "model")
    settings = fit_to_data(settings, directory)
    assert settings.preparation.recipes.target.vocab_size == 280 + count
    assert settings.model.vocab_size == rows


# Going on


def test_killed_and_resumed_is_uninterrupted_even_where_the_initial_model_is_gone(
    initial, begun, other
):
    """It remembers that model, and the one that it started from."""
    shutil.copytree(begun.folder / "model", other / "initial")
    bindings = [
        "train.init_from = 'initial'",
        "train.init_checkpoint = 'checkpoints/step-2'",
        "Checkpoints.every_steps = 2",
        "TrainingSchedule.steps = 4",
        "MovingAverage.decay = 0.9",
        "TrainStep.frozen = ['encoder']",
    ]
    with recorded() as record:
        train(other, *bindings)
    used = ModelDirectory(other / "initial").load_model("latest")
    assert record.evaluations[0] == (0, dev_nll(used, other))
    directory = ModelDirectory(other / "model")
    first, second = read_ancestry(directory.ancestry_json)
    assert first.model_dir == str(other / "initial")
    assert first.checkpoint == "checkpoints/step-2"
    assert first.weights_sha256 == weights_hash(named_values(used))
    assert second.model_dir == str(initial / "model")

    whole = checkpoint_values(other, 4)
    # As it was before the third update.
    for path in directory.checkpoints.glob("step-4.*"):
        path.unlink()
    (directory.checkpoints / "checkpoint").write_text('model_checkpoint_path: "step-2"\n')
    shutil.rmtree(other / "initial")
    with recorded() as record:
        train(other, *bindings)
    assert "train: going on after step 2" in record.text
    resumed = checkpoint_values(other, 4)
    assert resumed.keys() == whole.keys()
    for name, value in resumed.items():
        np.testing.assert_array_equal(value, whole[name], err_msg=name)


# Mistakes


def test_a_mistake_is_one_line_before_data_are_prepared(initial, other):
    start = from_model(initial)
    for bindings, message in (
        (["train.init_checkpoint = 'best'"], r"train\.init_from is not bound"),
        ([start, "train.init_checkpoint = 'beste'"], "init_from: .*beste.*init_checkpoint=av"),
        ([start, "LayerConfig.d_ff = 8"], r"d_ff 16 there, 8 now"),
    ):
        with pytest.raises(UserError, match=message):
            train(other, *bindings)
        assert not (other / "data").exists()


def test_a_run_that_began_without_an_initial_model_gets_none(initial, other):
    shutil.copytree(initial / "model", other / "model")
    with pytest.raises(UserError, match=r"began without train\.init_from"):
        train(other, from_model(initial))


# Frozen parts


def test_parts_are_named_as_paths_have_them():
    model = tiny_model(num_layers=2)
    assert updated_weights(model, []) == model.trainable_variables
    frozen = ["encoder", "decoder/layer_1", "decoder/layer_1/feed_forward"]
    updated = map(name_of, updated_weights(model, [*frozen, "embedding/table"]))
    assert {"/".join(name.split("/")[:2]) for name in updated} == {"decoder/layer_0"}


@pytest.mark.parametrize("name", ["encoder/layer_2", "encoder/lay", ""])
def test_an_unknown_part_is_an_error_that_lists_those_there_are(name):
    with pytest.raises(UserError, match=r"names '.*', expected parts of the model: embedding, enc"):
        updated_weights(tiny_model(num_layers=2), [name])
