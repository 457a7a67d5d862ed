"""The moving average of the weights: its formula, on any devices, in checkpoints, in use."""

import gin
import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.weights import load_last_weights, load_weights
from t2t_repro.training.checkpoints import Checkpoints
from t2t_repro.training.moving_average import MovingAverage
from t2t_repro.training.run_state import RunState
from tests.training.test_train_step import global_batches
from tests.training.tiny import assert_close, assert_same, copies, tiny_model, tiny_step

# The first updates have less, the others this.
DECAY = 0.3


@pytest.fixture(autouse=True)
def decay():
    gin.parse_config(f"MovingAverage.decay = {DECAY}")
    yield
    gin.clear_config()


def averages(step):
    return [value.numpy() for value in step.average.values]


def train(step, first, stop):
    for number, batch in enumerate(global_batches(stop, 2)):
        if number >= first:
            step(number, *batch)


def checkpoints_of(step, folder):
    return Checkpoints(ModelDirectory(folder), step.model, step.optimizer, step.average)


def test_the_formula_on_one_replica_and_on_two():
    of_one, of_two = tiny_step(1, micro_batches=2), tiny_step(2, micro_batches=2)
    expected = copies(of_one.model)
    for number, batch in enumerate(global_batches(8, 2)):
        for step in (of_one, of_two):
            step(number, *batch)
        decay = min(DECAY, (2 + number) / (11 + number))
        expected = [
            decay * old + (1 - decay) * new
            for old, new in zip(expected, copies(of_one.model), strict=True)
        ]
    assert_close(averages(of_one), expected, atol=1e-6)
    assert_close(averages(of_two), averages(of_one), atol=1e-6)
    for value in of_two.average.values:
        here, there = of_two.strategy.experimental_local_results(value)
        np.testing.assert_array_equal(here, there)


def test_a_run_that_goes_on_has_the_average_of_one_that_never_stopped(tmp_path):
    whole, first = tiny_step(micro_batches=2), tiny_step(micro_batches=2)
    train(whole, 0, 6)
    train(first, 0, 3)
    checkpoints_of(first, tmp_path).save(RunState(step=3))
    second = tiny_step(micro_batches=2)
    checkpoints_of(second, tmp_path).restore()
    train(second, 3, 6)
    assert_same(averages(second), averages(whole))
    assert_same(copies(second.model), copies(whole.model))


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_checkpoint_is_used_with_its_average(tmp_path, replicas):
    step = tiny_step(replicas, micro_batches=2)
    train(step, 0, 3)
    checkpoints = checkpoints_of(step, tmp_path)
    checkpoints.save(RunState(step=3))
    model = tiny_model(seed=5)
    load_weights(model, checkpoints.newest)
    assert_same(copies(model), averages(step))
    load_last_weights(model, checkpoints.newest)
    assert_same(copies(model), copies(step.model))
    assert (copies(model)[0] != averages(step)[0]).any()


@pytest.mark.parametrize("replicas", [1, 2])
def test_the_average_stands_in_for_the_weights_for_a_while(replicas):
    step = tiny_step(replicas, micro_batches=2)
    train(step, 0, 3)
    before = copies(step.model)
    try:
        with step.average.in_place():
            assert_same(copies(step.model), averages(step))
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert_same(copies(step.model), before)


def test_the_paper_has_none(tmp_path):
    gin.clear_config()
    step = tiny_step(micro_batches=2)
    before = copies(step.model)
    with step.average.in_place():
        assert_same(copies(step.model), before)
    assert not step.average.values
    checkpoints = checkpoints_of(step, tmp_path)
    checkpoints.save(RunState(step=1))
    # A checkpoint is what it was before there were averages.
    Checkpoints(ModelDirectory(tmp_path), step.model, step.optimizer).restore()
    gin.parse_config(f"MovingAverage.decay = {DECAY}")
    with pytest.raises(UserError, match="step-1 does not fit this model"):
        checkpoints_of(tiny_step(micro_batches=2), tmp_path).restore()


@pytest.mark.parametrize("decay", [0.0, 1.0, -0.5, 2, "0.9"])
def test_what_is_no_decay(decay):
    with pytest.raises(UserError, match=r"MovingAverage.decay is .*, expected a number above 0"):
        MovingAverage(tiny_model().trainable_variables, decay)
