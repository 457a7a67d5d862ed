"""A run that starts from another model's weights: `train.init_from`.

One parent, trained for a few updates on words in reverse; and runs on other sentences.
"""

import re
import shutil

import gin
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro import experiment
from t2t_repro.data.prepared import PreparedData
from t2t_repro.data.subword_model import shared
from t2t_repro.data.t2t_subwords import T2TSubwords
from t2t_repro.errors import UserError
from t2t_repro.evaluation.perplexity import HeldOutLoss
from t2t_repro.import_t2t import DECODING
from t2t_repro.layers.layer_config import LayerConfig
from t2t_repro.models.transformer import Transformer
from t2t_repro.training.ancestry import weights_hash
from t2t_repro.training.journal import Journal
from t2t_repro.training.model_directory import ModelDirectory
from t2t_repro.training.train_step import TrainStep
from t2t_repro.training.weights import name_of
from tests.data.test_t2t_subwords import VOCABULARY, write
from tests.training.tiny import assert_same, copies, devices

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
Pace.steps = 6
Pace.report_every = 2
Pace.evaluate_every = 100
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


def train(folder, *bindings, model="model", data="data"):
    """Trains in a folder with a corpus; the state at the end."""
    gin.clear_config()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        path = folder / "experiment.gin"
        path.write_text(GIN)
        experiment.configure_experiment(path, bindings, experiment.TRAINING_ROOTS)
        return experiment.train(folder / model, folder / data)


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parent")
    write_corpus(folder, WORDS, 1)
    train(folder, "Checkpoints.every_steps = 3")
    return folder


def init(parent, *others):
    return [f"train.init_from = '{parent}/model'", *others]


@pytest.fixture
def child(tmp_path):
    write_corpus(tmp_path, [*WORDS[5:], "kiwi", "lynx"], 2)
    return tmp_path


@pytest.fixture
def said(caplog):
    caplog.set_level("INFO", logger="absl")

    def lines():
        text = "\n".join(record.getMessage() for record in caplog.records)
        caplog.clear()
        return text

    return lines


@pytest.fixture
def evaluations(monkeypatch):
    """Of every dev evaluation its step and its nll, exactly."""
    found = []
    report = Journal.evaluation

    def evaluation(self, step, scores, seconds):
        found.append((step, scores.nll))
        report(self, step, scores, seconds)

    monkeypatch.setattr(Journal, "evaluation", evaluation)
    return found


def dev_nll(model, folder, data="data"):
    return HeldOutLoss(model, PreparedData(folder / data / "prepared").store("dev")).nll()


def values(folder, step, model="model"):
    """All that a checkpoint holds of weights and of the optimizer, by name."""
    reader = tf.train.load_checkpoint(str(folder / model / "checkpoints" / f"step-{step}"))
    names = reader.get_variable_to_shape_map()
    return {
        name: reader.get_tensor(name)
        for name in sorted(names)
        if name.startswith(("model/", "optimizer/", "average/", "state")) and "_GRAPH" not in name
    }


def assert_same_values(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


# The beginning


def test_it_begins_with_the_parent_s_weights_and_subwords(parent, child, evaluations, said):
    state = train(child, *init(parent), "Pace.steps = 1")
    ours, theirs = ModelDirectory(child / "model"), ModelDirectory(parent / "model")
    # As translate and the others find it.
    expected = theirs.load_model()
    assert_same(copies(ours.load_model("best/step-0")), copies(expected))
    assert ours.subwords().contents() == theirs.subwords().contents()
    assert (evaluations[0][0], evaluations[0][1]) == (0, dev_nll(expected, child))
    assert [step for step, _ in evaluations] == [0, 1]
    text = said()
    assert f"data: with the subwords of {parent / 'model'} (train.init_from)" in text
    assert f"data: taking 280 subwords from {parent / 'model' / 'subwords.model'}" in text
    checkpoint = theirs.checkpoint().split("model/")[-1]
    assert (
        f"train: starts from the weights of {parent / 'model'}, {checkpoint} (train.init_from); "
        "rows of pieces: embedding 280 carried over, 0 new"
    ) in text
    # Optimizer and schedule are fresh, whatever the parent's were.
    assert state.step == 1
    assert values(child, 1)["optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE"] == 1


def test_any_checkpoint_and_every_row_that_the_parent_has(parent, child, evaluations):
    """Also those of no piece, which count in the softmax."""
    train(parent, "Pace.steps = 3", "Transformer.vocab_size = 290", model="wide", data="wide_data")
    start = f"train.init_from = '{parent}/wide'"
    train(child, start, "train.init_checkpoint = 'checkpoints/step-3'", "Pace.steps = 1")
    expected = ModelDirectory(parent / "wide").load_model("latest")
    assert expected.vocab_size == 290
    assert evaluations[-2] == (0, dev_nll(expected, child))
    (ancestor,) = ModelDirectory(child / "model").ancestors()
    assert ancestor.checkpoint == "checkpoints/step-3"


def test_a_moving_average_begins_with_what_the_parent_is_used_with(parent, child, evaluations):
    """Of the parent its average; and ours begins with that."""
    average = "MovingAverage.decay = 0.9"
    train(parent, "Pace.steps = 3", average, model="averaging")
    start = f"train.init_from = '{parent}/averaging'"
    train(child, start, average, "Pace.steps = 1")
    expected = ModelDirectory(parent / "averaging").load_model()
    assert evaluations[-2] == (0, dev_nll(expected, child))
    first = ModelDirectory(child / "model").load_model("best/step-0")
    assert_same(copies(first), copies(expected))


def test_on_several_replicas_it_begins_with_the_same(parent, child, evaluations, monkeypatch):
    monkeypatch.setattr(experiment, "choose_strategy", lambda cluster: devices(2))
    train(
        child, *init(parent), "Pace.steps = 1", "TrainStep.slices = 2", "MovingAverage.decay = 0.9"
    )
    expected = ModelDirectory(parent / "model").load_model()
    assert evaluations[0] == (0, dev_nll(expected, child))


def test_an_imported_model_s_data_are_prepared_with_its_subwords(child, evaluations):
    """Tensor2Tensor's vocabulary, as import_t2t writes it."""
    subwords = shared(T2TSubwords(write(child / "vocab", VOCABULARY)))
    config = LayerConfig(d_model=16, d_ff=16, num_heads=2)
    model = Transformer(len(VOCABULARY) + 5, 1, config, positional_encoding="concatenated")
    model.build()
    directory = ModelDirectory(child / "imported")
    directory.describe(model, subwords, DECODING, DECODING)
    directory.write_imported(model, 250)
    start = f"train.init_from = '{child}/imported'"
    with pytest.raises(UserError, match=r"\(positional_encoding 'concatenated' there, 'interl"):
        train(child, start)
    assert not (child / "data").exists()
    train(child, start, "Pace.steps = 1", "Transformer.positional_encoding = 'concatenated'")
    assert evaluations[0] == (0, dev_nll(model, child))
    translator = experiment.load_translator(child / "model")
    assert isinstance(translator.translate(["ant bee"])[0][0].text, str)


def test_both_vocabularies_of_a_parent_are_taken(parent, child, evaluations):
    two = [
        "Transformer.tied_embeddings = 'target_softmax'",
        "prepare.source_subwords = @source/SubwordTraining()",
        "source/SubwordTraining.vocab_size = 285",
        "Pace.steps = 1",
    ]
    train(parent, *two, model="two", data="two_data")
    start = f"train.init_from = '{parent}/two'"
    with pytest.raises(UserError, match=r"bind Transformer\.tied_embeddings = 'target_softmax'"):
        train(child, start)
    train(child, start, two[0], two[3])
    theirs = ModelDirectory(parent / "two")
    assert ModelDirectory(child / "model").subwords().contents() == theirs.subwords().contents()
    assert evaluations[-2] == (0, dev_nll(theirs.load_model(), child))


def test_a_vocabulary_of_its_own(parent, child, said):
    own = ["prepare.subwords = @SubwordTraining()", "SubwordTraining.vocab_size = 285"]
    train(child, *init(parent), *own, "Pace.steps = 1")
    ours, theirs = ModelDirectory(child / "model"), ModelDirectory(parent / "model")
    pieces, before = (one.subwords().target.pieces() for one in (ours, theirs))
    common = set(pieces) & set(before)
    assert 259 < len(common) < 280
    counts = f"embedding {len(common)} carried over, {285 - len(common)} new"
    assert counts in said()
    rows, there = (
        one.load_model(name).embedding.table.numpy()
        for one, name in ((ours, "best/step-0"), (theirs, None))
    )
    for piece in common:
        np.testing.assert_array_equal(rows[pieces.index(piece)], there[before.index(piece)])
    (ancestor,) = ours.ancestors()
    assert ancestor.carried_rows == {"embedding/table": len(common)}
    assert ancestor.new_rows == {"embedding/table": 285 - len(common)}


def test_data_are_prepared_as_the_run_will_ask_for_them(parent, child, monkeypatch):
    """By datagen, from the same file; a macro may name the parent."""
    monkeypatch.chdir(child)
    bindings = [f"parent = '{parent}/model'", "train.init_from = %parent"]
    (child / "experiment.gin").write_text(GIN)
    experiment.configure_experiment(child / "experiment.gin", bindings)
    data = experiment.prepare_data(child / "data")
    expected = ModelDirectory(parent / "model").subwords().contents()
    assert data.subwords.contents() == expected
    train(child, *bindings, "Pace.steps = 1")


# Going on


class Killed(BaseException):
    pass


def killed_at(folder, monkeypatch, step, *bindings):
    """Trains until just before an update; what was not written by then is lost."""

    def call(self, number, *args, **kwargs):
        if number == step:
            raise Killed
        return update(self, number, *args, **kwargs)

    update = TrainStep.__call__
    with monkeypatch.context() as patch:
        patch.setattr(TrainStep, "__call__", call)
        with pytest.raises(Killed):
            train(folder, *bindings)


def test_killed_and_resumed_is_uninterrupted_even_where_the_parent_is_gone(
    parent, child, monkeypatch, said
):
    shutil.copytree(parent / "model", child / "parent")
    bindings = [
        "train.init_from = 'parent'",
        "train.seed = 3",
        "Checkpoints.every_steps = 2",
        "MovingAverage.decay = 0.9",
        "TrainStep.frozen = ['encoder']",
    ]
    shutil.copytree(child, child.with_name("whole"))
    whole = child.with_name("whole")
    train(whole, *bindings)
    killed_at(child, monkeypatch, 1, *bindings)
    assert not ModelDirectory(child / "model").has_begun()
    killed_at(child, monkeypatch, 3, *bindings)
    shutil.rmtree(child / "parent")
    said()
    train(child, *bindings)
    text = said()
    assert "train: going on after step 2" in text
    assert "starts from the weights" not in text
    assert_same_values(values(child, 6), values(whole, 6))


def test_where_a_run_has_begun_nothing_is_taken_over_again(parent, child, said):
    train(child, *init(parent), "Pace.steps = 2")
    before = values(child, 2)
    said()
    train(child, f"train.init_from = '{child}/nowhere'", "Pace.steps = 2")
    text = said()
    assert "configuration: train.init_from" in text
    assert f"give another --model_dir with train.init_from = '{child}/model'" in text
    assert_same_values(values(child, 2), before)


def test_other_parts_than_the_checkpoint_s_frozen_ones_are_one_line(parent, child):
    begin = [*init(parent), "Pace.steps = 2"]
    train(child, *begin, "TrainStep.frozen = ['decoder/layer_0', 'encoder']")
    before = values(child, 2)
    longer = [*init(parent), "Pace.steps = 4"]
    for frozen, now in (("[]", r"\[\]"), ("['encoder/layer_0']", r"\['encoder'\]")):
        message = rf"frozen = \['encoder', 'decoder'\], expected {now}: .* with train\.init_from"
        with pytest.raises(UserError, match=message) as error:
            train(child, *longer, f"TrainStep.frozen = {frozen}")
        assert len(str(error.value).splitlines()[0]) < 600
    assert_same_values(values(child, 2), before)
    # Other words for the same parts.
    train(child, *longer, "TrainStep.frozen = ['encoder/layer_0', 'decoder']")
    after = values(child, 4)
    for name, value in before.items():
        if name.startswith(("model/encoder", "model/decoder")) and "seed" not in name:
            np.testing.assert_array_equal(value, after[name])


def test_a_model_remembers_all_its_ancestors(parent, child):
    train(child, *init(parent), "Pace.steps = 1")
    train(child, f"train.init_from = '{child}/model'", "Pace.steps = 1", model="grandchild")
    first, second = ModelDirectory(child / "grandchild").ancestors()
    assert (first.model_dir, first.checkpoint[:5]) == (str(child / "model"), "best/")
    assert second == ModelDirectory(child / "model").ancestors()[0]
    assert second.model_dir == str(parent / "model")
    used = ModelDirectory(child / "model").load_model(first.checkpoint)
    weights = {name_of(weight): weight.numpy() for weight in used.trainable_variables}
    assert first.weights_sha256 == weights_hash(weights)


# What is tried naturally


def test_what_cannot_be_meant_is_one_line(parent, child):
    for bindings, message in (
        (["train.init_checkpoint = 'best'"], r"init_from is not bound: bind the model directory"),
        ([f"train.init_from = '{child}/model/../model'"], "is the --model_dir itself: give anoth"),
        (["train.init_from = 'nowhere'"], r"train\.init_from: nowhere is no model directory"),
        (init(parent, "train.init_checkpoint = 'beste'"), "init_from: no checkpoint beste in"),
        (init(parent, "LayerConfig.d_ff = 8"), r"other sizes \(config\.d_ff 16 there, 8 now\)"),
        (init(parent, "TrainStep.frozen = ['encodr']"), "names 'encodr', expected parts of the"),
    ):
        with pytest.raises(UserError, match=message):
            train(child, *bindings)
        assert not (child / "data").exists()
    train(child, "Pace.steps = 1")
    with pytest.raises(UserError, match=r"of a run that began without train\.init_from: leave it"):
        train(child, *init(parent))


def test_other_data_in_the_parent_s_directory_are_told_of_init_from(parent, child, said):
    """Where it is copied, and a gin file names other text, another size or another rate."""
    shutil.copytree(parent / "model", child / "model")
    binding = rf"train\.init_from = '{child}/model'"
    with pytest.raises(UserError, match=rf"has other subwords than the data, .* with {binding}\."):
        train(child)
    with pytest.raises(UserError, match=rf"of other sizes .*; in these sizes, {binding} has anoth"):
        train(child, "LayerConfig.d_ff = 8")
    said()
    given = ["prepare.subwords = @GivenSubwords()", "GivenSubwords.model_dir = 'model'"]
    train(child, *given, "adam.learning_rate = 0.1", "Pace.steps = 6", data="other")
    text = said()
    assert "finished already, after step 6" in text
    assert re.search(rf"give another --model_dir with {binding}$", text, re.MULTILINE)
