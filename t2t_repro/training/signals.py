"""SIGTERM and SIGINT: the first asks for an orderly end, the second ends the process at once.

Python handles a signal between two calls of C code, and the update of a large batch is one call,
which can take minutes. A thread is told at once: it reports the signal, and ends the process if
that takes too long.
"""

import os
import signal
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from absl import logging

SIGNALS = (signal.SIGINT, signal.SIGTERM)

# Schedulers kill a job 10 to 30 seconds after the signal; a checkpoint has to be written in them.
_SECONDS = 3.0


class Interrupted(BaseException):
    """A signal came during work that need not be finished."""


class StopRequest:
    """Whether the process has been asked to end.

    Attributes:
        number: of the signal that came, or None.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._may_interrupt = False

    def __call__(self) -> bool:
        """Returns whether a signal has come."""
        return self.number is not None

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Makes a signal that comes within the block, or came before, raise `Interrupted`."""
        self._may_interrupt = True
        try:
            if self():
                raise Interrupted
            yield
        finally:
            self._may_interrupt = False

    def receive(self, number: int) -> None:
        """Notes a signal."""
        self.number = number
        if self._may_interrupt:
            raise Interrupted


@contextmanager
def stop_requested(end_now: Callable[[], None] | None = None) -> Iterator[StopRequest]:
    """Notes the first SIGINT or SIGTERM within the block; the second ends the process.

    Args:
        end_now: if the block does not end within seconds of the signal, another thread calls this,
            then ends the process; None to wait for the block.
    """
    stop = StopRequest()
    with _first_handled(stop.receive, end_now):
        yield stop


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Makes SIGTERM end the block in an orderly way, with status 143, as SIGINT does with Ctrl-C.

    The second signal ends the process at once.
    """
    with _first_handled(_end, lambda: None):
        yield


def _end(number: int) -> None:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


@contextmanager
def _first_handled(
    handle: Callable[[int], None], end_now: Callable[[], None] | None
) -> Iterator[None]:
    """Handles the first signal; from then on the defaults apply, even during a long C call."""

    def receive(number: int, _: Any) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        handle(number)

    handlers = {number: signal.signal(number, receive) for number in SIGNALS}
    arrivals, sender = socket.socketpair()
    sender.setblocking(False)
    outer = signal.set_wakeup_fd(sender.fileno())
    watcher = threading.Thread(target=_watch, args=(arrivals, end_now), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(outer)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        # The watcher reads the end of the stream; one that ends the process is not disturbed.
        sender.close()
        watcher.join()
        arrivals.close()


def _watch(arrivals: socket.socket, end_now: Callable[[], None] | None) -> None:
    """Reports the first signal; ends the process at the second, or when its time is over."""
    if not (first := arrivals.recv(1)):
        return
    when = "within 10 seconds" if end_now else "after this update"
    logging.info(f"{signal.Signals(first[0]).name}: ending {when}; a second signal ends at once")
    arrivals.settimeout(_SECONDS if end_now else None)
    try:
        number = arrivals.recv(1)
    except TimeoutError:
        number = first
        try:
            assert end_now
            end_now()
        except BaseException:
            traceback.print_exc()
    if number:
        os._exit(128 + number[0])
