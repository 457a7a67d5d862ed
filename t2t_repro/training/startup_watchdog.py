"""Bounds TensorFlow's start with several workers: a wait in C++, in which no Python runs.

If another worker has ended just before it, the wait lasts an hour; and SIGTERM is TensorFlow's from
then on. So signals are kept for later, and a process of its own watches, which ends this one if
nobody comes any more.
"""

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from t2t_repro.training.connections import Connections, Gone
from t2t_repro.training.signals import SIGNALS, signals_kept

# TensorFlow notices within ten seconds that a process is gone, once it has met it.
_TENSORFLOW_SECONDS = 20
_SIGNAL_SECONDS = 5
_PERIOD_MS = 1000


@contextmanager
def startup_watchdog(connections: Connections | None) -> Iterator[None]:
    """Makes sure that the wait ends.

    Signals that come within are handled after it. Where another worker is lost, or a signal has
    come, and the wait does not end by itself, SIGKILL ends this process: nothing else can.

    Args:
        connections: with the others, if there are any.
    """
    with signals_kept():
        if not connections:
            yield
            return
        reader, writer = os.pipe()
        watcher = os.fork()
        if not watcher:
            try:
                os.close(writer)
                _watch(connections, reader)
            finally:
                os._exit(0)
        os.close(reader)
        try:
            yield
        finally:
            os.close(writer)
            os.waitpid(watcher, 0)


def _watch(connections: Connections, reader: int) -> None:
    """Waits until the parent is done, or has to be ended."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    parent = os.getppid()
    others = {other.fileno(): other for other in connections.others.values()}
    poll = select.poll()
    for descriptor in (reader, *others):
        poll.register(descriptor, select.POLLIN)
    end, line = float("inf"), ""
    while time.monotonic() < end:
        for descriptor, _ in poll.poll(_PERIOD_MS):
            if descriptor == reader:
                return
            poll.unregister(descriptor)
            # A worker that has sent something is further already.
            if others[descriptor].has_ended() and not line:
                line = f"error: {Gone(f'{others[descriptor].name} has closed its connection')}\n"
                end = time.monotonic() + _TENSORFLOW_SECONDS
        if _has_pending_signal(parent):
            end = min(end, time.monotonic() + _SIGNAL_SECONDS)
    os.write(2, line.encode())
    os.kill(parent, signal.SIGKILL)


def _has_pending_signal(process: int) -> bool:
    """Whether a signal waits for a process; beyond Linux that is not known."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return False
    pending = [int(line.split()[1], 16) for line in lines if line.startswith("ShdPnd:")]
    return any(bits >> (number - 1) & 1 for bits in pending for number in SIGNALS)
