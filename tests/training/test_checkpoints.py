import contextlib
import errno
import os
import shutil
import time
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.training.checkpoints import Checkpoints
from t2t_repro.training.learning_rate import InverseSquareRoot
from t2t_repro.training.optimizer import adam
from t2t_repro.training.run_state import RunState
from tests.training.tiny import assert_same, devices, tiny_model


class Run:
    """A model, an optimizer and the checkpoints of both."""

    def __init__(self, model_dir, replicas=1, rate=0.01, seed=0, num_layers=1, **options):
        with devices(replicas).scope():
            self.model = tiny_model(dropout=0.1, num_layers=num_layers, seed=seed)
            self.optimizer = adam(learning_rate=rate)
            self.optimizer.build(self.model.trainable_variables)
            self.checkpoints = Checkpoints(
                ModelDirectory(model_dir), self.model, self.optimizer, **options
            )

    def update(self, count=1, seed=0):
        rng = np.random.default_rng(seed)
        weights = self.model.trainable_variables
        for _ in range(count):
            self.optimizer.apply([tf.constant(rng.normal(size=w.shape), w.dtype) for w in weights])

    def restore(self):
        """As a start does that is not refused."""
        state = self.checkpoints.restore()
        self.checkpoints.tidy()
        return state

    def values(self):
        """Weights, Adam's moments, number of updates."""
        variables = [*self.model.trainable_variables, *self.optimizer.variables]
        return [keras.ops.convert_to_numpy(variable.value).copy() for variable in variables]


def test_the_rate_is_what_is_configured_now(tmp_path):
    run = Run(tmp_path, rate=0.01)
    run.checkpoints.save(RunState(step=3))
    again = Run(tmp_path, rate=0.005)
    again.restore()
    assert float(again.optimizer.learning_rate) == pytest.approx(0.005)
    scheduled = Run(tmp_path / "scheduled", rate=InverseSquareRoot(0.01, 4))
    scheduled.update(2)
    scheduled.checkpoints.save(RunState(step=2))
    again = Run(tmp_path / "scheduled", rate=InverseSquareRoot(0.02, 4))
    again.restore()
    assert float(again.optimizer.learning_rate) == pytest.approx(0.015)


def test_a_run_whose_directory_another_has_made_anew_writes_nothing_there(tmp_path):
    run = Run(tmp_path / "model")
    first, second = (ModelDirectory(tmp_path / "model") for _ in range(2))
    run.checkpoints = Checkpoints(first, run.model, run.optimizer)
    with first.held_for_training():
        run.checkpoints.save(RunState(step=1))
        shutil.rmtree(first.path)
        run.checkpoints.save(RunState(step=2))
        assert steps_in(first.checkpoints) == ["step-2.index"]
        shutil.rmtree(first.path)
        with (
            second.held_for_training(),
            pytest.raises(
                UserError, match=r"model is in use by process \d+ on .*: wait for its end"
            ),
        ):
            run.checkpoints.save(RunState(step=3))
    assert not second.path.exists()


def steps_in(folder):
    return sorted(path.name for path in folder.glob("step-*.index"))


def test_round_trip(tmp_path):
    run = Run(tmp_path)
    run.update(3)
    state = RunState(step=3, epoch=1, batch=2, best_score=12.5, best_nll=3.25, stale=1)
    run.checkpoints.save(state)
    again = Run(tmp_path, seed=1)
    assert any((a != b).any() for a, b in zip(again.values(), run.values(), strict=True))
    assert again.restore() == state
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
    assert Run(tmp_path).restore() == RunState(step=1, batch=1)


def test_a_run_that_begins(tmp_path):
    run = Run(tmp_path / "new")
    before = run.values()
    assert run.checkpoints.newest is None
    assert run.restore() == RunState()
    assert_same(run.values(), before)


def test_the_number_of_replicas_may_change(tmp_path):
    two = Run(tmp_path, replicas=2)
    state = RunState(step=2, batch=2)
    two.checkpoints.save(state)
    one = Run(tmp_path, seed=1)
    assert one.restore() == state
    assert_same(one.values(), two.values())
    one.update()
    one.checkpoints.save(RunState(step=3, batch=3))
    again = Run(tmp_path, replicas=2, seed=2)
    assert again.restore().step == 3
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
    later.restore()
    later.checkpoints.save(RunState(step=4))
    assert steps_in(folder) == ["step-3.index", "step-4.index"]


def test_a_step_is_written_once(tmp_path):
    run = Run(tmp_path)
    run.checkpoints.save(RunState(step=1))
    run.update()
    run.checkpoints.save(RunState(step=1))
    again = Run(tmp_path)
    again.restore()
    assert again.optimizer.iterations.numpy() == 0
    # Nor by the run that goes on from it.
    again.update()
    again.checkpoints.save(RunState(step=1))
    third = Run(tmp_path)
    third.restore()
    assert third.optimizer.iterations.numpy() == 0


def test_the_best_stands_beside_the_last(tmp_path):
    run = Run(tmp_path, keep=1)
    run.checkpoints.save_best(RunState(step=2, best_score=10.0))
    best = run.values()
    run.update()
    run.checkpoints.save(RunState(step=3, best_score=10.0))
    assert steps_in(tmp_path / "best") == ["step-2.index"]
    later = Run(tmp_path, keep=1)
    assert later.restore().step == 3
    later.checkpoints.save_best(RunState(step=4, best_score=11.0))
    assert steps_in(tmp_path / "best") == ["step-4.index"]
    assert any((a != b).any() for a, b in zip(later.values(), best, strict=True))


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_a_checkpoint_of_another_depth(tmp_path, before, after):
    Run(tmp_path, num_layers=before).checkpoints.save(RunState(step=1))
    with pytest.raises(UserError, match="step-1 does not fit this model") as error:
        Run(tmp_path, num_layers=after).restore()
    assert "\n" not in str(error.value)


def test_a_checkpoint_of_another_width(tmp_path):
    Run(tmp_path).checkpoints.save(RunState(step=1))
    model = tiny_model(d_model=32)
    optimizer = adam(learning_rate=0.1)
    optimizer.build(model.trainable_variables)
    with pytest.raises(UserError, match=r"step-1 does not fit this model .*--model_dir"):
        Checkpoints(ModelDirectory(tmp_path), model, optimizer).restore()


def spoil(file, damage):
    content = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
        return
    content[len(content) // 2] ^= 0x10
    file.write_bytes(
        {"changed": content, "cut": content[: len(content) // 2], "empty": b""}[damage]
    )


DAMAGES = pytest.mark.parametrize("damage", ["cut", "empty", "changed", "missing"])
ENDINGS = pytest.mark.parametrize("ending", ["index", "data-00000-of-00001"])


@ENDINGS
@DAMAGES
def test_a_damaged_checkpoint_is_set_aside_for_the_one_before(tmp_path, caplog, ending, damage):
    run = Run(tmp_path)
    run.update()
    run.checkpoints.save(RunState(step=1))
    before = run.values()
    run.update()
    run.checkpoints.save(RunState(step=2))
    spoil(tmp_path / "checkpoints" / f"step-2.{ending}", damage)
    again = Run(tmp_path, seed=3)
    assert again.restore() == RunState(step=1)
    assert_same(again.values(), before)
    (line,) = (text for text in caplog.messages if "step-2 cannot be read (" in text)
    assert "going on from step 1" in line
    assert "\n" not in line
    # Nobody else takes it for the newest, and it is written anew.
    assert str(again.checkpoints.newest).endswith("step-1")
    assert tf.train.latest_checkpoint(str(tmp_path / "checkpoints")).endswith("step-1")
    again.update()
    again.checkpoints.save(RunState(step=2))
    assert_same(again.values(), run.values())
    files = {path.name for path in (tmp_path / "checkpoints").glob("step-2*")}
    assert files == {"step-2.index", "step-2.data-00000-of-00001"}
    last = Run(tmp_path, seed=4)
    assert last.restore().step == 2
    assert_same(last.values(), run.values())


@ENDINGS
@DAMAGES
def test_nothing_is_loaded_where_no_checkpoint_can_be_read(tmp_path, ending, damage):
    Run(tmp_path).checkpoints.save(RunState(step=1))
    spoil(tmp_path / "checkpoints" / f"step-1.{ending}", damage)
    again = Run(tmp_path, seed=3)
    before = again.values()
    with pytest.raises(UserError, match=r"none of the 1 checkpoints in .* can be read") as error:
        again.restore()
    assert "\n" not in str(error.value)
    assert_same(again.values(), before)


@pytest.mark.parametrize("content", [b"", b"\x00\xff", b"model_checkpoint_path: 'elsewhere'"])
def test_the_list_of_checkpoints_may_be_lost(tmp_path, content):
    run = Run(tmp_path)
    run.checkpoints.save(RunState(step=1))
    (tmp_path / "checkpoints" / "checkpoint").write_bytes(content)
    assert Run(tmp_path).restore() == RunState(step=1)
    assert tf.train.latest_checkpoint(str(tmp_path / "checkpoints")).endswith("step-1")


class Killed(BaseException):
    """Stands for a kill: nothing after it is done, not even tidying up."""


@pytest.mark.parametrize("count", range(1, 10))
def test_killed_at_any_file_operation(tmp_path, monkeypatch, count):
    """One of the two is there whole, and the run that goes on leaves what it would have left."""
    run = Run(tmp_path, keep=1)
    run.checkpoints.save(RunState(step=1))
    values = {1: run.values()}
    run.update()
    values[2] = run.values()
    with monkeypatch.context() as patch:
        calls = iter(range(1, 100))
        for owner, name in ((os, "replace"), (Path, "unlink"), (Path, "mkdir"), (Path, "rmdir")):
            inner = getattr(owner, name)

            def killing(*arguments, inner=inner, **options):
                if next(calls) == count:
                    raise Killed
                return inner(*arguments, **options)

            patch.setattr(owner, name, killing)
        # There is no ninth.
        with pytest.raises(Killed) if count <= 8 else contextlib.nullcontext():
            run.checkpoints.save(RunState(step=2))
    again = Run(tmp_path, keep=1, seed=3)
    step = again.restore().step
    assert_same(again.values(), values[step])
    if step == 1:
        again.update()
        again.checkpoints.save(RunState(step=2))
    files = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert files == {"checkpoint", "step-2.index", "step-2.data-00000-of-00001"}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="wants to know what is synced")
def test_what_is_deleted_is_replaced_on_the_disk(tmp_path, monkeypatch):
    """Of a machine that loses its power, only what was synced is left."""
    run, folder, done = Run(tmp_path, keep=1), tmp_path / "checkpoints", []
    run.checkpoints.save(RunState(step=1))
    fsync, replace, unlink = os.fsync, os.replace, Path.unlink

    def record(what, path, action):
        done.append((what, Path(path).name))
        return action()

    monkeypatch.setattr(
        os,
        "fsync",
        lambda n: record("sync", os.readlink(f"/proc/self/fd/{n}"), lambda: fsync(n)),
    )
    monkeypatch.setattr(os, "replace", lambda a, b: record("rename", b, lambda: replace(a, b)))
    monkeypatch.setattr(
        Path,
        "unlink",
        lambda path, **options: record("delete", path, lambda: unlink(path, **options)),
    )
    run.checkpoints.save(RunState(step=2))
    folder_synced = done.index(("sync", folder.name))
    for file in folder.glob("step-2.*"):
        synced, renamed = (done.index((what, file.name)) for what in ("sync", "rename"))
        assert synced < renamed < folder_synced
    assert folder_synced < done.index(("delete", "step-1.index"))


def test_a_step_that_is_written_again_is_there_until_it_is_on_the_disk(tmp_path, monkeypatch):
    run = Run(tmp_path, keep=1)
    run.checkpoints.save(RunState(step=1))
    before = run.values()
    run.update()

    def full(*_):
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UserError, match=r"cannot write .*step-1 .*quota.*intact"):
            run.checkpoints.save(RunState(step=1, stale=1))
    again = Run(tmp_path, keep=1, seed=3)
    assert again.restore() == RunState(step=1)
    assert_same(again.values(), before)


def test_a_start_that_is_refused_deletes_nothing(tmp_path):
    run = Run(tmp_path, keep=3)
    for step in (1, 2, 3):
        run.checkpoints.save(RunState(step=step))
    there = sorted((tmp_path / "checkpoints").iterdir())
    with pytest.raises(UserError, match=r"is of a run with TrainStep\.frozen = \[\]"):
        Run(tmp_path, keep=1, frozen=["encoder"]).checkpoints.restore()
    assert sorted((tmp_path / "checkpoints").iterdir()) == there


def test_a_clock_that_is_set_back_changes_nothing(tmp_path, monkeypatch):
    now = [2e9]
    monkeypatch.setattr(time, "time", lambda: now[0])
    for step in (1, 2, 3, 4):
        run = Run(tmp_path, keep=2)
        assert run.restore().step == step - 1
        run.checkpoints.save(RunState(step=step))
        now[0] -= 1e6
    assert steps_in(tmp_path / "checkpoints") == ["step-3.index", "step-4.index"]
    listed = tf.train.get_checkpoint_state(str(tmp_path / "checkpoints"))
    assert [Path(p).name for p in listed.all_model_checkpoint_paths] == ["step-3", "step-4"]


def test_a_full_disk_leaves_the_one_before(tmp_path, monkeypatch):
    run = Run(tmp_path, keep=1)
    run.checkpoints.save(RunState(step=1))

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(UserError, match=r"cannot write .*step-2 .*No space left.*intact"):
            run.checkpoints.save(RunState(step=2))
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [
        "checkpoint",
        "step-1.data-00000-of-00001",
        "step-1.index",
    ]
    assert Run(tmp_path).restore().step == 1


@pytest.mark.parametrize(
    ("name", "value"), [("every_steps", 0), ("keep", 0), ("every_minutes", -1)]
)
def test_what_cannot_be_meant_is_refused(tmp_path, name, value):
    with pytest.raises(
        UserError, match=rf"^Checkpoints\.{name} is {value}, expected an? .* at least"
    ):
        Run(tmp_path, **{name: value})


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
