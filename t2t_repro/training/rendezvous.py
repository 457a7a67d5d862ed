"""Workers find each other before TensorFlow's own start, which waits for them in C++.

That says nothing meanwhile, has no end, and hears no signal. So here worker 0 listens at its
address, the others dial it, and each says who it is. When all have come, and each has reached
every other, the ports are closed again for TensorFlow to open; the connections stay.
"""

import errno
import os
import selectors
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import gin
from absl import logging

import t2t_repro
from t2t_repro.errors import UserError
from t2t_repro.ranges import Range, checked
from t2t_repro.training.cluster import Cluster
from t2t_repro.training.connections import Connection, Connections, Gone, LostWorker, said

# Of what is read from somebody who has not said yet who he is.
_HELLO_BYTES, _HELLO_SECONDS, _MOST_STRANGERS = 2**16, 10.0, 64
_BACKLOG = 512  # Of a listener that takes none, while all others see whether it is there.
_DIAL_SECONDS, _PAUSE_SECONDS, _SAY_SECONDS = 10.0, 0.5, 15.0
# For a worker that cannot take part to say so, and for worker 0 to tell those who come late.
_REPORT_SECONDS = 30.0
_LATE_SECONDS = 20.0
_MOST_NAMED = 5


@gin.configurable(denylist=["cluster"])
@checked
def find_workers(
    cluster: Cluster, limit_minutes: Annotated[float, Range(above=0, most=1e5)] = 10.0
) -> Connections:
    """Finds all workers of a cluster; the log says whom it waits for.

    Args:
        cluster: of all.
        limit_minutes: how long to wait until all have come.

    Returns:
        the connections; all have free ports, and reach each other.

    Raises:
        UserError: a port is taken, one worker does not reach another, two have one index, or they
            have different versions or clusters; on all that have come.
        LostWorker: not all came in time; on all that did.
    """
    limit = _Limit(limit_minutes)
    find = _find_as_others if cluster.index else _find_as_first
    connections = Connections(cluster, {})
    try:
        with connections.telling():
            find(connections, limit)
    except BaseException:
        connections.close()
        raise
    return connections


class _Limit:
    """How long the others are waited for, and what is said meanwhile."""

    def __init__(self, minutes: float) -> None:
        self._minutes = minutes
        self._end = time.monotonic() + 60 * minutes
        self._next_line = 0.0

    def check(self, missing: Sequence[str], reason: str = "") -> float:
        """Says now and then who is missing; returns how many seconds are left.

        Raises:
            LostWorker: none.
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


def _find_as_first(connections: Connections, limit: _Limit) -> None:
    """What worker 0 does: lets in all others."""
    with _listener(connections.cluster) as listener, _Door(listener, connections) as door:
        door.let_in(limit)
        _check_reach(connections)


def _find_as_others(connections: Connections, limit: _Limit) -> None:
    """What every other does: dials worker 0, again if that is started again meanwhile."""
    cluster = connections.cluster
    try:
        listener = _listener(cluster)
    except UserError as error:
        with suppress(LostWorker):
            _dial(cluster, _Limit(_REPORT_SECONDS / 60), {"error": str(error)})
        raise
    with listener:
        while True:
            connections.others[0] = _dial(cluster, limit)
            try:
                connections.gather(None)
                break
            except Gone:
                connections.others.pop(0).close()
        _check_reach(connections)


def _check_reach(connections: Connections) -> None:
    """Sees whether all reach each other: TensorFlow would wait for those that do not."""
    cluster = connections.cluster
    if not cluster.index:
        connections.gather(None)
    others = [index for index in range(len(cluster.addresses)) if index != cluster.index]
    failures = filter(None, (_why_out_of_reach(cluster, index) for index in others))
    for index, failure in enumerate(connections.gather(next(failures, None))):
        if failure:
            raise UserError(
                f"worker {index} cannot reach {failure}: mend that address in TF_CONFIG, or what "
                "keeps one machine from the other (names, firewalls)."
            )


def _why_out_of_reach(cluster: Cluster, index: int) -> str | None:
    try:
        socket.create_connection(cluster.split(index), timeout=_DIAL_SECONDS).close()
    except (OSError, UnicodeError) as error:
        return f"{cluster.name(index)} ({_reason(error)})"
    return None


def _listener(cluster: Cluster) -> socket.socket:
    """Opens this worker's port, as TensorFlow will: on all of the machine's addresses.

    Raises:
        UserError: it is taken.
    """
    _, port = cluster.split(cluster.index)
    try:
        if socket.has_dualstack_ipv6():
            with suppress(OSError):
                return socket.create_server(
                    ("", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True
                )
        return socket.create_server(("", port), backlog=_BACKLOG)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise UserError(
            f"port {port} of {socket.gethostname()} cannot be had for "
            f"{cluster.name(cluster.index)} ({os.strerror(error.errno)}): end what uses it (see ss "
            "-ltnp; another worker of this machine needs a port of its own), or give all workers "
            "another in TF_CONFIG."
        ) from error


def _hello(cluster: Cluster) -> dict[str, Any]:
    return {
        "t2t_repro": t2t_repro.__version__,
        "cluster": list(cluster.addresses),
        "worker": cluster.index,
        "process": f"process {os.getpid()} on {socket.gethostname()}",
    }


def _dial(cluster: Cluster, limit: _Limit, more: dict[str, str] | None = None) -> Connection:
    """Dials worker 0 until it answers.

    Args:
        cluster: of all.
        limit: of the time.
        more: to be said.

    Raises:
        UserError: what worker 0 says.
        LostWorker: it does not answer in time.
    """
    name, reason = cluster.name(0), ""
    while True:
        left = limit.check([name], reason)
        connection = None
        try:
            dialled = socket.create_connection(cluster.split(0), min(_DIAL_SECONDS, left))
            connection = Connection(dialled, name)
            connection.send(_hello(cluster) | (more or {}))
            said(connection.receive(_HELLO_SECONDS), "welcome")
            logging.info(f"train: worker {cluster.index} has found {name}, whose log says more")
            return connection
        except UserError:
            raise
        except Gone as error:
            reason = error.what
        except (OSError, UnicodeError) as error:
            reason = _reason(error)
        except ValueError:
            reason = "what answers there is no trainer"
        if connection:
            connection.close()
        time.sleep(_PAUSE_SECONDS)


class _Door:
    """Worker 0's: lets in who says which worker he is, and forgets all who say something else.

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

    def __enter__(self) -> "_Door":
        return self

    def __exit__(self, *error: object) -> None:
        self._selector.close()
        for stranger in self._strangers:
            stranger.close()

    def let_in(self, limit: _Limit) -> None:
        """Waits until all others are here.

        Raises:
            UserError: one cannot take part.
            LostWorker: one has not come in time.
        """
        cluster = self._cluster
        try:
            while missing := self._missing():
                left = limit.check([cluster.name(index) for index in missing])
                self._look(min(left, 1.0))
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
            self._look(0.5)

    def _look(self, seconds: float) -> None:
        """Attends to whoever moves, and waits so long for one who does."""
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                self._answer_the_bell()
            elif key.data in self._strangers:
                self._hear(key.data)
            else:
                self._see_whether_gone(key.data)
        for stranger, since in list(self._strangers.items()):
            if time.monotonic() > since + _HELLO_SECONDS:
                self._turn_away(stranger)

    def _answer_the_bell(self) -> None:
        try:
            connected, address = self._listener.accept()
        except OSError:
            # He has gone again, or there are too many.
            return
        if len(self._strangers) == _MOST_STRANGERS:
            self._turn_away(next(iter(self._strangers)))
        stranger = Connection(connected, str(address[0]).removeprefix("::ffff:"))
        self._strangers[stranger] = time.monotonic()
        self._selector.register(stranger, selectors.EVENT_READ, stranger)

    def _turn_away(self, stranger: Connection) -> None:
        text = "train: turning away %s, which does not say that it is a worker"
        logging.log_first_n(logging.INFO, text, _MOST_NAMED, stranger.name)
        self._forget(stranger)

    def _forget(self, stranger: Connection) -> None:
        self._selector.unregister(stranger)
        del self._strangers[stranger]
        stranger.close()

    def _hear(self, stranger: Connection) -> None:
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
            self._turn_away(stranger)
        else:
            del self._strangers[stranger]
            stranger.name = self._cluster.name(index)
            self._here[index] = stranger
            with suppress(Gone):
                stranger.send({"welcome": index})

    def _index_of(self, hello: dict[str, Any]) -> int:
        """Who it is.

        Raises:
            UserError: a worker that cannot take part.
            ValueError: none.
        """
        index, process = hello.get("worker"), str(hello.get("process"))[:100]
        if type(index) is not int or not _hello(self._cluster).keys() <= hello.keys():
            raise ValueError("no hello")
        if self._error:
            raise self._error
        expected = _hello(self._cluster)
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
        if index and index not in self._here:
            return index
        raise UserError(
            f"{self._cluster.name(index)} is there twice, the second time as {process!r}: give "
            "every process an index of its own in TF_CONFIG, and start each once."
        )

    def _see_whether_gone(self, worker: Connection) -> None:
        # What it says, if it does, will be read when all are here.
        self._selector.unregister(worker)
        if worker.has_ended():
            logging.info("train: %s has gone again", worker.name)
            (index,) = (index for index, one in self._here.items() if one is worker)
            self._here.pop(index).close()


def _reason(error: OSError | UnicodeError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer"
    return getattr(error, "strerror", None) or str(error)
