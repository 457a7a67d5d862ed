"""The faults themselves happen when they should, or the report would say nothing."""

import mmap
import os
import signal
import sys
import time

import pytest

from tests.faults.injection import Fault, Place, _on_event
from tests.processes import in_child


@pytest.mark.parametrize("fault", [Fault(write=3), Fault(full_disk=3)])
def test_file_operations_are_counted(monkeypatch, fault):
    killed = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))
    place = Place(mmap.mmap(-1, 64))
    _on_event(fault, place, "open", ("x", "r", os.O_RDONLY))
    _on_event(fault, place, "open", ("x", "w", os.O_WRONLY | os.O_CREAT))
    _on_event(fault, place, "os.rename", ("x", "y"))
    assert (place.writes, killed) == (2, [])
    if fault.write:
        _on_event(fault, place, "os.mkdir", ("x",))
        assert killed == [(os.getpid(), signal.SIGKILL)]
    else:
        with pytest.raises(OSError, match="No space left"):
            _on_event(fault, place, "os.mkdir", ("x",))


@pytest.mark.parametrize(
    ("function", "status"), [(lambda: None, 0), (lambda: sys.exit(3), 3), (lambda: 1 / 0, 1)]
)
def test_a_child_says_how_it_ended(function, status):
    assert in_child(function) == status
    assert in_child(function, time.monotonic() + 60) == status


def test_a_child_is_killed_in_time():
    assert in_child(lambda: time.sleep(60), time.monotonic() + 0.1) == -signal.SIGKILL
