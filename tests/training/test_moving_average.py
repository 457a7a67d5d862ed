"""The moving average of the weights: its formula, on any devices, in checkpoints, in use."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.weights import load_weights
from t2t_repro.training.checkpoints import Checkpoints
from t2t_repro.training.moving_average import MovingAverage
from t2t_repro.training.run_state import RunState
from t2t_repro.training.settings import CheckpointSettings, adam
from tests.training.tiny import assert_close, assert_same, copies, devices, tiny_model, untraced

# The first updates have less, the others this.
DECAY = 0.3


@pytest.mark.parametrize("replicas", [1, 2])
def test_the_formula(replicas):
    rng = np.random.default_rng(0)
    strategy = devices(replicas)
    with strategy.scope():
        weights = [keras.Variable(rng.normal(size=shape)) for shape in ((2, 3), (4,))]
        average = MovingAverage(weights, DECAY)
    update = tf.function(average.update)
    expected = [weight.numpy() for weight in weights]
    for step in range(1, 9):
        for weight in weights:
            weight.assign(rng.normal(size=weight.shape))
        update(tf.constant(step))
        decay = min(DECAY, (1 + step) / (10 + step))
        expected = [
            decay * old + (1 - decay) * weight.numpy()
            for old, weight in zip(expected, weights, strict=True)
        ]
    for value, numbers in zip(average.values, expected, strict=True):
        for local in strategy.experimental_local_results(value):
            np.testing.assert_allclose(local, numbers, rtol=1e-5)


class Run:
    """A model with an average of other values, and the checkpoints of both."""

    def __init__(self, folder, decay, seed=0):
        self.model = tiny_model(seed=seed)
        weights = self.model.trainable_variables
        self.average = MovingAverage(weights, decay)
        optimizer = adam(learning_rate=0.1)
        optimizer.build(weights)
        for weight in weights:
            weight.assign(weight + 1.0)
        step = untraced(self.model, optimizer, self.average)
        self.checkpoints = Checkpoints(ModelDirectory(folder), step, CheckpointSettings())

    def averages(self):
        return [value.numpy() for value in self.average.values]


def test_a_checkpoint_is_used_with_its_average_and_resumed_with_both(tmp_path):
    run = Run(tmp_path, DECAY)
    run.checkpoints.save(RunState(step=8))
    model = tiny_model(seed=5)
    load_weights(model, str(run.checkpoints.newest))
    assert_same(copies(model), run.averages())
    assert (copies(model)[0] != copies(run.model)[0]).any()
    resumed = Run(tmp_path, DECAY, seed=6)
    resumed.checkpoints.restore()
    assert_same(resumed.averages(), run.averages())
    assert_same(copies(resumed.model), copies(run.model))


def test_the_average_stands_in_for_the_weights_for_a_while(tmp_path):
    run = Run(tmp_path, DECAY)
    before = copies(run.model)

    def use():
        with run.average.replacing_weights():
            assert_same(copies(run.model), run.averages())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        use()
    assert_same(copies(run.model), before)
    run.average.restart()
    assert_close(run.averages(), before, atol=0)
