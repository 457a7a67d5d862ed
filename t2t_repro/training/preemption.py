"""SIGTERM and SIGINT: the first asks for an end, the second ends the process at once."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


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
    """Turns SIGINT and SIGTERM into an answer; the second of them exits with 128 + its number.

    Python runs a handler between two of its own instructions only, which inside an update may be
    minutes away. So the second is watched for by a thread.
    """
    stop = StopRequest()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    watcher = threading.Thread(target=_exit_at_the_second, args=(reader,), daemon=True)
    watcher.start()
    handlers = {
        number: signal.signal(number, lambda number, frame: stop.receive(number))
        for number in _SIGNALS
    }
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield stop
    finally:
        signal.set_wakeup_fd(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(writer)
        watcher.join()
        os.close(reader)


def _exit_at_the_second(reader: int) -> None:
    """Reads the numbers of signals as they come, until the other end is closed."""
    received = 0
    while numbers := os.read(reader, 1):
        received += numbers[0] in _SIGNALS
        if received == 2:
            os._exit(128 + numbers[0])
