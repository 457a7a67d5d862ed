"""The moving average of the weights: its formula, on any devices, in checkpoints, in use."""

import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.weights import load_weights
from t2t_repro.training.checkpoints import Checkpoints, CheckpointSettings
from t2t_repro.training.moving_average import MovingAverageSettings
from t2t_repro.training.run_state import RunState
from tests.training.tiny import (
    assert_close,
    assert_same,
    copies,
    global_batches,
    tiny_model,
    tiny_step,
)

# The first updates have less, the others this.
DECAY = 0.3


def averaging_step(replicas=1, decay=DECAY):
    return tiny_step(replicas, micro_batches=2, decay=decay)


@pytest.fixture(scope="module")
def two_replicas():
    """A step of two replicas after eight updates."""
    step = averaging_step(2)
    for number, batch in enumerate(global_batches(8, 2)):
        step(number, *batch)
    return step


def averages(step):
    return [value.numpy() for value in step.average.values]


def checkpoints_of(step, folder):
    return Checkpoints(
        ModelDirectory(folder), step.model, step.optimizer, CheckpointSettings(), step.average
    )


def test_the_formula_on_one_replica_and_on_two(two_replicas):
    step = averaging_step()
    expected = copies(step.model)
    for number, batch in enumerate(global_batches(8, 2)):
        step(number, *batch)
        decay = min(DECAY, (2 + number) / (11 + number))
        expected = [
            decay * old + (1 - decay) * new
            for old, new in zip(expected, copies(step.model), strict=True)
        ]
    assert_close(averages(step), expected, atol=1e-6)
    assert_close(averages(two_replicas), averages(step), atol=1e-6)
    for value in two_replicas.average.values:
        here, there = two_replicas.strategy.experimental_local_results(value)
        np.testing.assert_array_equal(here, there)


def test_a_checkpoint_is_used_with_its_average_and_resumed_with_both(two_replicas, tmp_path):
    checkpoints = checkpoints_of(two_replicas, tmp_path)
    checkpoints.save(RunState(step=8))
    model = tiny_model(seed=5)
    load_weights(model, checkpoints.newest)
    assert_same(copies(model), averages(two_replicas))
    resumed = averaging_step()
    checkpoints_of(resumed, tmp_path).restore()
    assert_same(averages(resumed), averages(two_replicas))
    assert_same(copies(resumed.model), copies(two_replicas.model))


def test_the_average_stands_in_for_the_weights_for_a_while(two_replicas):
    before = copies(two_replicas.model)

    def use():
        with two_replicas.average.in_place():
            assert_same(copies(two_replicas.model), averages(two_replicas))
            assert (copies(two_replicas.model)[0] != before[0]).any()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        use()
    assert_same(copies(two_replicas.model), before)


def test_the_paper_has_none(tmp_path):
    step = averaging_step(decay=None)
    before = copies(step.model)
    with step.average.in_place():
        assert_same(copies(step.model), before)
    checkpoints_of(step, tmp_path).save(RunState(step=1))
    with pytest.raises(UserError, match="step-1 does not fit this model"):
        checkpoints_of(averaging_step(), tmp_path).restore()


@pytest.mark.parametrize("decay", [0.0, 1.0, "0.9"])
def test_values_out_of_range(decay):
    with pytest.raises(UserError, match="decay is "):
        MovingAverageSettings(decay)
