"""Workers, each a thread of this process, find each other; or each says in a line why not."""

import json
import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from t2t_repro import __version__
from t2t_repro.errors import UserError
from t2t_repro.training.cluster import Cluster
from t2t_repro.training.connections import Connections, LostWorker
from t2t_repro.training.rendezvous import find_workers
from t2t_repro.training.source_digest import source_digest

SECOND = 1 / 60
VERSION = f"{__version__} ({source_digest('t2t_repro')})"


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture
def addresses():
    return tuple(f"127.0.0.1:{port}" for port in free_ports(3))


def find(addresses, index, seconds=20.0):
    """What becomes of a worker: its connections, or the error that ends it."""
    try:
        return find_workers(Cluster(tuple(addresses), index), seconds * SECOND)
    except (UserError, LostWorker) as error:
        return error


def start(pool, addresses, *indices, seconds=20.0):
    return [pool.submit(find, addresses, index, seconds) for index in indices]


def ends(futures):
    return [future.result(30) for future in futures]


def lines(errors, kind):
    """The first lines of errors, which are all of a kind."""
    assert all(isinstance(error, kind) for error in errors), errors
    return [str(error).splitlines()[0] for error in errors]


def dial(address):
    host, port = address.split(":")
    deadline = time.monotonic() + 10
    while True:
        try:
            return socket.create_connection((host, int(port)))
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def hello(addresses, index, **more):
    said = {"t2t_repro": VERSION, "cluster": list(addresses), "worker": index, "process": "p"}
    return (json.dumps(said | more) + "\n").encode()


@pytest.fixture
def pool():
    with ThreadPoolExecutor(8) as threads:
        yield threads


def test_all_find_each_other_and_gather(pool, addresses, caplog):
    """One comes later; then the ports are free, and the connections stay."""
    with caplog.at_level(logging.INFO, "absl"):
        futures = start(pool, addresses, 2, 0)
        time.sleep(0.7)
        found = ends(futures + start(pool, addresses, 1))
    assert f"waiting for worker 0 at {addresses[0]}" in caplog.text
    assert f"waiting for worker 1 at {addresses[1]}" in caplog.text
    assert all(isinstance(one, Connections) for one in found), found
    for address in addresses:
        socket.create_server(("", int(address.split(":")[1]))).close()
    values = {2: "zwei", 0: [0, None], 1: {"a": "ü" * 100_000}}
    for _ in range(3):
        futures = [pool.submit(one.gather, values[one.cluster.index]) for one in found]
        assert ends(futures) == [[values[0], values[1], values[2]]] * 3
    for one in found:
        one.close()


def test_one_that_does_not_come(pool, addresses):
    began = time.monotonic()
    found = lines(ends(start(pool, addresses, 0, 1, seconds=1.0)), LostWorker)
    assert time.monotonic() - began < 5
    for line in found:
        assert line.startswith(f"worker 2 at {addresses[2]} has not come within 0.0166667 minutes")


def test_worker_0_does_not_come(pool, addresses):
    [line] = lines(ends(start(pool, addresses, 1, seconds=0.5)), LostWorker)
    assert f"worker 0 at {addresses[0]} has not come" in line
    assert "(Connection refused)" in line


def test_what_answers_for_worker_0_is_no_trainer(pool, addresses):
    with closing(socket.create_server(("127.0.0.1", int(addresses[0].split(":")[1])))) as other:

        def answer():
            while True:
                try:
                    taken, _ = other.accept()
                except OSError:
                    return
                with taken:
                    taken.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        [line] = lines(ends(start(pool, addresses, 1, seconds=1.0)), LostWorker)
        other.shutdown(socket.SHUT_RDWR)
    assert "has not come within" in line
    assert "no trainer" in line


@pytest.mark.parametrize("index", [0, 1])
def test_a_port_that_is_taken(pool, addresses, index):
    """All that have come end by the same line, but where it is worker 0's."""
    port = int(addresses[index].split(":")[1])
    with closing(socket.create_server(("127.0.0.1", port))):
        indices = (1, 0, 2) if index else (0,)
        found = lines(ends(start(pool, addresses, *indices)), UserError)
    for line in found:
        assert f"port {port} of {socket.gethostname()} cannot be had for worker {index} at " in line
        assert "(Address already in use)" in line


def test_two_have_one_index(pool, addresses):
    futures = start(pool, addresses, 0)
    with dial(addresses[0]) as first, dial(addresses[0]) as second:
        first.sendall(hello(addresses, 1))
        assert json.loads(first.makefile().readline()) == {"welcome": 1}
        second.sendall(hello(addresses, 1))
        told = json.loads(second.makefile().readline())["error"]
        found = lines(ends(futures + start(pool, addresses, 2)), UserError)
    assert {*found, told} == {found[0]}
    assert found[0].startswith(f"worker 1 at {addresses[1]} is there twice, the second time as 'p'")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"t2t_repro": "0.0.1"}, "worker 1 ('p') has t2t_repro '0.0.1', but worker 0 has '"),
        # The same version, of another checkout.
        ({"t2t_repro": f"{__version__} (0)"}, f"but worker 0 has '{VERSION}': install the same"),
        ({"cluster": ["a:1", "b:1"]}, "worker 1 ('p') has the cluster ['a:1', 'b:1'], but worker"),
        ({"error": "mine"}, "worker 1: mine"),
    ],
)
def test_who_cannot_take_part(pool, addresses, more, text):
    """All are told, who comes a little later too."""
    futures = start(pool, addresses, 0)
    with dial(addresses[0]) as other:
        other.sendall(hello(addresses, 1, **more))
        told = json.loads(other.makefile().readline())["error"]
    found = lines(ends(futures + start(pool, addresses, 2)), UserError)
    assert text in found[0]
    assert told == found[0]


GARBAGE = [
    b"",
    b"\x16\x03\x01\x02\x00\x01\x00",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"a" * 200_000,
    b"[" * 50_000 + b"\n",
    b"{}\n",
    b'{"worker": 1}\n',
    b'{"worker": 1, "t2t_repro": ',
    b"null\n",
    b"\xff\xfe\n",
    b"1" * 5000 + b"\n",
]


def test_strangers_are_turned_away(pool, addresses, caplog):
    """They say nothing or nonsense, before and after a worker has come, in any number."""
    with caplog.at_level(logging.INFO, "absl"):
        futures = start(pool, addresses, 0, 1)
        strangers = []
        for text in GARBAGE + [b""] * 100 + [hello(addresses, 99), hello(addresses, -1)]:
            stranger = dial(addresses[0])
            strangers.append(stranger)
            try:
                stranger.sendall(text)
            except OSError:
                # He was turned away while he spoke.
                continue
        found = ends(futures + start(pool, addresses, 2))
    for stranger in strangers:
        stranger.close()
    assert all(isinstance(one, Connections) for one in found), found
    # However many there are.
    assert 1 <= caplog.text.count("turning away 127.0.0.1") < 12
    for one in found:
        one.close()


def test_one_who_says_nothing_is_not_kept(pool, addresses, monkeypatch):
    monkeypatch.setattr("t2t_repro.training.admission._HELLO_SECONDS", 0.3)
    futures = start(pool, addresses, 0, seconds=5.0)
    with dial(addresses[0]) as stranger:
        stranger.settimeout(5)
        stranger.sendall(b"{")
        assert stranger.recv(1) == b""
    futures += start(pool, addresses, 1, 2)
    for one in ends(futures):
        one.close()


def test_one_that_goes_and_comes_again(pool, addresses, caplog):
    with caplog.at_level(logging.INFO, "absl"):
        futures = start(pool, addresses, 0)
        with dial(addresses[0]) as first:
            first.sendall(hello(addresses, 1))
            assert json.loads(first.makefile().readline()) == {"welcome": 1}
        found = ends(futures + start(pool, addresses, 1, 2))
    assert "worker 1 at" in caplog.text
    assert "has gone again" in caplog.text
    assert all(isinstance(one, Connections) for one in found), found
    for one in found:
        one.close()


def test_worker_0_that_goes_and_comes_again(pool, addresses):
    host, port = addresses[0].split(":")
    with socket.create_server((host, int(port))) as first:
        futures = start(pool, addresses, 1)
        taken, _ = first.accept()
        assert json.loads(taken.makefile().readline())["worker"] == 1
        taken.sendall(b'{"welcome": 1}\n')
        taken.close()
    found = ends(futures + start(pool, addresses, 0, 2))
    assert all(isinstance(one, Connections) for one in found), found
    for one in found:
        one.close()


@pytest.mark.parametrize("name", ["no-such-host.invalid", "a..b"])
def test_an_address_that_leads_nowhere(pool, addresses, name):
    addresses = (*addresses[:2], f"{name}:{addresses[2].split(':')[1]}")
    for line in lines(ends(start(pool, addresses, 0, 1, 2)), UserError):
        assert line.startswith(f"worker 0 cannot reach worker 2 at {name}:")


def test_worker_0_has_an_address_that_leads_nowhere(pool, addresses):
    addresses = (f"no-such-host.invalid:{addresses[0].split(':')[1]}", *addresses[1:])
    [line] = lines(ends(start(pool, addresses, 1, seconds=1.0)), LostWorker)
    assert "worker 0 at no-such-host.invalid:" in line
    assert "has not come within" in line
    assert "ame" in line  # "Name or service not known", or in the words of another system.
