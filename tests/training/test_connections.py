"""What workers tell each other: values, why they end, and that they are gone."""

import errno
import select
import socket
import threading
import time

import pytest

from t2t_repro.errors import UserError
from t2t_repro.training.cluster import Cluster
from t2t_repro.training.connections import Connection, Connections, Gone, LostWorker

ADDRESSES = ("a:1", "b:1", "c:1")


@pytest.fixture
def workers():
    """Three workers, each connected as it would be."""
    others: dict[int, Connection] = {}
    pairs = {index: tcp_pair() for index in (1, 2)}
    found = [Connections(Cluster(ADDRESSES, 0), others)]
    for index, (at_0, at_other) in pairs.items():
        others[index] = Connection(at_0, f"worker {index}")
        found.append(Connections(Cluster(ADDRESSES, index), {0: Connection(at_other, "worker 0")}))
    yield found
    for one in found:
        one.close()


def tcp_pair():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        return listener.accept()[0], one


def gathered(connections, value, into):
    try:
        into[connections.cluster.index] = connections.gather(value)
    except (UserError, LostWorker) as error:
        into[connections.cluster.index] = error


def test_a_value_is_what_json_makes_of_it(workers):
    found: dict[int, object] = {}
    values = [(0, 1), {"a": None}, "ü\n"]
    threads = [
        threading.Thread(target=gathered, args=(one, value, found))
        for one, value in zip(workers, values, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert list(found.values()) == [[[0, 1], {"a": None}, "ü\n"]] * 3


def test_a_value_is_sent_once_worker_0_reads(workers):
    """Unread for long it would cost the connection, once it is larger than what a kernel keeps."""
    first, second, third = workers
    large = "x" * 2**20
    found: dict[int, object] = {}
    threads = [
        threading.Thread(target=gathered, args=(one, large, found)) for one in (second, third)
    ]
    for thread in threads:
        thread.start()
    readable, _, _ = select.select(first.others.values(), [], [], 0.3)
    assert not readable
    assert first.gather(0) == [0, large, large]
    for thread in threads:
        thread.join(10)
    assert found == {1: [0, large, large], 2: [0, large, large]}


def test_a_bug_ends_all_and_what_may_be_another_s_loss_is_not_told(workers):
    first, second, third = workers
    with pytest.raises(RuntimeError), first.telling(unsure=(RuntimeError,)):
        raise RuntimeError
    with pytest.raises(KeyError), first.telling():
        raise KeyError("a bug")
    for other in (second, third):
        with pytest.raises(UserError, match=r"^KeyError: 'a bug'; see worker 0's log\.$"):
            other.gather(None)


def test_one_worker_s_error_ends_all_with_its_line(workers):
    first, second, third = workers
    with pytest.raises(UserError, match="no room"), second.telling():
        raise UserError("no room")
    # Worker 0 is told whoever else is waited for, and tells the others.
    with pytest.raises(UserError, match=r"^worker 1: no room$"), first.telling():
        first.gather(None)
    with pytest.raises(UserError, match=r"^worker 1: no room$"):
        third.gather(None)


def test_a_full_disk_ends_all_with_its_line(workers):
    full = OSError(errno.ENOSPC, "No space left on device", "model.json")
    with pytest.raises(OSError, match="No space"), workers[0].telling():
        raise full
    for other in workers[1:]:
        with pytest.raises(UserError, match=r"^No space left on device: 'model\.json'$"):
            other.gather(None)


def test_worker_0_s_error_is_everybody_s(workers):
    with pytest.raises(UserError), workers[0].telling():
        raise UserError("no room")
    for other in workers[1:]:
        with pytest.raises(UserError, match=r"^no room$"):
            other.gather(None)


def test_one_that_is_gone_is_named_to_all(workers):
    first, second, third = workers
    second.close()
    with (
        pytest.raises(Gone, match=r"another worker is lost \(worker 1 has closed"),
        first.telling(),
    ):
        first.gather(None)
    with pytest.raises(LostWorker, match=r"another worker is lost \(worker 1 has closed"):
        third.gather(None)


def test_last_words_are_an_error_or_none(workers, monkeypatch):
    monkeypatch.setattr("t2t_repro.training.connections._LAST_WORDS_SECONDS", 0.5)
    first, second, third = workers
    second.others[0].send({"value": 1})
    with pytest.raises(UserError), second.telling():
        raise UserError("no room")
    assert first.last_words() == "worker 1: no room"
    # Whoever lives says nothing; that does not take long.
    began = time.monotonic()
    assert third.last_words() is None
    assert time.monotonic() - began < 4


def test_an_end_is_seen_when_all_was_read(workers):
    first, second, _ = workers
    there = first.others[1]
    assert not there.has_ended()
    second.others[0].send({"value": 1})
    second.close()
    assert not there.has_ended()
    assert there.receive() == {"value": 1}
    assert there.has_ended()
    # So is one that waits as before.
    assert not first.others[2].has_ended()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"x\n", "Expecting value"),
        (b"[]\n", "no object"),
        (b"\xff\n", "decode"),
        (b"[" * 100_000 + b"\n", "brackets"),
        (b"1" * 5000 + b"\n", "digits"),
    ],
)
def test_what_is_no_message(text, reason):
    here, there = tcp_pair()
    with here, there:
        there.sendall(text)
        with pytest.raises(ValueError, match=reason):
            Connection(here, "worker 1").receive(5)


def test_a_message_that_is_too_long():
    here, there = tcp_pair()
    with here, there:
        there.sendall(b"1" * 101)
        connection = Connection(here, "worker 1")
        while connection.take() is None and len(connection._read) < 101:
            connection.read()
        with pytest.raises(ValueError, match="too long"):
            connection.take(100)
        assert connection.take(101) is None
