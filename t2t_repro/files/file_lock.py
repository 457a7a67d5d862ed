"""One process at a time, whichever machine it runs on.

The kernel frees the lock of a process that is killed; of a machine that is lost, the file server
does, within minutes. On a file system without locks the file itself is the lock: its holder renews
it every two seconds, and one that has not been renewed for two minutes is nobody's.
"""

import errno
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from absl import logging
from filelock import FileLock, SoftFileLease, Timeout

from t2t_repro.errors import UserError

_LEASE_SECONDS = 120.0
_RENEWAL_SECONDS = 2.0
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Waits until no other process holds the lock, then holds it; a killed holder frees it.

    Args:
        path: of the lock, a file that is there only while it is held.
    """
    lock = _Lock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        logging.info("waiting for %s, which holds %s", lock.holder(), path)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def exclusive_lock(path: Path, what: str, mend: str) -> Iterator[Callable[[], None]]:
    """Holds a lock that nobody waits for; a killed holder frees it.

    Args:
        path: of the lock, as in `locked`; while it is held it says by whom. Its folder is made
            where it is missing, and goes again if nothing else has come into it.
        what: nobody else may use meanwhile, for the error.
        mend: what can be done but wait, for the error.

    Yields:
        a function to call before something is written: where somebody has deleted the file, with
        its folder perhaps, it takes the lock again.

    Raises:
        UserError: another process holds it; it is named. So does the function.
    """
    is_new = not path.parent.exists()
    lock = _Lock(path)

    def hold() -> None:
        if not lock.is_held():
            lock.release()
            try:
                lock.acquire_unless_alive()
            except Timeout as error:
                raise UserError(
                    f"{what} is in use by {lock.holder()}: wait for its end, or {mend}."
                ) from error

    hold()
    try:
        yield hold
    finally:
        lock.release()
        if is_new:
            with suppress(OSError):
                path.parent.rmdir()


class _Lock:
    """The kernel's lock of a file, or where there is none, a lease.

    Args:
        path: of the file; its folder is made where it is missing.

    Raises:
        UserError: there can be no such folder.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: os.stat_result | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise UserError(
                f"{path.parent} is below a file, or one itself; expected a directory: give another."
            ) from error
        # Other users of a shared folder can lock it too, when its holder is dead.
        self._kernel = FileLock(path, mode=0o666, on_acquired=self._sign)
        self._lease = SoftFileLease(
            path,
            mode=0o666,
            lease_duration=_LEASE_SECONDS,
            heartbeat_interval=_RENEWAL_SECONDS,
            poll_interval=_RENEWAL_SECONDS / 10,
        )
        self._lock = self._kernel if _has_locks(path.parent) else self._lease

    def acquire(self, timeout: float = -1) -> None:
        """Takes the lock.

        Raises:
            Timeout: another process holds it for so many seconds.
        """
        self._lock.acquire(timeout)

    def acquire_unless_alive(self) -> None:
        """Takes the lock, if nobody holds it.

        Raises:
            Timeout: another process holds it.
        """
        if self._lock is self._kernel:
            self._lock.acquire(timeout=0)
            return
        before = self._renewed()
        if before is not None:
            logging.info("looking whether %s renews %s", self.holder(), self._path)
        # One of this machine that is dead is known at once; then there is no file for a moment.
        self._lock.acquire(
            2 * _LEASE_SECONDS, cancel_check=lambda: self._renewed() not in (None, before)
        )

    def is_held(self) -> bool:
        """Whether this process holds it, and nobody has deleted the file."""
        if self._lock is self._lease:
            return self._lease.is_locked and self._lease.is_lock_held_by_us
        with suppress(OSError):
            return self._file is not None and os.path.samestat(self._file, self._path.stat())
        return False

    def holder(self) -> str:
        """Who holds it, as far as that is known."""
        if owner := self._lease.owner:
            return f"process {owner.pid} on {owner.hostname}"
        # It may have freed the lock meanwhile, or not have written yet.
        with suppress(OSError, UnicodeDecodeError):
            if holder := self._path.read_text():
                is_here = f" on {socket.gethostname()} since " in holder
                lost = f" (delete {self._path} if that machine is lost)"
                return holder if is_here else holder + lost
        return "another process"

    def release(self) -> None:
        """Frees it, and deletes the file."""
        # While it is held: whoever waits for it notices. Windows deletes it at the release.
        if self._lock is self._kernel and self.is_held():
            with suppress(OSError):
                self._path.unlink()
        self._file = None
        self._lock.release()

    def _sign(self, descriptor: int) -> None:
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        text = f"process {os.getpid()} on {socket.gethostname()} since {since}"
        os.write(descriptor, text.encode())
        self._file = os.fstat(descriptor)

    def _renewed(self) -> float | None:
        """When the holder has last renewed its lease."""
        with suppress(OSError):
            return self._path.stat().st_mtime
        return None


def _has_locks(folder: Path) -> bool:
    """Whether the file system of a folder has locks."""
    try:
        import fcntl
    except ImportError:  # Windows has others.
        return True
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return False
        error.filename = str(folder)
        raise
    return True
