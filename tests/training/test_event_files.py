"""TensorBoard files after a kill: nothing doubled or missing, by TensorBoard's own reader."""

import contextlib
import os
from pathlib import Path

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from t2t_repro.training import event_files
from t2t_repro.training.event_files import rewind


def write(directory, steps, offset=0.0):
    """One start of a run: a scalar and a text at each of these steps."""
    writer = tf.summary.create_file_writer(str(directory))
    with writer.as_default():
        for step in steps:
            tf.summary.scalar("loss", step + offset, step=step)
            tf.summary.scalar("rate", 1.0 / (1 + step), step=step)
            tf.summary.text("text", f"at {step}", step=step)
    writer.close()


def curve(directory, tag="loss"):
    """(step, value) as TensorBoard shows it."""
    found = EventAccumulator(str(directory), size_guidance={"tensors": 0}).Reload()
    if tag not in found.Tags()["tensors"]:
        return []
    return [(e.step, tf.make_ndarray(e.tensor_proto).item()) for e in found.Tensors(tag)]


def names(directory):
    return [path.name for path in directory.iterdir()]


def test_what_is_made_again_is_dropped(tmp_path):
    write(tmp_path, range(8), offset=0.25)
    rewind(tmp_path, 5)
    write(tmp_path, range(6, 10))
    rewind(tmp_path, 8)
    write(tmp_path, range(9, 11))
    expected = [(step, step + (0.25 if step < 6 else 0.0)) for step in range(11)]
    assert curve(tmp_path) == expected
    assert [step for step, _ in curve(tmp_path, "text")] == list(range(11))
    assert len(names(tmp_path)) == 2


def test_at_the_beginning_nothing_stays(tmp_path):
    write(tmp_path, range(4))
    rewind(tmp_path, 0)
    assert names(tmp_path) == []
    rewind(tmp_path / "not there yet", 0)


def test_a_clock_that_was_set_back(tmp_path, monkeypatch):
    """The name that the later file gets sorts before the earlier one's."""
    write(tmp_path, range(5))
    (file,) = tmp_path.iterdir()
    file.rename(tmp_path / "events.out.tfevents.9999999999.host.1.0.v2")
    rewind(tmp_path, 3)
    write(tmp_path, [4, 5])
    assert [step for step, _ in curve(tmp_path)] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("kept", [0.3, 0.7, 0.999])
def test_a_torn_record_is_left_out(tmp_path, kept):
    write(tmp_path, range(20))
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[: int(file.stat().st_size * kept)])
    before = curve(tmp_path)
    rewind(tmp_path, 100)
    assert curve(tmp_path) == before
    assert len(before) > 3


@pytest.mark.parametrize("count", range(1, 4))
def test_killed_while_rewinding(tmp_path, monkeypatch, count):
    """At each of its operations: it makes one file in the place of two."""
    write(tmp_path, range(4))
    rewind(tmp_path, 3)
    write(tmp_path, range(4, 9))
    (tmp_path / event_files._PARTIAL).write_bytes(b"half")
    with monkeypatch.context() as patch:
        calls = iter(range(1, 100))
        for owner, name in ((os, "replace"), (Path, "unlink")):
            inner = getattr(owner, name)

            def killing(*arguments, inner=inner):
                if next(calls) == count:
                    raise KeyboardInterrupt
                return inner(*arguments)

            patch.setattr(owner, name, killing)
        with pytest.raises(KeyboardInterrupt) if count <= 2 else contextlib.nullcontext():
            rewind(tmp_path, 6)
    rewind(tmp_path, 6)
    write(tmp_path, [7, 8])
    assert curve(tmp_path) == [(step, float(step)) for step in range(9)]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="wants to know what is synced")
def test_what_is_kept_is_on_the_disk_before_the_rest_is_deleted(tmp_path, monkeypatch):
    write(tmp_path, range(4))
    done = []
    fsync, unlink = os.fsync, Path.unlink

    def synced(number):
        done.append(Path(os.readlink(f"/proc/self/fd/{number}")).name)
        fsync(number)

    def deleted(path):
        done.append("deleted")
        unlink(path)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "unlink", deleted)
    rewind(tmp_path, 3)
    assert done == [event_files._PARTIAL, tmp_path.name, "deleted"]
