"""A model directory that a run has left, to be read, or copied and spoilt."""

import shutil

import pytest

from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.text.subword_model import shared
from t2t_repro.text.training import SubwordTraining
from t2t_repro.training.checkpoints import Checkpoints
from t2t_repro.training.run_state import RunState
from t2t_repro.training.settings import CheckpointSettings, adam
from tests.layer_test import randomize
from tests.training.tiny import copies, tiny_model, untraced


@pytest.fixture(scope="package")
def subwords(tmp_path_factory):
    """Two vocabularies, each shared by source and target."""
    folder = tmp_path_factory.mktemp("subwords")
    return [
        shared(SubwordTraining(vocab_size=275).train([sentence] * 20, folder / name))
        for name, sentence in (("one", "a man on a bench"), ("two", "zwei Frauen mit Hut"))
    ]


@pytest.fixture(scope="package")
def run(tmp_path_factory, subwords):
    """A model directory with checkpoints 1, 2, 3 and the best one, 2; and their weights."""
    path = tmp_path_factory.mktemp("run") / "model"
    model = tiny_model(dropout=0.1)
    ModelDirectory(path).write_metadata(model, subwords[0], "a = 1\n", "a = 1\nb = 2\n")
    optimizer = adam(learning_rate=0.1)
    optimizer.build(model.trainable_variables)
    step = untraced(model, optimizer)
    checkpoints = Checkpoints(ModelDirectory(path), step, CheckpointSettings())
    weights = {}
    for step in (1, 2, 3):
        randomize(model, step)
        weights[step] = copies(model)
        checkpoints.save(RunState(step=step))
        if step == 2:
            checkpoints.save_best(RunState(step=step))
    return path, weights


@pytest.fixture
def copy(run, tmp_path):
    """A model directory to spoil, in another place than where it was written."""
    shutil.copytree(run[0], tmp_path / "copy")
    return ModelDirectory(tmp_path / "copy")
