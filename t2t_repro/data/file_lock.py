"""One process at a time, whichever machine it runs on."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from absl import logging
from filelock import FileLock, Timeout

from t2t_repro.errors import UserError


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Waits until no other process holds the lock, then holds it; a killed holder frees it.

    Args:
        path: of the lock, a file that is there only while it is held.
    """
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        logging.info("data: waiting for another process that prepares %s", path.parent)
        lock.acquire()
    with _released(lock, path):
        yield


@contextmanager
def held_alone(path: Path, what: str, mend: str) -> Iterator[None]:
    """Holds a lock that nobody waits for; a killed holder frees it.

    Args:
        path: of the lock, as in `locked`; while it is held it says by whom. Its folder is made
            where it is missing, and goes again if nothing else has come into it.
        what: nobody else may use meanwhile, for the error.
        mend: what can be done but wait, for the error.

    Raises:
        UserError: another process holds it; it is named.
    """
    is_new = not path.parent.exists()
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise UserError(
            f"{what} is in use by {_holder(path)}: wait for its end, or {mend}."
        ) from error
    try:
        with _released(lock, path):
            since = time.strftime("%Y-%m-%d %H:%M:%S")
            path.write_text(f"process {os.getpid()} on {socket.gethostname()} since {since}")
            yield
    finally:
        if is_new:
            with suppress(OSError):
                path.parent.rmdir()


def _holder(path: Path) -> str:
    # It may have freed the lock meanwhile, or not have written yet.
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text() or "another process"
    return "another process"


@contextmanager
def _released(lock: FileLock, path: Path) -> Iterator[None]:
    try:
        yield
    finally:
        # While it is held: whoever waits for it notices. Windows deletes it at the release.
        with suppress(OSError):
            path.unlink()
        lock.release()
