"""Two processes on this machine train as one does, also if one is killed on the way."""

import json
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.commands import said_by
from tests.training.two_processes import error_in, train, write_experiment

STEPS = 16


def last_checkpoint(folder):
    """All variables of the last checkpoint of a run, and the numbers of its state."""
    reader = tf.train.load_checkpoint(str(folder / "model" / "checkpoints"))
    values: dict[str, Any] = {}
    for name, dtype in reader.get_variable_to_dtype_map().items():
        if name.startswith("state/"):
            state = json.loads(reader.get_tensor(name))
            values |= {k: v for k, v in state.items() if isinstance(v, int | float)}
        # How often a checkpoint was written says nothing of the training.
        elif dtype != tf.string and not name.startswith("save_counter/"):
            values[name] = reader.get_tensor(name)
    return values


@pytest.mark.parametrize(
    "scenario", ["same", *(pytest.param(name, marks=pytest.mark.slow) for name in ("kill", "drop"))]
)
def test_two_workers_are_one_process(scenario, tmp_path):
    said_by(__name__, scenario, str(tmp_path))
    ours, theirs = (last_checkpoint(tmp_path / name) for name in ("two", "one"))
    assert ours["step"] == STEPS
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], rtol=0, atol=1e-5, err_msg=name)


def same(folder):
    if train(folder / "two", 2, STEPS) != [0, 0]:
        # A busy machine may lose a worker: once, not always.
        shutil.rmtree(folder / "two")
        assert train(folder / "two", 2, STEPS) == [0, 0]
    # Both score the dev set after 10 updates; only the chief reports it.
    assert "step 10: dev nll" in (folder / "two" / "log.0").read_text()
    assert "step" not in (folder / "two" / "log.1").read_text()
    assert train(folder / "one", 1, STEPS) == [0]


def kill(folder):
    place = folder / "two"
    assert train(place, 2, STEPS, [(1, signal.SIGKILL, 12)]) == [143, -signal.SIGKILL]
    assert "another worker is lost" in error_in(place / "log.0")
    # A signal to one stops both after the same update; then one process goes on.
    assert train(place, 2, STEPS, [(1, signal.SIGTERM, 1)]) == [143, 143]
    assert train(place, 1, STEPS) == [0]
    assert train(folder / "one", 1, STEPS) == [0]


def drop(folder):
    """Trains a model, and from its weights another one, in other subwords every epoch."""
    assert train(folder / "first", 1, 2) == [0]
    with (folder / "tiny.gin").open("a") as file:
        file.write("Batches.segmentation = @SubwordDropout()\nSubwordDropout.probability = 0.5\n")
        file.write("train.init_from = '../first/model'\n")
    assert train(folder / "two", 2, STEPS, [(0, signal.SIGKILL, 14)]) == [-signal.SIGKILL, 143]
    assert train(folder / "two", 2, STEPS) == [0, 0]
    assert train(folder / "one", 1, STEPS) == [0]


@pytest.mark.slow
def test_a_worker_that_is_silent_is_lost(tmp_path):
    said_by(__name__, "stop", str(tmp_path))
    assert "another worker is lost" in error_in(tmp_path / "two" / "log.0")


def stop(folder):
    # It is stopped, not ended: its connections stay open. -1: the helper ends it after a minute.
    assert train(folder / "two", 2, STEPS, [(1, signal.SIGSTOP, 8)]) == [143, -1]


@pytest.mark.slow
def test_workers_that_do_not_fit_together_end_with_the_same_error(tmp_path):
    said_by(__name__, "misfits", str(tmp_path))


def misfits(folder):
    place = folder / "two"
    assert train(folder / "other", 1, 1) == [0]
    lines = (folder / "train.source").read_text()
    (folder / "train.source").write_text(lines.replace("ant", "bee"))
    assert train(place, 1, 4) == [0]
    for flag, text in (
        ("--gin_param=train.seed = 2", 'worker 1 has the configuration ["train.seed = 2"], but'),
        ("--data_dir=../other/data", "worker 1 has data with the checksum "),
        ("--model_dir=own", "worker 1 has a --model_dir with the newest checkpoint [], but"),
    ):
        assert train(place, 2, 8, last=[flag]) == [2, 2], flag
        for index in range(2):
            assert error_in(place / f"log.{index}").startswith(f"error: {text}"), flag
    # A mistake that only the chief meets ends all.
    (folder / "train.source").unlink()
    assert train(folder / "no-text", 2, 8) == [2, 2]


if __name__ == "__main__":
    write_experiment(Path(sys.argv[2]))
    {"same": same, "kill": kill, "drop": drop, "stop": stop, "misfits": misfits}[sys.argv[1]](
        Path(sys.argv[2])
    )
