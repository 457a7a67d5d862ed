"""Workers on this machine's loopback are one process, also when one of them is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.faults.pipeline import write_corpus
from tests.faults.several_workers import TOLERANCE, Blow, difference, end_of, train

CHECKOUT = Path(__file__).parents[2]
STEPS = 16


def test_two_workers_of_which_one_is_killed_are_one_process(tmp_path):
    """In a process of its own: children are forked, which must not have used TensorFlow."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(tmp_path)],
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def compare(folder):
    """What the test is."""
    from t2t_repro import experiment  # noqa: F401 (imported once, for all children)

    write_corpus(folder)
    place = folder / "life"
    # The dev set is scored by both after 10 updates; then the one is killed in its 12th, and the
    # other goes on from nowhere: it says so and ends.
    start = train(place, 2, STEPS, Blow(1, signal.SIGKILL, update=12))
    assert start.statuses == [143, -signal.SIGKILL], start
    chief, other = ((place / f"log.{index}").read_text() for index in range(2))
    (line,) = [line for line in chief.splitlines() if line.startswith("error")]
    assert line.startswith("error: another worker is lost (")
    assert "step 10: dev nll" in chief
    assert "worker 1 (of 0 to 1) is there" in other
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


@pytest.mark.parametrize(("other", "gap"), [([1.0, 2.5], 0.5), ([1.0, 2.0], 0.0)])
def test_the_difference_is_the_greatest(other, gap):
    first = {"a": np.array([1.0, 2.0], np.float32), "b": np.zeros([])}
    second = {"a": np.array(other, np.float32), "b": np.zeros([])}
    assert difference(first, second) == gap
    assert difference(first, {"a": first["a"]}) == np.inf


if __name__ == "__main__":
    compare(Path(sys.argv[1]))
