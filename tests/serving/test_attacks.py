"""The attacks of `attacks`, in small; and versions and requests that never come to an end."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import grpc
import numpy as np
import pytest

from tests.processes import CHECKOUT
from tests.serving.attacks import attack, expected, half_closed, hang_up, many_requests
from tests.serving.bad_versions import BAD_VERSIONS, add, copy_of, endless, with_fifo
from tests.serving.server_process import PREDICT, post, predict_request, predictions, server_process
from tests.serving.watched import watched

ENDLESS = b'{"instances": [1.0]}'
ONE = np.ones(1, np.float32)
ENDING = {"instances": [0.0]}


def test_a_server_under_all_attacks_goes_on(export_dir, tmp_path):
    add(tmp_path, 3, copy_of(export_dir / "3"))
    limits = ("--poll_seconds=0.2", "--load_seconds=25", "--memory_gb=3")
    with server_process(tmp_path, *limits) as server, watched(server) as watch:
        for number, (name, (write, why)) in enumerate(BAD_VERSIONS.items(), 4):
            add(tmp_path, number, write)
            if number == 4:
                assert attack(server) == expected()
            found = server.await_log(f"version {number} is refused, version 3 goes on: (.*)")
            assert re.search(why, found), name
        assert many_requests(server, 50, ["a b", "the red stone"]) == 0
        assert not [line for line in server.log() if "Traceback" in line]
    assert watch.report.unhealthy == 0
    assert watch.report.slowest < 1
    assert watch.report.server_mb < 200
    assert watch.report.all_mb == [] or max(watch.report.all_mb) < 6000


def children(process):
    return [
        int(p) for p in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    ]


@pytest.fixture(scope="module")
def endless_dir(tmp_path_factory):
    export_dir = tmp_path_factory.mktemp("endless")
    add(export_dir, 1, endless(0.0))
    return export_dir


@pytest.fixture(scope="module")
def endless_server(endless_dir):
    """Answers 0 at once, and other numbers never."""
    flags = ("--poll_seconds=0.2", "--client_seconds=2", "--max_waiting_mb=4")
    with server_process(endless_dir, *flags) as server:
        yield server


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_work_is_dropped_when_nobody_waits_for_it(endless_server):
    """More requests than there are workers, by every way in which a client can go."""
    with predictions(endless_server) as stub:
        for _ in range(4):
            with pytest.raises(grpc.RpcError, match="DEADLINE_EXCEEDED"):
                stub.Predict(predict_request(x=ONE), timeout=0.2)
        call = stub.Predict.future(predict_request(x=ONE))
        time.sleep(0.2)
        call.cancel()
    for _ in range(4):
        hang_up(endless_server, ENDLESS)
    assert endless_server.predict(ENDING) == (200, {"predictions": [[0.0]]})
    (model,) = children(endless_server.process)
    time.sleep(2)
    before = cpu_seconds(model)
    time.sleep(1)
    assert cpu_seconds(model) - before < 0.5


def test_a_client_that_has_closed_its_half_gets_its_answer(endless_server):
    answer = half_closed(endless_server, b'{"instances": [0.0]}')
    assert answer.endswith(b'{"predictions": [[0.0]]}')
    # Without a whole request, and with none at all.
    for sent in (b"", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab"):
        with endless_server.connect() as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            began = time.monotonic()
            connection.recv(1000)
            assert time.monotonic() - began < 1.9


def test_what_is_only_announced_takes_no_room(endless_server):
    body = b'{"instances": [0.0' + b" " * 3_000_000
    with endless_server.connect() as connection:
        connection.sendall(post(body[:1000], length=4_000_000))
        assert endless_server.predict(ENDING)[0] == 200
        connection.sendall(body[1000:])
        time.sleep(0.5)
        status, answer = endless_server.request("POST", PREDICT, body + b"]}")
        assert (status, answer["error"].split(":")[0]) == (503, "too many requests are waiting")
        assert b"408" in connection.recv(100)
    assert endless_server.request("POST", PREDICT, body + b"]}")[0] == 200


def change_unseen(file, content):
    """Writes a file so that its size and its time are those that it had."""
    status = file.stat()
    file.write_bytes(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_version_whose_process_ends_is_loaded_again_until_that_succeeds(
    endless_server, endless_dir
):
    graph = endless_dir / "1" / "saved_model.pb"
    content = graph.read_bytes()
    with predictions(endless_server) as stub:
        waiting = stub.Predict.future(predict_request(x=ONE))
        time.sleep(0.5)
        (model,) = children(endless_server.process)
        # As where the machine has no memory left for a moment.
        change_unseen(graph, b"\xff" * len(content))
        os.kill(model, signal.SIGKILL)
        assert waiting.exception().code().name == "UNAVAILABLE"
    endless_server.await_log("version 1 ended with SIGKILL")
    status, answer = endless_server.request("GET", "/health")
    assert (status, answer) == (503, {"status": "loading"})
    assert endless_server.predict(ENDING)[0] == 503
    endless_server.await_log("version 1 is tried again in 1 s: .")
    endless_server.await_log("version 1 is tried again in 2 s: .")
    change_unseen(graph, content)
    while endless_server.request("GET", "/health")[0] != 200:
        time.sleep(0.1)
    assert endless_server.predict(ENDING) == (200, {"predictions": [[0.0]]})


def test_a_version_that_was_taken_away_or_overtaken_keeps_no_other_waiting(tmp_path):
    add(tmp_path, 1, endless(0.0))
    with server_process(tmp_path, "--poll_seconds=0.1") as server:
        add(tmp_path, 2, endless(1.0))
        time.sleep(1)
        add(tmp_path, 3, endless(0.0))
        server.await_log("serving version 3 of made")
        add(tmp_path, 4, endless(1.0))
        time.sleep(1)
        assert len(children(server.process)) == 2
        (tmp_path / "4").rename(tmp_path / "gone")
        time.sleep(1)
        assert len(children(server.process)) == 1
        assert server.predict(ENDING)[0] == 200


def start(export_dir, *flags):
    command = [sys.executable, "-m", "t2t_repro.serve", "--rest_port=0", "--grpc_port=0", *flags]
    return subprocess.Popen(
        [*command, f"--export_dir={export_dir}"],
        cwd=CHECKOUT,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_model_ends_with_its_server(tmp_path):
    add(tmp_path, 1, endless(1.0))
    with start(tmp_path) as process:
        while not (models := children(process)):
            time.sleep(0.1)
        time.sleep(3)
        process.kill()
        for _ in range(100):
            if not Path(f"/proc/{models[0]}").exists():
                break
            time.sleep(0.1)
        assert not Path(f"/proc/{models[0]}").exists()


def assert_ends(process, seconds):
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert time.monotonic() - began < seconds


def test_the_end_comes_while_the_first_version_warms_up(tmp_path):
    add(tmp_path, 1, endless(1.0))
    with start(tmp_path, "--drain_seconds=3") as process:
        time.sleep(4)
        assert_ends(process, 2)


def test_the_end_comes_while_a_request_never_ends_and_a_version_loads(tmp_path):
    add(tmp_path, 1, endless(0.0))
    flags = ("--drain_seconds=3", "--poll_seconds=0.1")
    with server_process(tmp_path, *flags) as server, predictions(server) as stub:
        waiting = [stub.Predict.future(predict_request(x=ONE)) for _ in range(3)]
        add(tmp_path, 2, with_fifo("saved_model.pb"))
        add(tmp_path, 3, endless(1.0))
        time.sleep(2)
        began = time.monotonic()
        assert_ends(server.process, 4.5)
        assert time.monotonic() - began > 2.9
        assert all(call.exception() for call in waiting)


def test_a_limit_below_what_is_needed_is_named(tmp_path):
    add(tmp_path, 1, endless(0.0))
    with start(tmp_path, "--memory_gb=0.2") as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "(--memory_gb)" in err.splitlines()[-1]
    assert "Traceback" not in err.splitlines()[-1]


def test_the_end_comes_at_once_where_nothing_is_to_be_done(tmp_path):
    add(tmp_path, 1, endless(0.0))
    with server_process(tmp_path) as server:
        assert server.predict(ENDING)[0] == 200
        assert_ends(server.process, 2)
