"""What can go wrong in a child process, at a moment that can be chosen."""

import errno
import functools
import mmap
import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# What changes a file, as Python's audit hooks name it.
_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree"}
_DELETIONS = {"os.remove", "os.rmdir", "shutil.rmtree"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        seconds: the process is killed so long after the start of the attempt.
        write: it is killed right before the n-th file operation that Python makes.
        place: it is killed `delay` seconds after it got to a place (see `Place`) ...
        visit: ... for the n-th time.
        delay: see `place`.
        full_disk: file operations fail from the n-th on.
        clock: the time of day is off by so many seconds.
    """

    seconds: float | None = None
    write: int | None = None
    place: str | None = None
    visit: int = 1
    delay: float = 0.0
    full_disk: int | None = None
    clock: float | None = None


class Place:
    """What a child is doing, and how many file operations it has made; its parent reads it.

    Args:
        memory: shared by both, 64 bytes.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory

    def begin(self, name: str) -> None:
        """Notes that something begins."""
        self._memory[8:64] = name.encode().ljust(56)

    @property
    def name(self) -> str:
        """What began last."""
        return bytes(self._memory[8:64]).decode().strip()

    @property
    def writes(self) -> int:
        """The file operations so far."""
        return int(struct.unpack("q", self._memory[:8])[0])

    def count_write(self) -> int:
        """Counts one more."""
        count = self.writes + 1
        self._memory[:8] = struct.pack("q", count)
        return count


def install(fault: Fault | None, place: Place) -> None:
    """Makes this process note its place, and the fault happen in it. Cannot be undone."""
    _watch_places(fault, place)
    sys.addaudithook(functools.partial(_on_event, fault, place))
    if fault and fault.clock is not None:
        now, offset = time.time, fault.clock
        time.time = lambda: now() + offset


def _watch_places(fault: Fault | None, place: Place) -> None:
    from t2t_repro.data import preparation
    from t2t_repro.runs import checkpoint_folder
    from t2t_repro.training import dev_evaluation, train_step
    from t2t_repro.training import metrics_log as journal

    watched: list[tuple[Any, str, str]] = [
        (preparation.Preparation, "run", "data preparation"),
        (dev_evaluation.DevEvaluation, "share", "evaluation"),
        (checkpoint_folder.CheckpointFolder, "write", "checkpoint"),
        (checkpoint_folder.CheckpointFolder, "tidy", "restoring"),
        (journal, "rewind", "rewinding"),
        (train_step.TrainStep, "__call__", "step"),
    ]
    visits: dict[str, int] = {}

    def watch(inner: Callable, name: str) -> Callable:
        @functools.wraps(inner)
        def watching(*arguments: Any, **options: Any) -> Any:
            place.begin(name)
            visits[name] = visits.get(name, 0) + 1
            if fault and (fault.place, fault.visit) == (name, visits[name]):
                # By another thread: this one may be inside TensorFlow by then.
                threading.Timer(fault.delay, _kill).start()
            result = inner(*arguments, **options)
            place.begin(f"after {name}")
            return result

        return watching

    for owner, attribute, name in watched:
        setattr(owner, attribute, watch(getattr(owner, attribute), name))


def _on_event(fault: Fault | None, place: Place, event: str, arguments: tuple) -> None:
    if event == "open":
        if not isinstance(arguments[2], int) or not arguments[2] & _WRITING:
            return
    elif event not in _CHANGES:
        return
    count = place.count_write()
    if fault and fault.write == count:
        _kill()
    if fault and fault.full_disk and count >= fault.full_disk and event not in _DELETIONS:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
