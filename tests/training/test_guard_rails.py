"""What is looked at before a run: room for checkpoints, memory, permissions."""

import dataclasses
import shutil
from collections import namedtuple

import pytest
import tensorflow as tf

from t2t_repro.data.batch_shapes import BatchShape
from t2t_repro.decoding.batch_plan import available_memory
from t2t_repro.errors import UserError
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.training import guard_rails
from t2t_repro.training.activation_memory import activation_bytes
from t2t_repro.training.checkpoints import Checkpoints
from t2t_repro.training.guard_rails import (
    check_disk,
    check_gpus,
    check_memory,
    check_writable,
)
from t2t_repro.training.optimizer import adam
from t2t_repro.training.run_state import RunState
from tests.training.tiny import tiny_model

SHAPES = [BatchShape(8, 10, 12, 80, 96), BatchShape(4, 30, 20, 120, 80)]


@pytest.fixture(scope="module")
def run():
    model = tiny_model()
    optimizer = adam(learning_rate=0.1)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def free(monkeypatch, count):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, count))


def test_room_for_all_checkpoints_that_are_to_come(tmp_path, monkeypatch, run):
    model, optimizer = run
    there, new = ModelDirectory(tmp_path / "measured"), ModelDirectory(tmp_path)
    Checkpoints(there, *run).save(RunState(step=1))
    files = there.checkpoints.glob("step-1.data*")
    size = sum(file.stat().st_size for file in files)
    free(monkeypatch, 6 * size)
    variables = [*model.variables, *optimizer.variables]
    check_disk(new, variables, 6)
    # The weights and two moments of each.
    free(monkeypatch, 6 * 12 * model.count_params() - 1)
    with pytest.raises(UserError, match=r"^6 checkpoints of .* GB are to come, but .* GB free: "):
        check_disk(new, variables, 6)
    check_disk(new, variables, 5)


@pytest.mark.parametrize(
    ("given", "updates", "there", "to_come"),
    [
        # Four, the best, and one that is being written.
        ({"keep": 4}, 10_000, [], 6),
        # What is there needs no room.
        ({"keep": 4}, 10_000, [1000], 5),
        ({"keep": 4}, 10_000, [1, 2, 3, 4, 5], 2),
        # After 1,000 and 1,500 updates.
        ({"keep": 4}, 1500, [], 4),
        ({"keep": 4, "every_minutes": 1.0}, 1500, [], 6),
    ],
)
def test_how_many_checkpoints_are_to_come(tmp_path, run, given, updates, there, to_come):
    model, optimizer = run
    directory = ModelDirectory(tmp_path)
    for step in there:
        Checkpoints(directory, model, optimizer, keep=9).save(RunState(step=step))
    checkpoints = Checkpoints(directory, model, optimizer, **given)
    assert checkpoints.to_come(updates) == to_come


def test_too_little_memory_for_gradients_is_an_error(monkeypatch, run):
    gradients = 4 * run[0].count_params()
    monkeypatch.setattr(guard_rails, "available_memory", lambda: 2 * gradients - 1)
    check_memory(run[0], SHAPES, slices_per_replica=1, replicas=1, jit_compile=False)
    for micro_batches, replicas in ((2, 1), (1, 2)):
        with pytest.raises(UserError, match=r"^an update needs .* are available: lower Batches"):
            check_memory(run[0], SHAPES, micro_batches, replicas, jit_compile=False)


def test_too_little_for_the_activations_is_a_warning(monkeypatch, caplog, run):
    needed = 4 * run[0].count_params() + activation_bytes(run[0], SHAPES[1])
    monkeypatch.setattr(guard_rails, "available_memory", lambda: needed)
    check_memory(run[0], SHAPES, slices_per_replica=1, replicas=1, jit_compile=False)
    assert not caplog.messages
    monkeypatch.setattr(guard_rails, "available_memory", lambda: needed - 1)
    check_memory(run[0], SHAPES, slices_per_replica=1, replicas=1, jit_compile=False)
    assert "an update needs about" in caplog.text


def test_the_machine_says_what_it_has():
    assert (available_memory() or 0) > 10**7
    fewer_rows = SHAPES[1]._replace(rows=1)
    assert activation_bytes(tiny_model(), fewer_rows) < activation_bytes(tiny_model(), SHAPES[1])


def test_layers_that_are_computed_again_keep_less():
    def estimated(num_layers, recompute):
        model = tiny_model(num_layers=num_layers)
        model.config = dataclasses.replace(model.config, recompute=recompute)
        return activation_bytes(model, SHAPES[1])

    inputs = 4 * sum(SHAPES[1].capacity) * 16
    assert estimated(5, True) == estimated(4, True) + inputs
    assert estimated(5, True) < estimated(2, False)


def test_a_folder_that_cannot_be_written_to(tmp_path):
    check_writable(tmp_path / "new" / "model")
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"^cannot write to .*file.model \(.*\): mend its"):
        check_writable(tmp_path / "file" / "model")


@pytest.fixture
def gpus(tmp_path, monkeypatch):
    """Has the machine four GPUs, of which nvidia-smi, as its manual describes it, says this."""
    script = tmp_path / "nvidia-smi"
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind] * 4)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    def say(*lines):
        shown = "\n".join(lines)
        script.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\ncat <<END\n{shown}\nEND\n')
        script.chmod(0o755)
        return tmp_path / "arguments"

    return say


def test_a_taken_gpu_is_an_error(gpus, monkeypatch):
    arguments = gpus("0, 3, 81559", "3, 60000, 81559")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,3")
    with pytest.raises(UserError, match=r"^74% of the memory of GPU 3 is in use .* free\.$"):
        check_gpus()
    assert arguments.read_text().startswith("--id=0,3 --query-gpu=")


def test_a_gpu_in_use_is_a_warning(gpus, caplog):
    gpus("0, 800, 16384", "1, 4096, 16384", "2, [N/A], [N/A]")
    check_gpus()
    (record,) = caplog.records
    assert record.getMessage().startswith("train: 25% of the memory of GPU 1 is in use already")


def test_without_nvidia_smi_nobody_knows(gpus, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    check_gpus()
