"""A run that starts from another model's weights: `train.init_from`.

One parent, trained for a few updates on words in reverse; and runs on other sentences.
"""

import json
import os
import re
import shutil
import signal
import time
from contextlib import contextmanager
from types import SimpleNamespace

import gin
import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from t2t_repro import experiment
from t2t_repro.data.prepared import PreparedData
from t2t_repro.decoding.loading import load_translator
from t2t_repro.errors import UserError
from t2t_repro.evaluation.perplexity import HeldOutLoss
from t2t_repro.formats.marian.text import read_marian_text
from t2t_repro.import_t2t import DECODING
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.records import weights_hash
from t2t_repro.runs.weights import name_of, named_values
from t2t_repro.text.subword_model import shared
from t2t_repro.text.t2t import T2TSubwords
from t2t_repro.training.dev_evaluation import DevEvaluation
from t2t_repro.training.metrics_log import MetricsLog
from t2t_repro.training.model_for_data import configured_preparation, new_model
from t2t_repro.training.train_step import TrainStep
from tests.evaluation.untranslated import leave_untranslated
from tests.text.marian_directory import write_marian_text
from tests.text.test_t2t import VOCABULARY, write
from tests.training.tiny import assert_same, copies

WORDS = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay"]
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
DevEvaluation.sentences = 2
Translator.max_extra_length = 2
BeamSearch.beam_size = 1
"""


def write_corpus(folder, words, seed):
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    for name, count in (("train", 60), ("dev", 6)):
        lines = [rng.choice(words, 4) for _ in range(count)]
        text = "".join(f"{' '.join(line)}\t{' '.join(line[::-1])}\n" for line in lines)
        (folder / f"{name}.tsv").write_text(text)


def configure(folder, *bindings):
    gin.clear_config()
    (folder / "experiment.gin").write_text(GIN)
    experiment.configure_experiment(folder / "experiment.gin", bindings, experiment.TRAINING_ROOTS)


def train(folder, *bindings, model="model", data="data", translates=False):
    """Trains in a folder with a corpus; the state at the end.

    Only where `translates` is the dev set translated by the model: that takes longer than all else.
    """
    configure(folder, *bindings)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        if not translates:
            leave_untranslated(patch)
        return experiment.train(folder / model, folder / data)


def prepare(folder, *bindings):
    """Prepares the data of a folder."""
    configure(folder, *bindings)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return experiment.prepare_data(folder / "data")


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    """A folder with a model that has a moving average, and rows of no piece."""
    folder = tmp_path_factory.mktemp("parent")
    write_corpus(folder, WORDS, 1)
    bindings = ["MovingAverage.decay = 0.9", "Transformer.vocab_size = 290"]
    train(folder, *bindings, "TrainingSchedule.steps = 4", "Checkpoints.every_steps = 2")
    return folder


def from_model(folder, model="model"):
    return f"train.init_from = '{folder}/{model}'"


def write_child(folder):
    write_corpus(folder, [*WORDS[5:], "kiwi", "lynx"], 2)
    return folder


@pytest.fixture
def child(tmp_path):
    return write_child(tmp_path)


@pytest.fixture
def said(caplog):
    caplog.set_level("INFO", logger="absl")

    def lines():
        text = "\n".join(record.getMessage() for record in caplog.records)
        caplog.clear()
        return text

    return lines


@contextmanager
def recorded():
    """What is logged, and of every dev evaluation its step and its nll, exactly."""
    found = SimpleNamespace(text="", evaluations=[])
    report = MetricsLog.evaluation

    def evaluation(self, step, scores, seconds):
        found.evaluations.append((step, scores.nll))
        report(self, step, scores, seconds)

    def info(text, *values):
        found.text += f"{text % values if values else text}\n"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetricsLog, "evaluation", evaluation)
        patch.setattr(logging, "info", info)
        yield found


def dev_nll(model, folder):
    return HeldOutLoss(model, PreparedData(folder / "data" / "prepared").store("dev")).nll()


def values(folder, step, model="model"):
    """All that a checkpoint holds of weights, optimizer and state, by name."""
    reader = tf.train.load_checkpoint(str(folder / model / "checkpoints" / f"step-{step}"))
    return {
        name: reader.get_tensor(name)
        for name in sorted(reader.get_variable_to_shape_map())
        if name.startswith(("model/", "optimizer/", "average/", "state"))
    }


def assert_same_values(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


# The beginning

FROZEN = "TrainStep.frozen = ['decoder/layer_0', 'encoder']"


@pytest.fixture(scope="module")
def begun(parent, tmp_path_factory):
    """A folder with a child of two updates, the rest of it being frozen, and what it said."""
    folder = write_child(tmp_path_factory.mktemp("begun"))
    with recorded() as found:
        state = train(
            folder, from_model(parent), "TrainingSchedule.steps = 2", FROZEN, translates=True
        )
    assert state.step == 2
    found.folder = folder
    return found


def test_it_begins_with_the_weights_that_the_parent_is_used_with(parent, begun):
    """Here its moving average; rows of no piece too, which count in the softmax."""
    expected = ModelDirectory(parent / "model").load_model()
    assert expected.vocab_size == 290
    first = ModelDirectory(begun.folder / "model").load_model("best/step-0")
    assert_same(copies(first), copies(expected))
    assert [step for step, _ in begun.evaluations] == [0, 2]
    assert begun.evaluations[0][1] == dev_nll(expected, begun.folder)


def test_its_data_are_prepared_with_the_parent_s_subwords(parent, begun):
    ours, theirs = (ModelDirectory(one / "model").subwords() for one in (begun.folder, parent))
    assert ours.contents() == theirs.contents()
    assert f"data: with the subwords of {parent / 'model'} (train.init_from)" in begun.text
    model = parent / "model" / "subwords.model"
    assert f"data: taking 280 subwords from {model}: subwords.model" in begun.text
    assert "learning" not in begun.text


def test_it_says_what_it_starts_from(parent, begun):
    checkpoint = ModelDirectory(parent / "model").checkpoint().split("model/")[-1]
    assert (
        f"train: starts from the weights of {parent / 'model'}, {checkpoint} (train.init_from); "
        "rows of pieces: embedding 280 carried over, 0 new"
    ) in begun.text
    assert "train: frozen: encoder, decoder; 4,640 parameters are updated" in begun.text


def test_optimizer_and_schedule_are_fresh(begun):
    after = values(begun.folder, 2)
    assert after["optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE"] == 2
    assert not any(name.startswith("average/") for name in after)


def test_frozen_parts_stay_what_the_parent_had(begun):
    directory = ModelDirectory(begun.folder / "model")
    first, last = (directory.load_model(name) for name in ("best/step-0", "latest"))
    for one, other in zip(first.trainable_variables, last.trainable_variables, strict=True):
        is_same = (one.numpy() == other.numpy()).all()
        assert is_same == (name_of(one) != "embedding/table")


def test_a_grandchild_remembers_both(parent, begun, child):
    bindings = ["TrainingSchedule.steps = 1", "MovingAverage.decay = 0.9"]
    start = [from_model(begun.folder), "train.init_checkpoint = 'checkpoints/step-2'"]
    with recorded() as found:
        train(child, *start, *bindings)
    used = ModelDirectory(begun.folder / "model").load_model("latest")
    assert found.evaluations[0] == (0, dev_nll(used, child))
    first, second = ModelDirectory(child / "model").ancestors()
    assert first.model_dir == str(begun.folder / "model")
    assert first.checkpoint == "checkpoints/step-2"
    assert first.weights_sha256 == weights_hash(named_values(used))
    assert [second] == ModelDirectory(begun.folder / "model").ancestors()
    assert second.model_dir == str(parent / "model")


def test_an_imported_model_s_data_are_prepared_with_its_subwords(child):
    """Tensor2Tensor's vocabulary, as import_t2t writes it."""
    subwords = shared(T2TSubwords(write(child / "vocab", VOCABULARY)))
    config = LayerConfig(d_model=16, d_ff=16, num_heads=2)
    model = Transformer(len(VOCABULARY) + 5, 1, config, positional_encoding="concatenated")
    model.build()
    directory = ModelDirectory(child / "imported")
    directory.describe(model, subwords, DECODING, DECODING)
    directory.write_imported(model, 250)
    start = from_model(child, "imported")
    with pytest.raises(UserError, match=r"\(positional_encoding 'concatenated' there, 'interl"):
        train(child, start)
    assert not (child / "data").exists()
    with recorded() as found:
        train(
            child,
            start,
            "TrainingSchedule.steps = 1",
            "Transformer.positional_encoding = 'concatenated'",
        )
    assert found.evaluations[0] == (0, dev_nll(model, child))
    translator = load_translator(child / "model")
    assert isinstance(translator.translate(["ant bee"])[0][0].text, str)


def test_both_vocabularies_of_a_parent_are_taken(child):
    """By datagen too, from the same file; a macro may name the parent."""
    two = [
        "prepare.source_subwords = @source/SubwordTraining()",
        "source/SubwordTraining.vocab_size = 285",
    ]
    bindings = ["Transformer.tied_embeddings = 'target_softmax'", "TrainingSchedule.steps = 1"]
    train(child, *two, *bindings, model="two", data="two_data")
    with pytest.raises(UserError, match=r"bind Transformer\.tied_embeddings = 'target_softmax'"):
        train(child, from_model(child, "two"))
    start = [f"parent = '{child}/two'", "train.init_from = %parent", *bindings]
    data = prepare(child, *start)
    theirs = ModelDirectory(child / "two")
    assert data.subwords.contents() == theirs.subwords().contents()
    assert len(data.subwords.contents()) == 2
    with recorded() as found:
        train(child, *start)
    assert "subwords from" not in found.text
    assert found.evaluations[0] == (0, dev_nll(theirs.load_model(), child))


# Those of a Marian model: a file for each side, and the same ids in both.

MARIAN = [
    "Transformer.positional_encoding = 'halves'",
    "Transformer.logits_bias = True",
    "LayerConfig.attention_biases = True",
]


@pytest.fixture(scope="module")
def marian(tmp_path_factory):
    """A folder with a Marian model as `imported`."""
    folder = tmp_path_factory.mktemp("marian")
    subwords = read_marian_text(write_marian_text(folder / "theirs")).write(folder)
    config = LayerConfig(d_model=16, d_ff=16, num_heads=2, attention_biases=True)
    model = Transformer(
        subwords.target.size, 1, config, positional_encoding="halves", logits_bias=True
    )
    model.build()
    directory = ModelDirectory(folder / "imported")
    directory.describe(model, subwords, DECODING, DECODING)
    directory.write_imported(model, 0)
    return folder


def test_a_marian_model_is_trained_on_killed_and_resumed(marian, child):
    whole = child.with_name(f"{child.name}_whole")
    shutil.copytree(child, whole)
    start = [from_model(marian, "imported"), *MARIAN]
    bindings = [*start, "Checkpoints.every_steps = 2", "TrainingSchedule.steps = 4"]
    with recorded() as found:
        train(whole, *bindings)
    rows = len(json.loads((marian / "theirs" / "vocab.json").read_text()))
    assert f"rows of pieces: embedding {rows:,} carried over, 0 new" in found.text
    theirs = ModelDirectory(marian / "imported")
    assert found.evaluations[0] == (0, dev_nll(theirs.load_model(), whole))
    killed_at(child, 3, *bindings)
    with recorded() as found:
        train(child, *bindings)
    assert "train: going on after step 2" in found.text
    assert_same_values(values(child, 4), values(whole, 4))
    ours = ModelDirectory(child / "model")
    assert ours.subwords().contents() == theirs.subwords().contents()
    assert ours.sizes()["source_vocab_size"] is None
    translator = load_translator(child / "model")
    assert isinstance(translator.translate([">>fra<< the fox"])[0][0].text, str)


def test_data_are_prepared_with_a_marian_model_s_two_files_and_one_id_space(marian, child):
    folder = f"'{marian}/imported'"
    given = [
        "prepare.subwords = @target/GivenSubwords()",
        "prepare.source_subwords = @source/GivenSubwords()",
        *(f"{side}/GivenSubwords.side = '{side}'" for side in ("source", "target")),
        *(f"{side}/GivenSubwords.model_dir = {folder}" for side in ("source", "target")),
    ]
    data = prepare(child, *given)
    store = data.store("train")
    assert store.vocab_sizes == (data.subwords.source.size,) * 2
    source, target = store.padded_batch(np.array([0]), 40, 40, 1)
    line, translation = (side[0] for side in data.text("train"))
    for subwords, ids, text in zip(
        data.subwords, (source, target), (line, translation), strict=True
    ):
        assert ids[0][ids[0] != 0].tolist() == subwords.encode([text])[0]
    of_target = [line for line in given if "source" not in line]
    own = [*of_target, "prepare.source_subwords = @SubwordTraining()"]
    with pytest.raises(UserError, match="gives the source a vocabulary of its own, but Transf"):
        prepare(child, *own)


def test_a_marian_model_s_tags_are_its_language_codes(marian, child):
    mixture = [
        *(from_model(marian, "imported"), *MARIAN, "prepare.corpus = @Mixture()"),
        "Mixture.corpora = {'animals': @TextFilesCorpus()}",
    ]
    data = prepare(child, *mixture, "Mixture.tags = {'animals': '>>fra<<'}")
    code = data.subwords.source.pieces().index(">>fra<<")
    assert data.store("train").padded_batch(np.array([0]), 40, 40, 1)[0][0, 0] == code
    with pytest.raises(UserError, match="has no language code <2de>, and symbols cannot be added"):
        prepare(child, *mixture, "Mixture.tags = {'animals': '<2de>'}")


def test_a_vocabulary_of_its_own(parent, child):
    own = ["prepare.subwords = @SubwordTraining()", "SubwordTraining.vocab_size = 285"]
    with recorded() as found:
        train(child, from_model(parent), *own, "TrainingSchedule.steps = 1")
    ours, theirs = ModelDirectory(child / "model"), ModelDirectory(parent / "model")
    pieces, before = (one.subwords().target.pieces() for one in (ours, theirs))
    common = set(pieces) & set(before)
    assert 259 < len(common) < 280
    assert f"embedding {len(common)} carried over, {285 - len(common)} new" in found.text
    rows, there = (
        one.load_model(name).embedding.table.numpy()
        for one, name in ((ours, "best/step-0"), (theirs, None))
    )
    assert len(rows) == 285
    for piece in common:
        np.testing.assert_array_equal(rows[pieces.index(piece)], there[before.index(piece)])
    (ancestor,) = ours.ancestors()
    assert ancestor.carried_rows == {"embedding/table": len(common)}
    assert ancestor.new_rows == {"embedding/table": 285 - len(common)}


@pytest.mark.parametrize(("count", "rows"), [(2, 290), (12, 292)])
def test_tags_are_added_to_the_parent_s_subwords(parent, child, count, rows, monkeypatch):
    """They take rows of no piece first."""
    monkeypatch.chdir(child)
    tags = " ".join(f"<{number}>" for number in range(count))
    mixture = [
        "prepare.corpus = @Mixture()",
        "Mixture.corpora = {'animals': @TextFilesCorpus()}",
        f"Mixture.tags = {{'animals': '{tags}'}}",
    ]
    configure(child, from_model(parent), *mixture)
    origin = ModelDirectory(parent / "model")
    preparation = configured_preparation(origin)
    assert preparation.subwords.vocab_size == 280 + count
    assert new_model(preparation, "float32", origin).vocab_size == rows


# Going on


class Killed(BaseException):
    pass


def killed_at(folder, step, *bindings):
    """Trains until just before an update; what was not written by then is lost."""

    def call(self, number, *args, **kwargs):
        if number == step:
            raise Killed
        return update(self, number, *args, **kwargs)

    update = TrainStep.__call__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainStep, "__call__", call)
        with pytest.raises(Killed):
            train(folder, *bindings)


def test_killed_and_resumed_is_uninterrupted_even_where_the_parent_is_gone(parent, child):
    shutil.copytree(parent / "model", child / "parent")
    whole = child.with_name(f"{child.name}_whole")
    shutil.copytree(child, whole)
    bindings = [
        *(
            "train.init_from = 'parent'",
            "Checkpoints.every_steps = 2",
            "TrainingSchedule.steps = 4",
        ),
        *("MovingAverage.decay = 0.9", "TrainStep.frozen = ['encoder']"),
    ]
    train(whole, *bindings)
    killed_at(child, 1, *bindings)
    assert not ModelDirectory(child / "model").has_begun()
    killed_at(child, 3, *bindings)
    shutil.rmtree(child / "parent")
    with recorded() as found:
        train(child, *bindings)
    assert "train: going on after step 2" in found.text
    assert "starts from the weights" not in found.text
    assert_same_values(values(child, 4), values(whole, 4))


def test_stopped_before_its_first_update_it_goes_on_with_what_it_began_with(parent, child, said):
    """In the evaluation of the parent's weights. A second run from other ones is told so."""
    shutil.copytree(parent / "model", child / "parent")

    def stopped(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DevEvaluation, "share", stopped)
        with pytest.raises(SystemExit):
            train(child, "train.init_from = 'parent'", "TrainingSchedule.steps = 2")
    assert ModelDirectory(child / "model").has_begun()
    said()
    train(child, from_model(parent), "TrainingSchedule.steps = 2", "Checkpoints.every_steps = 9")
    text = said()
    assert "train: going on after step 0" in text
    assert "another configuration: train.init_from" in text
    # That of step 0 is none that can be averaged.
    assert "next: python -m t2t_repro.evaluate" in text


def test_other_parts_than_the_checkpoint_s_frozen_ones_are_one_line(parent, begun, child):
    shutil.copytree(begun.folder, child, dirs_exist_ok=True)
    before = values(child, 2)
    longer = [from_model(parent), "TrainingSchedule.steps = 3"]
    for frozen, now in (("[]", r"\[\]"), ("['encoder/layer_0']", r"\['encoder'\]")):
        message = rf"frozen = \['encoder', 'decoder'\], expected {now}: .* with train\.init_from"
        with pytest.raises(UserError, match=message):
            train(child, *longer, f"TrainStep.frozen = {frozen}")
    assert_same_values(values(child, 2), before)
    # Other words for the same parts.
    train(child, *longer, "TrainStep.frozen = ['encoder/layer_0', 'decoder']")
    after = values(child, 3)
    for name, value in before.items():
        if name.startswith(("model/encoder", "model/decoder")) and "seed" not in name:
            np.testing.assert_array_equal(value, after[name])


# What is tried naturally


def test_where_a_run_has_begun_no_other_weights_are_taken(begun, child, said):
    shutil.copytree(begun.folder, child, dirs_exist_ok=True)
    before = values(child, 2)
    train(child, "train.init_from = 'nowhere'", "TrainingSchedule.steps = 2", FROZEN)
    text = said()
    assert "another configuration: train.init_from" in text
    assert f"give another --model_dir with train.init_from = '{child}/model'" in text
    assert_same_values(values(child, 2), before)


def test_what_cannot_be_meant_is_one_line_before_data_are_prepared(parent, child):
    start = from_model(parent)
    for bindings, message in (
        (["train.init_checkpoint = 'best'"], r"init_from is not bound: bind the model directory"),
        ([from_model(child, "model/../model")], "is the --model_dir itself: give another"),
        (["train.init_from = 'nowhere'"], r"train\.init_from: nowhere is no model directory"),
        ([start, "train.init_checkpoint = 'beste'"], "init_from: no checkpoint beste in"),
        ([start, "LayerConfig.d_ff = 8"], r"other sizes \(config\.d_ff 16 there, 8 now\)"),
        ([start, "TrainStep.frozen = ['encodr']"], "names 'encodr', expected parts of the model"),
    ):
        with pytest.raises(UserError, match=message) as error:
            train(child, *bindings)
        # gin adds lines about the call that it made.
        assert len(str(error.value).splitlines()[0]) < 500
        assert not (child / "data").exists()


def test_other_data_in_the_parent_s_directory_are_told_of_init_from(parent, child, said):
    """Where it is copied, and a gin file names other text, another size or another rate."""
    shutil.copytree(parent / "model", child / "model")
    rows = "Transformer.vocab_size = 290"
    with pytest.raises(UserError, match=r"of a run that began without train\.init_from: leave it"):
        train(child, from_model(parent))
    binding = rf"train\.init_from = '{child}/model'"
    with pytest.raises(UserError, match=rf"of other sizes .*; in these sizes, {binding} has anoth"):
        train(child, rows, "LayerConfig.d_ff = 8")
    with pytest.raises(UserError, match=rf"has other subwords than the data, .* with {binding}\."):
        train(child, rows)
    given = ["prepare.subwords = @GivenSubwords()", "GivenSubwords.model_dir = 'model'"]
    others = ["adam.learning_rate = 0.1", "MovingAverage.decay = 0.9", "TrainingSchedule.steps = 4"]
    said()
    train(child, rows, *given, *others, data="other")
    text = said()
    assert "finished already, after step 4" in text
    assert re.search(rf"give another --model_dir with {binding}$", text, re.MULTILINE)
