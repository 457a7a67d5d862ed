"""What several processes agree on; that they train as one is in tests/faults."""

import socket
from typing import Any

import pytest
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.training.cluster import Cluster
from t2t_repro.training.connections import Connection, Connections
from t2t_repro.training.workers import Workers


def one_of(values, index=0):
    """A worker that finds the others' values when it gathers."""
    workers: Any = Workers()
    workers.count, workers.index, workers.is_chief = len(values), index, index == 0
    workers.given = []

    def gather(value):
        workers.given.append(value)
        return values

    workers.gather = gather
    return workers


def test_one_process_is_a_chief():
    workers = Workers()
    assert (workers.count, workers.index, workers.is_chief) == (1, 0, True)
    assert workers.gather({"a": 1}) == [{"a": 1}]


def test_what_differs_is_told_with_the_worker():
    Workers().check_same("x", 1)
    one_of([["a", "b"], ["a", "b"]]).check_same("lines", None)
    with pytest.raises(UserError, match=r'worker 1 has lines \["c"\], but worker 0 has \["b"\]: '):
        one_of([["a", "b"], ["a", "c"]]).check_same("lines", None)


def test_the_first_items_that_differ_are_named():
    one, other = list(range(100)), list(range(100, 200))
    text = r"worker 1 has lines \[100, 101, 102, 103, 104\], but worker 0 has \[0, 1, 2, 3, 4\]: m."
    with pytest.raises(UserError, match=text):
        one_of([one, other]).check_same("lines", None, "m")
    text = r'worker 1 has versions {"b": 3}, but worker 0 has {"b": 2}'
    with pytest.raises(UserError, match=text):
        one_of([{"a": 1, "b": 2}, {"a": 1, "b": 3}]).check_same("versions", None)


def test_the_chief_is_first():
    done = []
    chief = one_of([None, None])
    with chief.chief_first():
        done.append(list(chief.given))
    assert [*done, chief.given] == [[], [None]]
    # The other has met it before it begins; what it does then is its own.
    other = one_of([None, None], index=1)
    with other.chief_first():
        done.append(list(other.given))
    assert [done[-1], other.given] == [[None], [None]]
    # What the chief may not do, nobody is told to do.
    chief = one_of([None, None])
    with pytest.raises(UserError, match="no room"), chief.chief_first():
        raise UserError("no room")
    assert chief.given == []


@pytest.fixture
def pair():
    """Two workers that are connected."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    cluster = Cluster(("a:1", "b:1"), 0), Cluster(("a:1", "b:1"), 1)
    return [
        Workers(Connections(cluster[0], {1: Connection(other, "worker 1 at b:1")})),
        Workers(Connections(cluster[1], {0: Connection(one, "worker 0 at a:1")})),
    ]


def test_the_loss_of_another_is_one_line_and_the_status_to_start_again_on(pair, capsys):
    text = "Graph execution error:\n\nCollective ops is aborted by: Connection reset\nand more"
    pair[1]._connections.close()
    with pytest.raises(SystemExit) as end, pair[0].end_with_the_others():
        raise tf.errors.UnavailableError(None, None, text)
    assert end.value.code == 143
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: another worker is lost (Collective ops is aborted by: Conn")
    # Nothing else is; and nobody is lost to a process alone.
    for workers, kind in ((pair[0], "ResourceExhaustedError"), (Workers(), "UnavailableError")):
        error = getattr(tf.errors, kind)
        with pytest.raises(error), workers.end_with_the_others():
            raise error(None, None, "OOM")


def test_a_loss_that_no_collective_has_met(pair, capsys):
    pair[1]._connections.close()
    with pytest.raises(SystemExit) as end, pair[0].end_with_the_others():
        pair[0].gather(None)
    assert end.value.code == 143
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: another worker is lost (worker 1 at b:1 has closed its connect")


def test_all_end_by_one_worker_s_error(pair):
    """Though TensorFlow notices its end first: the same command would end so again."""
    with pytest.raises(UserError, match=r"^the disk is full$"), pair[1].end_with_the_others():
        raise UserError("the disk is full")
    with (
        pytest.raises(UserError, match=r"^worker 1: the disk is full$"),
        pair[0].end_with_the_others(),
    ):
        raise tf.errors.UnavailableError(None, None, "Socket closed")
