"""The first signal asks for an end, the second ends the process, even inside one long call."""

import os
import signal
import subprocess
import sys
import time

import pytest

from t2t_repro.training.signals import Interrupted, ended_by_signals, stop_requested

# A stop within one call of C code that holds back Python's handlers, as an update does.
BUSY = """
import hashlib
from t2t_repro.training.signals import stop_requested

with stop_requested() as stop:
    print("ready", flush=True)
    while not stop():
        pass
    print("noted", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", 2_000_000_000)
"""

BUSY_BEFORE = """
import hashlib
from absl import logging
from t2t_repro.training import signals

logging.set_verbosity("info")
signals._SECONDS = 1.0
with signals.stop_requested(lambda: print("saved", flush=True)):
    print("ready", flush=True)
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


def test_the_second_ends_the_process_inside_a_call():
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as process:
        assert process.stdout
        for line in (b"ready\n", b"noted\n"):
            assert process.stdout.readline() == line
            process.send_signal(signal.SIGTERM)
        assert process.wait(10) == -signal.SIGTERM


@pytest.mark.parametrize(("signals", "saved"), [(1, b"saved\n"), (2, b"")])
def test_a_signal_within_a_call_ends_it_in_time(signals, saved):
    """What must be done before is done, unless a second one comes."""
    command = [sys.executable, "-c", BUSY_BEFORE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stderr
        assert process.stderr.readline()
        for _ in range(signals - 1):
            process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=10)[0] == saved
        # By default, if the first came before the call.
        assert process.returncode in (143, -signal.SIGTERM)


@pytest.mark.parametrize(
    ("number", "end"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)]
)
def test_the_first_ends_a_program_that_does_not_train_yet(number, end):
    with pytest.raises(end) as error, ended_by_signals():
        signal.raise_signal(number)
    if number == signal.SIGTERM:
        assert error.value.code == 143
