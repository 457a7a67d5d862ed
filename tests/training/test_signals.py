"""The first signal asks for an end, the second ends the process, even inside one long call."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from t2t_repro.training.signals import Interrupted, _watch, ended_by_signals, stop_requested

# One call of C code that holds back Python's handlers, as an update does.
BUSY = """
import hashlib, sys
from absl import logging
from t2t_repro.training.signals import stop_requested

logging.set_verbosity("info")
with stop_requested() as stop:
    print("ready", flush=True)
    while sys.argv[1:] and not stop.is_made():
        pass
    print("noted", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", 2_000_000_000)
"""


def test_work_that_need_not_be_finished_is_interrupted():
    def wait():
        with stop.interrupting():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)

    def begin():
        with stop.interrupting():
            pytest.fail("it was begun after the signal")

    with stop_requested() as stop:
        for work in (wait, begin):
            with pytest.raises(Interrupted):
                work()


@pytest.mark.parametrize("waits", [True, False])
def test_the_second_ends_the_process_inside_a_call(waits):
    """Also where both come within it; the first is reported at once."""
    command = [sys.executable, "-c", BUSY, *["waits"] * waits]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == b"ready\n"
        assert waits or process.stdout.readline() == b"noted\n"
        process.send_signal(signal.SIGTERM)
        assert b"SIGTERM: ending" in process.stderr.readline()
        if waits:
            assert process.stdout.readline() == b"noted\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) in (143, -signal.SIGTERM)


def test_two_that_come_at_once_are_two(monkeypatch):
    monkeypatch.setattr(os, "_exit", sys.exit)
    arrivals, sender = socket.socketpair()
    with sender:
        # Another one that Python handles does not count.
        sender.send(bytes([signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR1, signal.SIGINT]))
    with arrivals, pytest.raises(SystemExit, match="130"):
        _watch(arrivals)


@pytest.mark.parametrize(
    ("number", "end"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)]
)
def test_the_first_ends_a_program_that_does_not_train_yet(number, end):
    with pytest.raises(end) as error, ended_by_signals():
        signal.raise_signal(number)
    if number == signal.SIGTERM:
        assert error.value.code == 143
