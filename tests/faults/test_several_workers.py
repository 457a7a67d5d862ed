"""Workers on this machine are one process, also when one of them is killed, or cut off."""

import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.faults.network import Network, can_be_made
from tests.faults.pipeline import write_corpus
from tests.faults.several_workers import CUT, TOLERANCE, Blow, difference, end_of, train
from tests.processes import output_of

STEPS = 16


def test_two_workers_of_which_one_is_killed_are_one_process(tmp_path):
    output_of("-m", __name__, "kill", str(tmp_path))


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


@pytest.mark.skipif(not can_be_made(), reason="wants iproute2, and the right to make namespaces")
def test_workers_that_do_not_reach_each_other_end(tmp_path):
    output_of("-m", __name__, "cut", str(tmp_path))


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


def loss_of_another(log):
    """Whether a worker's one error says that another is lost."""
    (line,) = [line for line in log.read_text().splitlines() if line.startswith("error")]
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
    {"kill": kill, "cut": cut}[sys.argv[1]](Path(sys.argv[2]))
