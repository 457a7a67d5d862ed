"""SIGTERM and SIGINT: the first asks for an orderly end, the second ends the process at once.

Python handles a signal between two calls of C code, and the update of a large batch is one call,
which can take minutes. A thread reports the first signal without that delay, and acts on the
second.
"""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from absl import logging

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """A signal came during work that need not be finished."""


class StopRequest:
    """The request to end the process, once a signal has made it.

    Attributes:
        number: the number of the signal, or None before it.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._may_interrupt = False

    def is_made(self) -> bool:
        """Returns whether a signal has come."""
        return self.number is not None

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Makes a signal that comes within the block, or came before, raise `Interrupted`."""
        # Before the check: a signal between the two interrupts as well.
        self._may_interrupt = True
        try:
            if self.is_made():
                raise Interrupted
            yield
        finally:
            self._may_interrupt = False

    def receive(self, number: int) -> None:
        """Notes a signal; raises `Interrupted` within a block of `interrupting`."""
        self.number = number
        if self._may_interrupt:
            raise Interrupted


@contextmanager
def stop_requested() -> Iterator[StopRequest]:
    """Yields the request that the first SIGINT or SIGTERM makes; the second ends the process."""
    stop = StopRequest()
    with _handling_first_signal(stop.receive):
        yield stop


def ended_by_signals() -> AbstractContextManager[None]:
    """Makes SIGTERM raise SystemExit(143) in a block, and SIGINT (Ctrl-C) KeyboardInterrupt.

    The second signal ends the process at once.
    """
    return _handling_first_signal(_end)


def _end(number: int) -> None:
    """Raises what ends the process: KeyboardInterrupt for SIGINT, SystemExit for SIGTERM."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    # The status that shells report for a process that the signal has killed.
    raise SystemExit(128 + number)


@contextmanager
def _handling_first_signal(handle: Callable[[int], None]) -> Iterator[None]:
    """Logs the first signal that comes in the block, and passes its number to `handle`.

    The second ends the process. After the block, signals are handled as before it.
    """

    def receive(number: int, _: object) -> None:
        # The second signal, of either kind, ends the process.
        for kind in SIGNALS:
            signal.signal(kind, signal.SIG_DFL)
        handle(number)

    outer_handlers = {number: signal.signal(number, receive) for number in SIGNALS}
    # Into this socket Python writes the number of a signal when it comes, during C calls as well.
    arrivals, sender = socket.socketpair()
    sender.setblocking(False)  # `set_wakeup_fd` demands it.
    outer_wakeup_fd = signal.set_wakeup_fd(sender.fileno())
    watcher = threading.Thread(target=_watch, args=(arrivals,), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(outer_wakeup_fd)
        for number, handler in outer_handlers.items():
            signal.signal(number, handler)
        # The watcher reads the end of the stream.
        sender.close()
        watcher.join()
        arrivals.close()


def _watch(arrivals: socket.socket) -> None:
    """Logs the first signal; ends the process at the second, also during a long C call.

    Returns when the other end of the socket is closed.

    Args:
        arrivals: receives a byte for each signal that Python handles: the signal's number.
    """
    # `recv` returns no byte at the end of the stream.
    numbers = (byte[0] for byte in iter(lambda: arrivals.recv(1), b""))
    ours = (number for number in numbers if number in SIGNALS)
    if first := next(ours, None):
        name = signal.Signals(first).name
        logging.info("%s: ending after the work under way; a second signal ends at once", name)
        if second := next(ours, None):
            os._exit(128 + second)
