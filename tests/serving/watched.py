"""A server's health and memory, asked every 100 ms by a process of its own.

    python -m tests.serving.watched REST_ADDRESS GRPC_ADDRESS PID

Ends with its standard input, and then prints a `Report` as JSON.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_SECONDS = 0.1


class Report(NamedTuple):
    """What was seen.

    Attributes:
        asked: how often each interface was asked.
        slowest: seconds of the slowest answer.
        unhealthy: how many answers did not say that the server is well.
        server_mb: most MiB of the server's own process.
        all_mb: of it and the models' processes, at each time.
    """

    asked: int
    slowest: float
    unhealthy: int
    server_mb: float
    all_mb: list[float]


class Watch:
    """What is watched while the block runs; `report` is there afterwards."""

    report: Report


@contextmanager
def watched(server) -> Iterator[Watch]:
    """Watches a `Server` from outside."""
    command = [sys.executable, "-m", "tests.serving.watched", server.rest, server.grpc]
    with subprocess.Popen(
        [*command, str(server.process.pid)],
        cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        watch = Watch()
        yield watch
        out, _ = process.communicate()
        watch.report = Report(**json.loads(out))


def _ask_rest(address: str) -> bool:
    connection = HTTPConnection(address, timeout=60)
    connection.request("GET", "/health")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status == 200


def _ask_grpc(stub: health_pb2_grpc.HealthStub) -> bool:
    answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=60)
    return answer.status == health_pb2.HealthCheckResponse.SERVING


def _mb(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20
    except OSError:
        return 0.0


def _children(pid: int) -> list[int]:
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _await_end(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


def main() -> None:
    """Watches until standard input ends."""
    rest, remote, pid = sys.argv[1], sys.argv[2], int(sys.argv[3])
    seconds: list[float] = []
    unhealthy, server_mb, all_mb = 0, 0.0, []
    ended = threading.Event()
    threading.Thread(target=_await_end, args=(ended,), daemon=True).start()
    with grpc.insecure_channel(remote) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        print("watching", flush=True)
        while not seconds or not ended.wait(_SECONDS):
            for ask in (lambda: _ask_rest(rest), lambda: _ask_grpc(stub)):
                began = time.monotonic()
                unhealthy += not ask()
                seconds.append(time.monotonic() - began)
            own = _mb(pid)
            server_mb = max(server_mb, own)
            all_mb.append(round(own + sum(map(_mb, _children(pid))), 1))
    report = Report(len(seconds) // 2, max(seconds), unhealthy, server_mb, all_mb)
    print(json.dumps(report._asdict()))


if __name__ == "__main__":
    main()
