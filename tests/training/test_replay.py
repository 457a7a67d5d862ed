"""A batch that gave no finite loss, run again: which variable, and where it began."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.weights import load_last_weights
from t2t_repro.training.checkpoints import Checkpoints
from t2t_repro.training.replay import BadBatch, read_batch, replay
from t2t_repro.training.run_state import RunState
from tests.training.test_train_step import Huge, global_batches
from tests.training.tiny import tiny_model, tiny_step


@pytest.fixture(scope="module")
def step():
    return tiny_step(micro_batches=2, dropout=0.2)


@pytest.fixture
def batch():
    return BadBatch(7, *next(global_batches(1, 2)))


def test_what_is_written_is_read(tmp_path, step, batch):
    checkpoints = Checkpoints(ModelDirectory(tmp_path), step.model, step.optimizer)
    file = checkpoints.save_bad_batch(RunState(step=7), *map(tf.constant, batch[1:]))
    again = read_batch(file)
    assert again.step == 7
    np.testing.assert_array_equal(again.source, batch.source)
    np.testing.assert_array_equal(again.target, batch.target)
    other = tiny_model(dropout=0.2, seed=9)
    load_last_weights(other, str(file.with_suffix("")))
    np.testing.assert_array_equal(other.get_weights()[0], step.model.get_weights()[0])


def test_the_figures_are_those_of_the_update(step, batch):
    lines = replay(step, batch)
    assert lines[0] == "step 8: weights not finite before it: none"
    result = step(7, batch.source, batch.target)
    assert lines[1] == (
        f"loss {float(result.loss):.6g}, nll {float(result.nll):.6g}, {int(result.tokens)} "
        "target tokens"
    )
    assert f"gradient norm {float(result.gradient_norm):.6g}, by variable:" in lines[2]
    assert len(lines) == 4 + len(step.model.trainable_variables)
    assert "everything is finite here" in lines[-1]


def test_the_first_operation_is_named(step, batch):
    kernel = next(v for v in step.model.trainable_variables if "decoder" in v.path)
    before = kernel.numpy()
    kernel.assign(before * 3e38)
    lines = replay(step, batch)
    kernel.assign(before)
    assert lines[1].startswith("loss nan")
    assert "first not finite: the output of MatMul in " in lines[-1]
    assert "decoder.py" in lines[-1]
    assert "attention.py" in lines[-1]
    assert "packing.py" not in lines[-1]
    assert lines[-2] == "loss: not finite; gradients that are not finite: all"


def test_a_norm_whose_square_is_no_float_is_not_called_damaged_memory(batch):
    step = tiny_step(micro_batches=2, loss=Huge())
    lines = replay(step, batch)
    norm = float(lines[2].removeprefix("gradient norm ").partition(",")[0])
    result = step(7, batch.source, batch.target)
    assert norm == pytest.approx(float(result.gradient_norm), rel=1e-5)
    assert 1.8e19 < norm < np.inf
    assert lines[-1].startswith("loss and gradients are finite, but the gradient's norm is beyond")
    largest = max(lines[3:-1], key=lambda line: float(line.split()[0])).split()[1]
    assert f"; the longest is that of {largest}; " in lines[-1]


@pytest.mark.parametrize("content", [b"", b"PK", b"\x93NUMPY", None])
def test_a_file_that_is_no_batch(tmp_path, content):
    file = tmp_path / "step-7.npz"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError, match=r"step-7.npz: cannot be read .*nonfinite/step-<n>"):
        read_batch(file)
