"""Workers on this machine are one process, also when one of them is killed, or cut off."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from t2t_repro.training import startup_watchdog
from tests.commands import said_by
from tests.faults.network import Network, can_be_made
from tests.faults.pipeline import EXPERIMENT, write_corpus
from tests.faults.several_workers import (
    CUT,
    TOLERANCE,
    Blow,
    difference,
    end_of,
    free_addresses,
    train,
)
from tests.processes import CHECKOUT, interruptible

STEPS = 16


def test_two_workers_of_which_one_is_killed_are_one_process(tmp_path):
    said_by(__name__, "kill", str(tmp_path))


def kill(folder):
    """What the test is."""
    place = folder / "life"
    # The dev set is scored by both after 10 updates; then the one is killed in its 12th, and the
    # other goes on from nowhere: it says so and ends.
    start = train(place, 2, STEPS, Blow(1, signal.SIGKILL, update=12))
    assert start.statuses == [143, -signal.SIGKILL], start
    assert loss_of_another(place / "log.0")
    chief, other = ((place / f"log.{index}").read_text() for index in range(2))
    assert "step 10: dev nll" in chief
    assert "worker 1 (of 0 to 1) has started" in other
    assert "step" not in other
    # A signal to one, in step 11, goes with the next update to all, which stop after one more.
    start = train(place, 2, STEPS, Blow(1, signal.SIGTERM, update=1))
    assert start.statuses == [143, 143], start
    assert "stopped by a signal after step 13" in (place / "log.0").read_text()
    # One goes on where two were.
    assert train(place, 1, STEPS).statuses == [0]
    whole = folder / "whole"
    assert train(whole, 1, STEPS).statuses == [0]
    found, expected = end_of(place), end_of(whole)
    assert found["state step"] == STEPS
    assert found["state best_nll"] > 0
    assert difference(found, expected) <= TOLERANCE, difference(found, expected)
    # Two start from the weights of one; and devices can still be chosen when it has been read.
    experiment = folder / "tiny.gin"
    bindings = "train.init_from = '../whole/model'\ntrain.init_checkpoint = 'latest'\n"
    bindings += "TrainStep.frozen = ['encoder']\n"
    experiment.write_text(experiment.read_text() + bindings)
    (expected_nll,) = re.findall(rf"step {STEPS}: dev nll (\S+),", (whole / "log.0").read_text())
    for name, count, flags in (("two", 2, []), ("one", 1, ["choose_strategy.cpu_replicas = 2"])):
        place = folder / name
        flags = [f"--gin_param={binding}" for binding in flags]
        assert train(place, count, 2, flags_of_last=flags).statuses == [0] * count
        log = (place / "log.0").read_text()
        assert f"starts from the weights of ../whole/model, checkpoints/step-{STEPS} " in log
        (nll,) = re.findall(r"step 0: dev nll (\S+),", log)
        assert float(nll) == pytest.approx(float(expected_nll), abs=1.1e-4)
    two, one = (end_of(folder / name) for name in ("two", "one"))
    assert difference(two, one) <= TOLERANCE
    frozen = [
        value
        for name, value in two.items()
        if name.startswith("model/encoder/") and value.dtype == np.float32
    ]
    assert frozen
    for value in frozen:
        # Where the encoder was trained, its optimizer has the names. No constant, which others are.
        assert np.ptp(value) > 0
        assert any(np.array_equal(value, other) for other in expected.values())


def test_two_workers_leave_out_the_merges_that_one_process_does(tmp_path):
    said_by(__name__, "drop", str(tmp_path))


def drop(folder):
    """What the test is: every epoch in other subwords; one worker is killed in the second."""
    with (folder / "tiny.gin").open("a") as file:
        file.write("Batches.segmentation = @SubwordDropout()\nSubwordDropout.probability = 0.5\n")
    place, whole = folder / "life", folder / "whole"
    start = train(place, 2, STEPS, Blow(1, signal.SIGKILL, update=14))
    assert start.statuses == [143, -signal.SIGKILL], start
    assert train(place, 2, STEPS).statuses == [0, 0]
    assert train(whole, 1, STEPS).statuses == [0]
    found, expected = end_of(place), end_of(whole)
    # The checkpoint that they went on from, at step 12, was of the second epoch.
    assert found["state epoch"] == 1
    assert STEPS - found["state batch"] < 12
    assert difference(found, expected) <= TOLERANCE, difference(found, expected)


@pytest.mark.skipif(not can_be_made(), reason="wants iproute2, and the right to make namespaces")
def test_workers_that_do_not_reach_each_other_end(tmp_path):
    said_by(__name__, "cut", str(tmp_path))


def cut(folder):
    """What the test is: each side takes the other for lost."""
    place = folder / "life"
    with Network(2) as network:
        start = train(place, 2, STEPS, Blow(1, CUT, update=8), network)
        assert start.statuses == [143, 143], start
        assert all(loss_of_another(place / f"log.{index}") for index in range(2))
        assert train(place, 2, STEPS, network=network).statuses == [0, 0]
    assert "going on after step 6" in (place / "log.0").read_text()
    assert end_of(place)["state step"] == STEPS


def test_workers_that_do_not_fit_together_do_not_begin(tmp_path):
    said_by(__name__, "misfits", str(tmp_path))


def misfits(folder):
    """What the test is: a line for each, the same, and the status of a mistake."""
    other = folder / "other"
    other.mkdir()
    write_corpus(other)
    for name in ("train.source", "train.target"):
        text = (other / name).read_text()
        (other / name).write_text(text[text.index("\n") + 1 :])
    for place, steps in ((other / "run", 1), (folder / "whole", 4)):
        assert train(place, 1, steps).statuses == [0]
    for flags, text in (
        (["--gin_param=train.seed = 2"], 'worker 1 has the configuration ["train.seed = 2"], but'),
        ([f"--data_dir={other / 'run' / 'data'}"], "worker 1 has data with the checksum "),
        (["--model_dir=its-own"], "worker 1 has a --model_dir with the newest checkpoint [], but"),
    ):
        place = folder / "whole"
        for log in place.glob("log.*"):
            log.unlink()
        start = train(place, 2, 8, flags_of_last=flags)
        assert start.statuses == [2, 2], (flags, start)
        for index in range(2):
            assert error_of(place / f"log.{index}").startswith(f"error: {text}"), flags
    # Nothing has come of it.
    assert train(folder / "whole", 2, 8).statuses == [0, 0]


def test_one_that_is_lost_before_tensorflow_s_start_ends_all(tmp_path):
    said_by(__name__, "gap", str(tmp_path))


def gap(folder):
    """What the test is: TensorFlow alone would wait for an hour, deaf to signals."""
    startup_watchdog._TENSORFLOW_SECONDS = 3
    for worker in range(2):
        place = folder / f"{worker}"
        start = train(place, 2, STEPS, Blow(worker, signal.SIGKILL, update=0))
        assert start.statuses == [-signal.SIGKILL] * 2, start
        assert start.seconds < 15
        assert loss_of_another(place / f"log.{1 - worker}")
    # A signal to one of those that start is one to all.
    start = train(folder / "0", 2, STEPS, Blow(1, signal.SIGTERM, update=0))
    assert start.statuses == [143, 143], start


@pytest.mark.parametrize(("index", "number"), [(0, signal.SIGTERM), (1, signal.SIGINT)])
def test_a_worker_that_waits_says_so_and_takes_signals(tmp_path, index, number):
    write_corpus(tmp_path)
    addresses = free_addresses(2)
    task = {"type": "worker", "index": index}
    cluster = json.dumps({"cluster": {"worker": addresses}, "task": task})
    (tmp_path / "run").mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "t2t_repro.trainer", *EXPERIMENT, "--model_dir=model"],
        cwd=tmp_path / "run",
        env=os.environ | {"TF_CONFIG": cluster, "PYTHONPATH": str(CHECKOUT)},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=interruptible,
    ) as process:
        assert process.stderr
        line = process.stderr.readline()
        assert f"waiting for worker {1 - index} at {addresses[1 - index]}" in line, line
        process.send_signal(number)
        assert process.wait(15) == 128 + number
        assert process.stderr.read() in ("", "interrupted\n")


def error_of(log):
    """A worker's one error."""
    (line,) = [line for line in log.read_text().splitlines() if line.startswith("error")]
    return line


def loss_of_another(log):
    """Whether a worker's one error says that another is lost."""
    line = error_of(log)
    return line.startswith("error: another worker is lost (")


@pytest.mark.parametrize(("other", "gap"), [([1.0, 2.5], 0.5), ([1.0, 2.0], 0.0)])
def test_the_difference_is_the_greatest(other, gap):
    first = {"a": np.array([1.0, 2.0], np.float32), "b": np.zeros([])}
    second = {"a": np.array(other, np.float32), "b": np.zeros([])}
    assert difference(first, second) == gap
    assert difference(first, {"a": first["a"]}) == np.inf


if __name__ == "__main__":
    from t2t_repro import experiment  # noqa: F401 (imported once, for all children)

    write_corpus(Path(sys.argv[2]))
    {"kill": kill, "drop": drop, "cut": cut, "misfits": misfits, "gap": gap}[sys.argv[1]](
        Path(sys.argv[2])
    )
