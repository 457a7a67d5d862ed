"""A run that starts from another model's weights: `train.init_from`.

One parent, trained for a few updates on words in reverse; and runs on other sentences.
"""

import json
import re
import shutil

import gin
import numpy as np
import pytest

from t2t_repro import experiment
from t2t_repro.data.prepared import PreparedData
from t2t_repro.errors import UserError
from t2t_repro.evaluation.perplexity import HeldOutLoss
from t2t_repro.training.model_directory import ModelDirectory
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


def test_it_begins_with_the_parent_s_weights_and_subwords(parent, child, caplog):
    caplog.set_level("INFO", logger="absl")
    state = train(child, *init(parent), "Pace.steps = 1", "train.init_checkpoint = 'latest'")
    assert state.step == 1
    (nll,) = re.findall(r"step 0: dev nll (\S+),", caplog.text)
    ours, theirs = ModelDirectory(child / "model"), ModelDirectory(parent / "model")
    assert ours.subwords().contents() == theirs.subwords().contents()
    first = ours.load_model("best/step-0")
    assert_same(copies(first), copies(theirs.load_model("latest")))
    data = PreparedData(child / "data" / "prepared")
    expected = HeldOutLoss(theirs.load_model("latest"), data.store("dev")).nll()
    assert state.best_nll <= expected
    assert f"{expected:.4f}" == nll
