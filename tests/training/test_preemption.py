"""Signals: the first is an answer, the second the end, even inside one long call."""

import os
import signal
import subprocess
import sys
import time

import pytest

from t2t_repro.training.preemption import Preempted, stop_requested

# A stop within one call of C code that holds back Python's handlers: as an update does.
DEAF = """
import hashlib, os, signal, sys, threading
from t2t_repro.training.preemption import stop_requested

with stop_requested() as stop:
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", 2_000_000_000)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_is_noted(number):
    with stop_requested() as stop:
        assert not stop()
        os.kill(os.getpid(), number)
        assert stop()
        assert stop.number == number


def signal_and_wait():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)


def interrupted_by(stop, action):
    with stop.interrupting():
        action()


def test_what_need_not_be_finished_is_interrupted():
    with stop_requested() as stop:
        with pytest.raises(Preempted):
            interrupted_by(stop, signal_and_wait)
        # Nor is it begun thereafter.
        with pytest.raises(Preempted):
            interrupted_by(stop, pytest.fail)


def test_the_second_ends_the_process_inside_a_call():
    with subprocess.Popen([sys.executable, "-c", DEAF], stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 128 + signal.SIGTERM
