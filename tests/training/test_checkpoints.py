"""Checkpoints: all of a run comes back, or the one before; whole or not at all."""

import contextlib
import dataclasses
import errno
import os
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.model.layer_norm import LayerNorm
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.weights import check_exportable, load_weights
from t2t_repro.training.checkpoints import Checkpoints
from t2t_repro.training.learning_rate import InverseSquareRoot
from t2t_repro.training.run_state import RunState
from t2t_repro.training.settings import CheckpointSettings, adam
from tests.training.tiny import assert_same, state_of, tiny_model, untraced


def small_model(seed):
    """Traced in no time: what a checkpoint does with it, it does with any model."""
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dropout(0.1)])
    model.build((None, 3))
    return model


class Run:
    """A model, an optimizer and the checkpoints of both."""

    def __init__(self, model_dir, rate=0.01, seed=0, frozen=(), sizes=None, **settings):
        self.model = small_model(seed) if sizes is None else tiny_model(seed=seed, **sizes)
        self.optimizer = adam(learning_rate=rate)
        self.optimizer.build(self.model.trainable_variables)
        step = untraced(self.model, self.optimizer, frozen=frozen)
        directory = ModelDirectory(model_dir)
        self.checkpoints = Checkpoints(directory, step, CheckpointSettings(**settings))

    def update(self, count=1, seed=0):
        rng = np.random.default_rng(seed)
        weights = self.model.trainable_variables
        for _ in range(count):
            self.optimizer.apply([tf.constant(rng.normal(size=w.shape), w.dtype) for w in weights])

    def restore(self):
        state = self.checkpoints.restore()
        self.checkpoints.tidy()
        return state


def test_the_best_of_a_run_without_its_checkpoints_is_not_deleted(tmp_path):
    run = Run(tmp_path, every_steps=2)
    run.checkpoints.save_best(RunState(step=2))
    assert run.restore() == RunState()
    run.checkpoints.save_best(RunState(step=3))
    with pytest.raises(UserError, match="checkpoints are gone"):
        run.restore()


def test_other_weights_are_refused_by_name(tmp_path, monkeypatch):
    sizes = {"dropout": 0.1}
    ours, deep = Run(tmp_path, sizes=sizes), Run(tmp_path / "2", sizes=sizes | {"num_layers": 2})

    def build_edited(norm, shape):
        keras.layers.LayerNormalization.build(norm, shape)
        norm.shift = norm.add_weight(name="shift", shape=shape[-1:])

    monkeypatch.setattr(LayerNorm, "build", build_edited, raising=False)
    edited = Run(tmp_path / "edited", sizes=sizes)
    for run in (ours, deep, edited):
        run.checkpoints.save(RunState(step=1))
        load_weights(run.model, str(run.checkpoints.newest))
    for one, other, name in ((ours, edited, "/norm/shift"), (ours, deep, "encoder/layer_1/")):
        for run, held in ((one, other), (other, one)):
            with pytest.raises(UserError, match=f"step-1 does not fit .*{name}"):
                load_weights(run.model, str(held.checkpoints.newest))
            with pytest.raises(UserError, match=name):
                dataclasses.replace(run.checkpoints, directory=held.checkpoints.directory).restore()
    check_exportable(deep.model, "it", {})
    with pytest.raises(UserError, match="/norm/shift"):
        check_exportable(edited.model, "it", {})


def indexes(folder):
    return sorted(path.name for path in folder.glob("step-*.index"))


def test_round_trip(tmp_path):
    sizes = {"dropout": 0.1, "num_layers": 3, "num_decoder_layers": 1}
    run = Run(tmp_path, sizes=sizes)
    assert run.restore() == RunState()
    run.update(3)
    state = RunState(step=3, epoch=1, batch=2, best_score=12.5, stale=1)
    run.checkpoints.save(state)
    again = Run(tmp_path, seed=1, sizes=sizes)
    assert again.restore() == state
    assert_same(state_of(again), state_of(run))
    run.update(2, seed=9)
    again.update(2, seed=9)
    assert_same(state_of(again), state_of(run))


def test_the_rate_is_the_configured_one(tmp_path):
    Run(tmp_path, rate=0.01).checkpoints.save(RunState(step=3))
    again = Run(tmp_path, rate=0.005)
    again.restore()
    assert float(again.optimizer.learning_rate) == pytest.approx(0.005)
    scheduled = Run(tmp_path / "scheduled", rate=InverseSquareRoot(0.01, 4))
    scheduled.update(2)
    scheduled.checkpoints.save(RunState(step=2))
    again = Run(tmp_path / "scheduled", rate=InverseSquareRoot(0.02, 4))
    again.restore()
    assert float(again.optimizer.learning_rate) == pytest.approx(0.015)


def test_the_last_ones_are_kept_and_the_best_beside_them(tmp_path):
    run = Run(tmp_path, keep=2)
    run.checkpoints.save_best(RunState(step=1))
    for step in (1, 2, 3):
        run.checkpoints.save(RunState(step=step))
    assert indexes(tmp_path / "checkpoints") == ["step-2.index", "step-3.index"]
    later = Run(tmp_path, keep=2)
    later.restore()
    later.checkpoints.save(RunState(step=4))
    later.checkpoints.save_best(RunState(step=4))
    assert indexes(tmp_path / "checkpoints") == ["step-3.index", "step-4.index"]
    assert indexes(tmp_path / "best") == ["step-4.index"]


def test_a_checkpoint_with_other_frozen_parts_is_refused_and_nothing_deleted(tmp_path):
    run = Run(tmp_path, keep=3)
    for step in (1, 2, 3):
        run.checkpoints.save(RunState(step=step))
    before = sorted((tmp_path / "checkpoints").iterdir())
    with pytest.raises(UserError, match=r"TrainStep\.frozen = \[\]"):
        Run(tmp_path, keep=1, frozen=["encoder"]).restore()
    assert sorted((tmp_path / "checkpoints").iterdir()) == before


def spoil(file, damage):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x10
    file.write_bytes({"changed": content, "cut": content[: len(content) // 2]}[damage])


@pytest.mark.parametrize(
    ("ending", "damage"),
    [("index", "cut"), ("data-00000-of-00001", "changed"), ("data-00000-of-00001", "missing")],
)
def test_a_damaged_checkpoint_is_set_aside_for_the_one_before(tmp_path, caplog, ending, damage):
    run = Run(tmp_path)
    run.update()
    run.checkpoints.save(RunState(step=1))
    before = state_of(run)
    run.update()
    run.checkpoints.save(RunState(step=2))
    file = tmp_path / "checkpoints" / f"step-2.{ending}"
    file.unlink() if damage == "missing" else spoil(file, damage)
    again = Run(tmp_path, seed=3)
    assert again.restore() == RunState(step=1)
    assert_same(state_of(again), before)
    assert "step-2 cannot be read (" in caplog.text
    # Nothing takes it for the newest, and it is written again.
    assert tf.train.latest_checkpoint(str(tmp_path / "checkpoints")).endswith("step-1")
    again.update()
    again.checkpoints.save(RunState(step=2))
    last = Run(tmp_path, seed=4)
    assert last.restore().step == 2
    assert_same(state_of(last), state_of(run))


def test_nothing_is_restored_where_no_checkpoint_can_be_read(tmp_path):
    Run(tmp_path).checkpoints.save(RunState(step=1))
    spoil(tmp_path / "checkpoints" / "step-1.data-00000-of-00001", "cut")
    again = Run(tmp_path, seed=3)
    before = state_of(again)
    with pytest.raises(UserError, match="none of the 1 checkpoints"):
        again.restore()
    assert_same(state_of(again), before)


class Killed(BaseException):
    """Stands for a kill: nothing after it is done, not even tidying up."""


@pytest.mark.parametrize("count", range(1, 12))
def test_killed_at_any_file_operation(tmp_path, monkeypatch, count):
    """One of the two is whole, and the run that goes on leaves the same files."""
    run = Run(tmp_path, keep=1)
    run.checkpoints.save(RunState(step=1))
    values = {1: state_of(run)}
    run.update()
    values[2] = state_of(run)
    with monkeypatch.context() as patch:
        calls = iter(range(1, 100))
        for owner, name in ((os, "replace"), (Path, "unlink"), (os, "mkdir"), (Path, "rmdir")):
            inner = getattr(owner, name)

            def killing(*arguments, inner=inner, **options):
                if next(calls) == count:
                    raise Killed
                return inner(*arguments, **options)

            patch.setattr(owner, name, killing)
        # There are ten.
        with pytest.raises(Killed) if count <= 10 else contextlib.nullcontext():
            run.checkpoints.save(RunState(step=2))
    again = Run(tmp_path, keep=1, seed=3)
    step = again.restore().step
    assert_same(state_of(again), values[step])
    if step == 1:
        again.update()
        again.checkpoints.save(RunState(step=2))
    files = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert files == {"checkpoint", "step-2.index", "step-2.data-00000-of-00001"}


@pytest.mark.parametrize(("call", "step"), [("replace", 2), ("fsync", 1)])
def test_a_full_disk_leaves_the_one_before(tmp_path, monkeypatch, call, step):
    """Also where the same step is written again."""
    run = Run(tmp_path, keep=1)
    run.checkpoints.save(RunState(step=1))
    before = state_of(run)
    run.update()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(UserError, match=rf"cannot write .*step-{step} .*No space left"):
            run.checkpoints.save(RunState(step=step, stale=1))
    again = Run(tmp_path, keep=1, seed=3)
    assert again.restore() == RunState(step=1)
    assert_same(state_of(again), before)


def test_only_the_writer_writes(tmp_path):
    run = Run(tmp_path)
    dataclasses.replace(run.checkpoints, is_writer=False).save(RunState(step=1))
    assert not (tmp_path / "checkpoints").exists()
