"""TensorFlow's import without the notes that it prints at every start, whatever went well.

It prints some of them before any setting of the log is read, so no setting silences them.
"""

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# 2: errors alone, of what TensorFlow's own libraries say once they read the setting.
_LEVEL = "TF_CPP_MIN_LOG_LEVEL"

# What the machine has or has not, which the run's own log says where it matters. Of an error of
# CUDA only that there is no driver (303) or no GPU.
_NOTES = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR"
    rb"|[IWE]\d{4} [\d:.]+ +\d+ (?:"
    rb"port\.cc:\d+\] oneDNN custom operations are on\. .*"
    rb"|cudart_stub\.cc:\d+\] Could not find cuda drivers on your machine, GPU will not be used\."
    rb"|cpu_feature_guard\.cc:\d+\] This TensorFlow binary is optimized to use available .*"
    rb"|cuda_platform\.cc:\d+\] failed call to cuInit: .*(?:\(303\)|CUDA_ERROR_NO_DEVICE.*)"
    rb"|cuda_\w+\.cc:\d+\] Unable to register cu\w+ factory: .* has already been registered"
    rb"|util\.cc:\d+\] oneDNN supports DT_INT64 only on platforms with AVX-512\. Falling back .*"
    rb"|computation_placer\.cc:\d+\] computation placer already registered\. .*"
    rb")\s*"
    rb"|To enable the following instructions: .*, rebuild TensorFlow with the appropriate .*\s*"
)


def import_tensorflow() -> None:
    """Imports TensorFlow and has it look for devices; its start-up notes stay unsaid.

    The user's TF_CPP_MIN_LOG_LEVEL at 0 or 1 asks for all of them.
    """
    if "tensorflow" in sys.modules:
        return
    os.environ.setdefault(_LEVEL, "2")
    with without_notes():
        import tensorflow as tf

        # It asks the driver for GPUs at first use, with a note where there is none.
        tf.config.list_physical_devices()


@contextmanager
def without_notes() -> Iterator[None]:
    """Passes on what is written to standard error within it, but for TensorFlow's notes.

    Every other line gets through, in its order, also where an exception or a crash ends it: the
    lines are read by a process of its own, which outlives this one.
    """
    # Windows cannot fork; and there may be no standard error.
    can_filter = sys.stderr is not None and hasattr(os, "fork")
    if not can_filter or os.environ.get(_LEVEL) in ("0", "1"):
        yield
        return
    sys.stderr.flush()
    stderr = os.dup(2)
    reader, writer = os.pipe()
    # Ctrl-C is for this process, not for the one that passes its lines on, the last ones too.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    filtering = os.fork()
    if not filtering:
        try:
            os.close(writer)
            _pass_on(reader, stderr)
        finally:
            os._exit(0)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(reader)
    os.dup2(writer, 2)
    os.close(writer)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(stderr, 2)
        os.close(stderr)
        os.waitpid(filtering, 0)


def is_note(line: bytes) -> bool:
    """Whether a line of a process's log is one of the notes that TensorFlow makes at its start."""
    return _NOTES.fullmatch(line.rstrip(b"\n")) is not None


def _pass_on(reader: int, writer: int) -> None:
    """Copies lines, but for the notes, until nobody writes any more."""
    with open(reader, "rb") as lines, open(writer, "wb", buffering=0) as stderr:
        for line in lines:
            if not is_note(line):
                stderr.write(line)
