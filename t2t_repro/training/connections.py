"""What workers tell each other over plain TCP, which is there before TensorFlow's collectives are.

One connection between worker 0 and each other, for the whole run; lines of JSON:

    gather(v_i) = [v_0, ..., v_(n-1)] on every worker:
        0 ── ready ──▶ i,    i ── v_i ──▶ 0,    0 ── [v_0, ...] ──▶ i

A value is sent only after `ready`: what the other end leaves unread for longer than
TCP_USER_TIMEOUT would end the connection. Waiting here is Python's, so signals are heard meanwhile.
A worker that ends by an error, or for want of another, says so: all end with the same line.
"""

import json
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from t2t_repro.errors import UserError, reason_of, storage_error
from t2t_repro.training.cluster import Cluster

# Of what workers tell each other: translations of a dev set.
_MOST_BYTES = 2**30
# A connection whose other end answers nothing for so long, or takes nothing that is sent, is lost.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 2, "TCP_USER_TIMEOUT": 15_000}
_LAST_WORDS_SECONDS = 5


class LostWorker(Exception):
    """Another worker has not come, or is gone; the message is a line for the user."""


class Gone(LostWorker):
    """A connection has ended.

    Args:
        what: has happened to whom.

    Attributes:
        what: as given.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(
            f"another worker is lost ({what[:200]}): see its log; start all workers again, as many "
            "as there are, and the run goes on from its last checkpoint."
        )


class Connection:
    """Lines of JSON to and from another worker.

    Args:
        connected: the socket.
        name: of the worker.

    Attributes:
        name: as given.
    """

    def __init__(self, connected: socket.socket, name: str) -> None:
        self.name = name
        self._socket = connected
        self._read = bytearray()
        connected.settimeout(None)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in {**_KEEP_ALIVE, "TCP_NODELAY": 1}.items():
            # Beyond Linux some are missing.
            if hasattr(socket, option):
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    def fileno(self) -> int:
        """Returns the descriptor, for select."""
        return self._socket.fileno()

    def send(self, message: Any) -> None:
        """Sends a message that JSON can hold.

        Raises:
            Gone: nobody takes it.
        """
        try:
            self._socket.sendall(json.dumps(message).encode("ascii") + b"\n")
        except OSError as error:
            raise self._gone(error) from error

    def receive(self, seconds: float | None = None) -> dict[str, Any]:
        """Waits for a message.

        Args:
            seconds: to wait at most for each part of it; None for ever.

        Raises:
            Gone: the connection has ended, or it took too long.
            ValueError: what came is no message.
        """
        self._socket.settimeout(seconds)
        try:
            while (message := self.take()) is None:
                self.read()
        finally:
            self._socket.settimeout(None)
        return message

    def read(self) -> None:
        """Reads something of what has come; waits for it if there is nothing.

        Raises:
            Gone: the connection has ended.
        """
        try:
            new = self._socket.recv(2**16)
        except OSError as error:
            raise self._gone(error) from error
        if not new:
            raise Gone(f"{self.name} has closed its connection")
        self._read += new

    def take(self, most_bytes: int = _MOST_BYTES) -> dict[str, Any] | None:
        """Returns the next message of what has been read, or None if it is not whole yet.

        Args:
            most_bytes: that it may have.

        Raises:
            ValueError: it is no message.
        """
        end = self._read.find(b"\n")
        if max(end, len(self._read) if end < 0 else 0) > most_bytes:
            raise ValueError("it is too long")
        if end < 0:
            return None
        line = bytes(self._read[:end])
        del self._read[: end + 1]
        try:
            message = json.loads(line)
        except RecursionError as error:
            raise ValueError("brackets in brackets") from error
        if not isinstance(message, dict):
            raise ValueError("it is no object")
        return message

    def has_ended(self) -> bool:
        """Says whether the other end is closed, and all that it has sent was read."""
        if self._read:
            return False
        try:
            return not self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """Closes it."""
        self._socket.close()

    def _gone(self, error: OSError) -> Gone:
        return Gone(f"{self.name}: {error.strerror or 'it does not answer'}")


class Connections:
    """The connections of a worker: worker 0 has one to each other, each other has one to worker 0.

    Args:
        cluster: of all.
        others: the connections, by the index of the worker at the other end.

    Attributes:
        cluster: as given.
        others: as given.
    """

    def __init__(self, cluster: Cluster, others: dict[int, Connection]) -> None:
        self.cluster = cluster
        self.others = others

    def gather(self, value: Any) -> list[Any]:
        """Collects a value of every worker; all have to call it, as often and in the same order.

        Args:
            value: of this worker; what JSON can hold.

        Returns:
            [workers] the values, on every worker the same.

        Raises:
            UserError: another worker has ended by it.
            LostWorker: one is gone.
        """
        if self.cluster.index:
            (first,) = self.others.values()
            value_of(first.receive(), "ready")
            first.send({"value": value})
            return list(value_of(first.receive(), "values"))
        for other in self.others.values():
            # If one has ended, its last message says why, and is read below.
            with suppress(Gone):
                other.send({"ready": True})
        # Through JSON, as those of the others: lists, no tuples.
        values = {0: json.loads(json.dumps(value))}
        values |= {index: value_of(message, "value") for index, message in self._next_of_all()}
        ordered = [values[index] for index in sorted(values)]
        for other in self.others.values():
            other.send({"values": ordered})
        return ordered

    def _next_of_all(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The next message of each of the others, in the order in which they come."""
        waiting = dict(self.others)
        with selectors.DefaultSelector() as selector:
            for index, other in waiting.items():
                selector.register(other, selectors.EVENT_READ, index)
            while waiting:
                for key, _ in selector.select():
                    other = waiting[key.data]
                    other.read()
                    if (message := other.take()) is not None:
                        selector.unregister(waiting.pop(key.data))
                        yield key.data, message

    @contextmanager
    def telling(self, unsure: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Tells all others why this worker ends: by an error, or by another's loss.

        Args:
            unsure: errors that may come from another's loss; of these nothing is told.
        """
        try:
            yield
        except UserError as error:
            self._tell_error(str(error))
            raise
        except LostWorker as error:
            self._tell("lost", str(error))
            raise
        except unsure:
            raise
        except Exception as error:
            reason = storage_error(error) if isinstance(error, OSError) else None
            log = f"see worker {self.cluster.index}'s log"
            bug = f"{type(error).__name__}: {reason_of(error)}; {log}."
            # A bug would end the next start, too: the others must not end with the status that asks
            # for one.
            self._tell_error(reason or bug)
            raise

    def _tell_error(self, text: str) -> None:
        who = f"worker {self.cluster.index}: " if self.cluster.index else ""
        self._tell("error", f"{who}{text}")

    def _tell(self, kind: str, text: str) -> None:
        for other in self.others.values():
            with suppress(Gone):
                other.send({kind: text})

    def last_words(self) -> str | None:
        """Returns the error by which another worker has ended, if one has within seconds."""
        deadline = time.monotonic() + _LAST_WORDS_SECONDS
        for other in self.others.values():
            with suppress(LostWorker, ValueError):
                while message := other.receive(max(deadline - time.monotonic(), 0.01)):
                    if "error" in message:
                        return str(message["error"])
        return None

    def close(self) -> None:
        """Closes all."""
        for other in self.others.values():
            other.close()


def value_of(message: dict[str, Any], name: str) -> Any:
    """Returns what a message says under a name.

    Raises:
        UserError: the sender has ended by an error.
        LostWorker: the sender has lost another worker.
        ValueError: the message has nothing under that name.
    """
    if "error" in message:
        raise UserError(str(message["error"]))
    if "lost" in message:
        raise LostWorker(str(message["lost"]))
    if name not in message:
        raise ValueError(f"there is no {name!r} in it")
    return message[name]
