"""Processes of their own, for what cannot be done in the one that runs the tests."""

import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]


def interruptible() -> None:
    """Has a child process (`preexec_fn`) heed signals that this one may have been told to ignore.

    Jobs in the background ignore Ctrl-C, and those under nohup the end of their terminal.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def output_of(*arguments: str, folder: Path = CHECKOUT) -> str:
    """What `python <arguments>`, in a folder, writes to standard output; it has to end well.

    It begins without TensorFlow: a process that has computed with it cannot fork.
    """
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def assert_only_our_lines(err: str) -> None:
    """Sees that standard error holds nothing but lines of our own log, and errors."""
    log = re.compile(r"[IWE]\d{4} [\d:.]+ \d+ (\w+\.py):\d+\] .+")
    ours = {path.name for path in (CHECKOUT / "t2t_repro").rglob("*.py")}
    for line in err.splitlines():
        found = log.fullmatch(line)
        assert (found and found[1] in ours) or line.startswith("error: "), line


def in_child(function: Callable[[], None], deadline: float | None = None) -> int:
    """Runs a function in a child; its exit status, or minus the signal that ended it.

    Args:
        function: it may end by SystemExit.
        deadline: on the monotonic clock; then the child is killed (SIGKILL).
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    child = os.fork()
    if not child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        status = 1
        try:
            function()
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(bool(end.code))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    while deadline is not None and (left := deadline - time.monotonic()) > 0:
        pid, ended = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(ended)
        # A signal of an earlier child may still be pending: so look again. macOS lacks this.
        if hasattr(signal, "sigtimedwait"):
            signal.sigtimedwait([signal.SIGCHLD], left)
        else:
            time.sleep(min(left, 0.01))
    if deadline is not None:
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
