"""Signals: the first is an answer, the second the end, even inside one long call."""

import os
import signal
import subprocess
import sys
import time

import pytest

from t2t_repro.training.signals import (
    Preempted,
    ended_by_signals,
    stop_requested,
)

# A stop within one call of C code that holds back Python's handlers: as an update does.
DEAF = """
import hashlib, os, signal, sys, threading
from t2t_repro.training.signals import stop_requested

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


@pytest.mark.parametrize(
    ("number", "end"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)]
)
def test_the_first_ends_what_has_not_begun_to_train(number, end):
    with pytest.raises(end) as found, ended_by_signals():
        signal.raise_signal(number)
    if number == signal.SIGTERM:
        assert found.value.code == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("strikes", [1, 2])
def test_the_first_ends_the_process_inside_a_call_too(number, strikes):
    """In an orderly way within seconds, if there is one; a second at once."""
    program = DEAF.replace("stop_requested() as stop", "ended_by_signals()").replace(
        "stop_requested", "ended_by_signals"
    )
    orderly = {1: 2.0, 2: 60.0}[strikes]
    setting = f"import t2t_repro.training.signals as p; p._ORDERLY_SECONDS = {orderly}\n"
    program = program.replace("with", f"{setting}with", 1)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.3)
        began = time.monotonic()
        for _ in range(strikes):
            process.send_signal(number)
            time.sleep(0.2)
        assert process.wait(10) == 128 + number
        assert strikes == 2 or time.monotonic() - began > 1.5


def test_signals_that_another_would_take_are_kept():
    """As TensorFlow's C++ takes SIGTERM, behind Python's back."""
    code = """
import ctypes, os, signal
from t2t_repro.training.signals import ended_by_signals, signals_kept

@ctypes.CFUNCTYPE(None, ctypes.c_int)
def take(number):
    print("taken", flush=True)

with ended_by_signals():
    with signals_kept():
        ctypes.CDLL(None).signal(signal.SIGTERM, take)
        os.kill(os.getpid(), signal.SIGTERM)
        print("built", flush=True)
    print("not ended")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, "built\n"), done.stderr
