"""Worker 0's side of the rendezvous: which workers may join, and until when.

A worker that connects sends its hello first, a line of JSON. Any other connection is closed.
"""

import os
import selectors
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from absl import logging

import t2t_repro
from t2t_repro.errors import UserError
from t2t_repro.training.cluster import Cluster
from t2t_repro.training.connections import Connection, Connections, Gone, LostWorker
from t2t_repro.training.source_digest import source_digest

# Limits of a connection that has not said yet which worker it is.
_HELLO_BYTES, _HELLO_SECONDS, _MOST_STRANGERS = 2**16, 10.0, 64
_SAY_SECONDS, _MOST_NAMED = 15.0, 5
# For so long, workers that come late are told that nothing begins.
_LATE_SECONDS = 20.0


class Limit:
    """How long others are waited for, and what is said meanwhile.

    Args:
        minutes: from now.
    """

    def __init__(self, minutes: float) -> None:
        self._minutes = minutes
        self._end = time.monotonic() + 60 * minutes
        self._next_line = 0.0

    def check(self, missing: Sequence[str], reason: str = "") -> float:
        """Says now and then who is missing; returns how many seconds are left.

        Args:
            missing: names of workers.
            reason: why, if that is known.

        Raises:
            LostWorker: the time is up.
        """
        names = ", ".join(missing[:_MOST_NAMED])
        if len(missing) > _MOST_NAMED:
            names += f" and {len(missing) - _MOST_NAMED} more"
        reason = f" ({reason})" if reason else ""
        now = time.monotonic()
        left = self._end - now
        if left <= 0:
            raise LostWorker(
                f"{names} has not come within {self._minutes:g} minutes{reason}: start all workers "
                "with the same command, see their logs and the addresses of the cluster, or raise "
                "find_workers.limit_minutes."
            )
        if now >= self._next_line:
            self._next_line = now + _SAY_SECONDS
            logging.info(f"train: waiting for {names}{reason}; {left / 60:.1f} minutes are left")
        return left


def hello_of(cluster: Cluster) -> dict[str, Any]:
    """Returns what a worker says first of itself."""
    return {
        "t2t_repro": f"{t2t_repro.__version__} ({source_digest('t2t_repro')})",
        "cluster": list(cluster.addresses),
        "worker": cluster.index,
        "process": f"process {os.getpid()} on {socket.gethostname()}",
    }


class Admission:
    """Lets workers join that say which they are, and closes all other connections.

    Args:
        listener: of worker 0.
        connections: which those let in are added to.
    """

    def __init__(self, listener: socket.socket, connections: Connections) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._cluster, self._here = connections.cluster, connections.others
        self._strangers: dict[Connection, float] = {}
        self._told: set[int] = set()
        self._error: UserError | None = None
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)

    def __enter__(self) -> "Admission":
        return self

    def __exit__(self, *error: object) -> None:
        self._selector.close()
        for stranger in self._strangers:
            stranger.close()

    def wait_for_all(self, limit: Limit) -> None:
        """Waits until all other workers have joined.

        Raises:
            UserError: one cannot take part.
            LostWorker: one has not come in time.
        """
        cluster = self._cluster
        try:
            while missing := self._missing():
                left = limit.check([cluster.name(index) for index in missing])
                self._serve(min(left, 1.0))
        except UserError as error:
            self._error = error
            self._refuse_all(str(error))
            raise

    def _missing(self) -> list[int]:
        others = set(range(1, len(self._cluster.addresses)))
        return sorted(others - self._here.keys() - self._told)

    def _refuse_all(self, error: str) -> None:
        """Tells all who are here, or come within seconds, why nothing begins."""
        for worker in self._here.values():
            with suppress(Gone):
                worker.send({"error": error})
        end = time.monotonic() + _LATE_SECONDS
        while self._missing() and time.monotonic() < end:
            self._serve(0.5)

    def _serve(self, seconds: float) -> None:
        """Serves the connections that have something to read; waits so long for the first."""
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                self._accept()
            elif key.data in self._strangers:
                self._read_hello(key.data)
            elif key.data in self._here.values() and not self._has_left(key.data):
                # An error that it tells is read when all are here.
                self._selector.unregister(key.data)
        for stranger, since in list(self._strangers.items()):
            if time.monotonic() > since + _HELLO_SECONDS:
                self._reject(stranger)

    def _accept(self) -> None:
        try:
            connected, address = self._listener.accept()
        except OSError:
            # It is closed again, or there are too many.
            return
        if len(self._strangers) == _MOST_STRANGERS:
            self._reject(next(iter(self._strangers)))
        stranger = Connection(connected, str(address[0]).removeprefix("::ffff:"))
        self._strangers[stranger] = time.monotonic()
        self._selector.register(stranger, selectors.EVENT_READ, stranger)

    def _reject(self, stranger: Connection) -> None:
        text = "train: turning away %s, which does not say that it is a worker"
        logging.log_first_n(logging.INFO, text, _MOST_NAMED, stranger.name)
        self._forget(stranger)

    def _forget(self, stranger: Connection) -> None:
        self._selector.unregister(stranger)
        del self._strangers[stranger]
        stranger.close()

    def _read_hello(self, stranger: Connection) -> None:
        hello: dict[str, Any] | None = {}
        try:
            stranger.read()
            if (hello := stranger.take(_HELLO_BYTES)) is None:
                return
            index = self._index_of(hello)
        except UserError as error:
            with suppress(Gone):
                stranger.send({"error": str(error)})
            self._told.add((hello or {})["worker"])
            self._forget(stranger)
            if not self._error:
                raise
        except (Gone, ValueError):
            self._reject(stranger)
        else:
            del self._strangers[stranger]
            stranger.name = self._cluster.name(index)
            self._here[index] = stranger
            with suppress(Gone):
                stranger.send({"welcome": index})

    def _index_of(self, hello: dict[str, Any]) -> int:
        """The index of the worker that sends a hello.

        Raises:
            UserError: a worker that cannot take part.
            ValueError: it is no worker's.
        """
        index, process = hello.get("worker"), str(hello.get("process"))[:100]
        expected = hello_of(self._cluster)
        if type(index) is not int or not expected.keys() <= hello.keys():
            raise ValueError("no hello")
        if self._error:
            raise self._error
        if hello["t2t_repro"] != expected["t2t_repro"]:
            raise UserError(
                f"worker {index} ({process!r}) has t2t_repro {str(hello['t2t_repro'])[:50]!r}, but "
                f"worker 0 has {expected['t2t_repro']!r}: install the same on all machines."
            )
        if hello["cluster"] != expected["cluster"]:
            raise UserError(
                f"worker {index} ({process!r}) has the cluster {str(hello['cluster'])[:300]}, but "
                f"worker 0 has {str(expected['cluster'])[:300]}: give all the same TF_CONFIG, but "
                "for the task's index."
            )
        if index not in range(len(self._cluster.addresses)):
            raise ValueError("no index")
        if error := hello.get("error"):
            raise UserError(f"worker {index}: {str(error)[:1000]}")
        if index and (index not in self._here or self._has_left(self._here[index])):
            return index
        raise UserError(
            f"{self._cluster.name(index)} is there twice, the second time as {process!r}: give "
            "every process an index of its own in TF_CONFIG, and start each once."
        )

    def _has_left(self, worker: Connection) -> bool:
        """Whether a worker that was here is gone; then it may come again."""
        if not worker.has_ended():
            return False
        logging.info("train: %s has gone again", worker.name)
        with suppress(KeyError):
            self._selector.unregister(worker)
        (index,) = (index for index, one in self._here.items() if one is worker)
        self._here.pop(index).close()
        return True
