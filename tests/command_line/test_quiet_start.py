"""TensorFlow's start-up notes stay unsaid; everything else on standard error gets through."""

import os
import subprocess
import sys

import pytest

from tests.processes import CHECKOUT, interruptible

NOTES = b"""\
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
I0000 00:00:1795326889.543729    9529 port.cc:153] oneDNN custom operations are on. You may see ...
I0000 00:00:1795326889.544014    9529 cudart_stub.cc:31] Could not find cuda drivers on your \
machine, GPU will not be used.
I0000 00:00:1795326889.580527    9529 cpu_feature_guard.cc:227] This TensorFlow binary is \
optimized to use available CPU instructions in performance-critical operations.
To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow with the \
appropriate compiler flags.
E0000 00:00:1795326891.170723    9529 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA \
error: Failed call to cuInit: UNKNOWN ERROR (303)
"""
SAID = b"""\
E0000 00:00:1795326891.170723    9529 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA \
error: Failed call to cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: system has unsupported driver
I0000 00:00:1795326889.543729    9529 port.cc:154] something else
 WARNING: All log messages before absl::InitializeLog() is called are written to STDERR, and more
caf\xe9, an empty line:

an end without one"""
# Said in the middle of lines, as other libraries and threads do.
TENSORFLOW = f"""
import os, types
for part in ({NOTES!r}, {SAID!r}):
    for first in range(0, len(part), 37):
        os.write(2, part[first : first + 37])
{{end}}
config = types.SimpleNamespace(list_physical_devices=lambda: os.write(2, b"\\nlast\\n"))
"""


def err_of(folder, end, level=None):
    """Standard error and status of a process that imports a TensorFlow which ends so."""
    (folder / "tensorflow.py").write_text(TENSORFLOW.format(end=end))
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{CHECKOUT}"}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    if level:
        environment["TF_CPP_MIN_LOG_LEVEL"] = level
    code = (
        "import os; from t2t_repro.command_line.quiet_start import import_tensorflow; "
        "import_tensorflow(); "
        "os.write(2, b'afterwards\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, timeout=60
    )
    return done.stderr, done.returncode


@pytest.mark.parametrize("level", [None, "2", "3"])
def test_notes_alone_are_left_out(tmp_path, level):
    assert err_of(tmp_path, "", level) == (SAID + b"\nlast\nafterwards\n", 0)


@pytest.mark.parametrize("level", ["0", "1"])
def test_who_asks_for_notes_gets_them(tmp_path, level):
    assert err_of(tmp_path, "", level) == (NOTES + SAID + b"\nlast\nafterwards\n", 0)


def test_what_is_said_before_an_exception_and_before_a_crash_gets_through(tmp_path):
    err, status = err_of(tmp_path, "raise ImportError('libcudnn is missing')")
    assert status == 1
    assert err.startswith(SAID + b"Traceback")
    assert err.endswith(b"ImportError: libcudnn is missing\n")
    err, status = err_of(tmp_path, "os.abort()")
    assert (err, status) == (SAID, -6)


def test_ctrl_c_while_it_is_imported_is_one_line(tmp_path):
    (tmp_path / "tensorflow.py").write_text(
        "import os, signal, time\nos.killpg(0, signal.SIGINT)\ntime.sleep(60)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "t2t_repro.average", "--model_dir=model"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{CHECKOUT}"},
        capture_output=True,
        timeout=50,
        start_new_session=True,
        preexec_fn=interruptible,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"interrupted\n")
