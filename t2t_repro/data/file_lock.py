"""One process at a time, whichever machine it runs on."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from absl import logging
from filelock import FileLock, Timeout


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
    try:
        yield
    finally:
        # While it is held: whoever waits for it notices. Windows deletes it at the release.
        with suppress(OSError):
            path.unlink()
        lock.release()
