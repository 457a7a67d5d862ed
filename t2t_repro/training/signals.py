"""SIGTERM and SIGINT: the first asks for an end, the second ends the process at once."""

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ORDERLY_SECONDS = 5.0


class Preempted(BaseException):
    """A signal came while something ran that need not be finished."""


class StopRequest:
    """Whether the process has been asked to end.

    Attributes:
        number: of the signal that came, or None.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._may_interrupt = False

    def __call__(self) -> bool:
        """Says whether a signal has come."""
        return self.number is not None

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Makes a signal that comes within it, or has come before, raise `Preempted`."""
        self._may_interrupt = True
        try:
            if self():
                raise Preempted
            yield
        finally:
            self._may_interrupt = False

    def receive(self, number: int) -> None:
        """Takes a signal; to be called by its handler."""
        self.number = number
        if self._may_interrupt:
            raise Preempted


@contextmanager
def stop_requested() -> Iterator[StopRequest]:
    """Turns SIGINT and SIGTERM into an answer; the second of them exits with 128 + its number."""
    stop = StopRequest()
    with _watched(lambda number, frame: stop.receive(number), last=2, seconds=0.0):
        yield stop


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Lets SIGINT and SIGTERM end the process, whatever it is doing, with 128 + their number.

    In an orderly way, if there is one within seconds: SIGINT is Ctrl-C, SIGTERM a SystemExit.
    """
    with _watched(_end, last=1, seconds=_ORDERLY_SECONDS):
        yield


@contextmanager
def signals_kept() -> Iterator[None]:
    """Holds signals back until the block is done, and restores the handlers that it replaces."""
    with _deferred():
        try:
            yield
        finally:
            for number in SIGNALS:
                signal.signal(number, signal.getsignal(number))


@contextmanager
def _deferred() -> Iterator[None]:
    """Has signals wait; those that come never come to a thread that is made within."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(number: int, frame: object) -> None:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


@contextmanager
def _watched(
    handle: Callable[[int, FrameType | None], None], last: int, seconds: float
) -> Iterator[None]:
    """Has signals handled, and the process exit so many seconds after the last that is handled.

    Python runs a handler between two of its own instructions only, which inside an update may be
    minutes away. So they are watched for by a thread.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    watcher = threading.Thread(target=_exit_after, args=(reader, last, seconds), daemon=True)
    with _deferred():
        watcher.start()
    handlers = {number: signal.signal(number, handle) for number in SIGNALS}
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(writer)
        watcher.join()
        os.close(reader)


def _exit_after(reader: int, last: int, seconds: float) -> None:
    """Reads the numbers of signals as they come, until the other end is closed."""
    received = 0
    while numbers := os.read(reader, 1):
        received += numbers[0] in SIGNALS
        # Within those seconds the other end may be closed, or one more signal come.
        if received < last or (received == last and _is_readable(reader, seconds)):
            continue
        os._exit(128 + numbers[0])


def _is_readable(reader: int, seconds: float) -> bool:
    return bool(seconds and select.select([reader], [], [], seconds)[0])
