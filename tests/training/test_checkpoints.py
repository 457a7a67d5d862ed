import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.training.checkpoints import Checkpoints, RunState
from t2t_repro.training.optimizer import adam
from tests.training.tiny import assert_same, devices, tiny_model


class Run:
    """A model, an optimizer and the checkpoints of both."""

    def __init__(self, model_dir, replicas=1, rate=0.01, seed=0, num_layers=1, **options):
        with devices(replicas).scope():
            self.model = tiny_model(dropout=0.1, num_layers=num_layers, seed=seed)
            self.optimizer = adam(learning_rate=rate)
            self.optimizer.build(self.model.trainable_variables)
            self.checkpoints = Checkpoints(model_dir, self.model, self.optimizer, **options)

    def update(self, count=1, seed=0):
        rng = np.random.default_rng(seed)
        weights = self.model.trainable_variables
        for _ in range(count):
            self.optimizer.apply([tf.constant(rng.normal(size=w.shape), w.dtype) for w in weights])

    def values(self):
        """Weights, Adam's moments, number of updates."""
        variables = [*self.model.trainable_variables, *self.optimizer.variables]
        return [keras.ops.convert_to_numpy(variable.value).copy() for variable in variables]


def steps_in(folder):
    return sorted(path.name for path in folder.glob("step-*.index"))


def test_round_trip(tmp_path):
    run = Run(tmp_path)
    run.update(3)
    state = RunState(step=3, epoch=1, batch=2, best_bleu=12.5, best_nll=3.25, stale=1)
    run.checkpoints.save(state)
    again = Run(tmp_path, seed=1)
    assert any((a != b).any() for a, b in zip(again.values(), run.values(), strict=True))
    assert again.checkpoints.restore() == state
    assert_same(again.values(), run.values())
    assert again.optimizer.iterations.numpy() == 3
    moments = again.values()[len(again.model.trainable_variables) :]
    assert sum(moment.any() for moment in moments) >= 2 * len(again.model.trainable_variables)
    run.update(2, seed=9)
    again.update(2, seed=9)
    assert_same(again.values(), run.values())


def test_a_state_without_dev_scores_survives(tmp_path):
    """Infinity is no number of JSON."""
    run = Run(tmp_path)
    run.checkpoints.save(RunState(step=1, batch=1))
    assert Run(tmp_path).checkpoints.restore() == RunState(step=1, batch=1)


def test_a_run_that_begins(tmp_path):
    run = Run(tmp_path / "new")
    before = run.values()
    assert run.checkpoints.newest is None
    assert run.checkpoints.restore() == RunState()
    assert_same(run.values(), before)


def test_the_number_of_replicas_may_change(tmp_path):
    two = Run(tmp_path, replicas=2)
    state = RunState(step=2, batch=2)
    two.checkpoints.save(state)
    one = Run(tmp_path, seed=1)
    assert one.checkpoints.restore() == state
    assert_same(one.values(), two.values())
    one.update()
    one.checkpoints.save(RunState(step=3, batch=3))
    again = Run(tmp_path, replicas=2, seed=2)
    assert again.checkpoints.restore().step == 3
    assert_same(again.values(), one.values())


def test_the_last_ones_are_kept(tmp_path):
    run = Run(tmp_path, keep=2)
    for step in (1, 2, 3):
        run.checkpoints.save(RunState(step=step))
    folder = tmp_path / "checkpoints"
    assert steps_in(folder) == ["step-2.index", "step-3.index"]
    assert run.checkpoints.newest == str(folder / "step-3")
    # So does the run that goes on: what the one before left is counted.
    later = Run(tmp_path, keep=2)
    later.checkpoints.restore()
    later.checkpoints.save(RunState(step=4))
    assert steps_in(folder) == ["step-3.index", "step-4.index"]


def test_a_step_is_written_once(tmp_path):
    run = Run(tmp_path)
    run.checkpoints.save(RunState(step=1))
    run.update()
    run.checkpoints.save(RunState(step=1))
    again = Run(tmp_path)
    again.checkpoints.restore()
    assert again.optimizer.iterations.numpy() == 0
    # Nor by the run that goes on from it.
    again.update()
    again.checkpoints.save(RunState(step=1))
    third = Run(tmp_path)
    third.checkpoints.restore()
    assert third.optimizer.iterations.numpy() == 0


def test_the_best_stands_beside_the_last(tmp_path):
    run = Run(tmp_path, keep=1)
    run.checkpoints.save_best(RunState(step=2, best_bleu=10.0))
    best = run.values()
    run.update()
    run.checkpoints.save(RunState(step=3, best_bleu=10.0))
    assert steps_in(tmp_path / "best") == ["step-2.index"]
    later = Run(tmp_path, keep=1)
    assert later.checkpoints.restore().step == 3
    later.checkpoints.save_best(RunState(step=4, best_bleu=11.0))
    assert steps_in(tmp_path / "best") == ["step-4.index"]
    assert any((a != b).any() for a, b in zip(later.values(), best, strict=True))


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_a_checkpoint_of_another_depth(tmp_path, before, after):
    Run(tmp_path, num_layers=before).checkpoints.save(RunState(step=1))
    with pytest.raises(UserError, match="step-1 does not fit this model") as error:
        Run(tmp_path, num_layers=after).checkpoints.restore()
    assert "\n" not in str(error.value)


def test_a_checkpoint_of_another_width(tmp_path):
    Run(tmp_path).checkpoints.save(RunState(step=1))
    model = tiny_model(d_model=32)
    optimizer = adam(learning_rate=0.1)
    optimizer.build(model.trainable_variables)
    with pytest.raises(UserError, match=r"step-1 does not fit this model .*--model_dir"):
        Checkpoints(tmp_path, model, optimizer).restore()


@pytest.mark.parametrize("ending", ["index", "data-00000-of-00001"])
@pytest.mark.parametrize("damage", ["cut", "missing"])
def test_a_damaged_checkpoint(tmp_path, ending, damage):
    Run(tmp_path).checkpoints.save(RunState(step=1))
    file = tmp_path / "checkpoints" / f"step-1.{ending}"
    if damage == "cut":
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    else:
        file.unlink()
    with pytest.raises(UserError, match="step-1 does not fit this model"):
        Run(tmp_path).checkpoints.restore()


def test_due_by_steps_and_by_minutes(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    checkpoints = Run(tmp_path, every_steps=3, every_minutes=2).checkpoints
    assert [step for step in range(1, 10) if checkpoints.is_due(step)] == [3, 6, 9]
    now[0] += 119
    assert not checkpoints.is_due(1)
    now[0] += 1
    assert checkpoints.is_due(1)
    checkpoints.save(RunState(step=1))
    assert not checkpoints.is_due(2)
    without = Run(tmp_path / "other", every_steps=3).checkpoints
    now[0] += 10**6
    assert not without.is_due(2)
    assert without.is_due(3)
