"""Whole files and directories, a lock between processes, bounded reading, JSON."""

import errno
import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from t2t_repro.errors import STORAGE_ERRORS, UserError, reason_of

_MOST_JSON = 2**24  # Our files have kilobytes; parsing takes up to 100 times a file's size.


def sync(*paths: Path) -> None:
    """Flushes files to the disk (fsync); of a directory, the names in it.

    Raises:
        OSError: the disk is full, or fails.
    """
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            # Some file systems cannot sync directories.
            if error.errno != errno.EINVAL or not path.is_dir():
                raise
        finally:
            os.close(descriptor)


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file, whole or not at all, and makes its directory.

    Args:
        path: the file; only one process may write it at a time. An old one is replaced.
        content: its bytes.

    Raises:
        OSError: the file cannot be written.
    """
    _make_directory_of(path)
    with whole_file(path) as temporary:
        temporary.write_bytes(content)


def _make_directory_of(path: Path) -> None:
    """Makes the directory of a file, and its parents, where they are missing."""
    # It may be a link to a missing directory, where Path.mkdir would fail.
    os.makedirs(os.path.realpath(path.parent), exist_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file as `write_whole` does."""
    write_whole(path, (json.dumps(value, indent=2) + "\n").encode())


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Adds a path to errors of the disk within the context: libraries often leave it out.

    All other errors pass unchanged, as do a UserError and an error that has a path already.

    Raises:
        OSError: the disk is full, read-only or fails; the error names `path`.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, UserError) or getattr(error, "filename", None):
            raise
        # TensorFlow's errors have no `errno`, but the system's reason in their text.
        for code in STORAGE_ERRORS:
            if (reason := os.strerror(code)) in str(error):
                raise OSError(code, reason, str(path)) from error
        raise


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yields a temporary path for the caller to write, and renames it to `path` at the end.

    Args:
        path: the file, in an existing directory; only one process may write it at a time. An old
            one is replaced, except after an error.

    Raises:
        OSError: the file cannot be written.
    """
    temporary = _temporary_path(path)
    try:
        with naming(path):
            yield temporary
            # Otherwise a power cut could leave an empty file under the new name.
            sync(temporary)
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """Yields a temporary, empty directory, which is renamed to `path` at the end.

    Nothing but new parents remains after an error; leftovers of a killed process are deleted.

    Args:
        path: a directory that is missing or empty; only one process may make it at a time.

    Raises:
        OSError: the directory cannot be written, or `path` is not empty.
    """
    # A link stays; the directory that it points to is made.
    path = Path(os.path.realpath(path))
    temporary = _temporary_path(path)
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with naming(path):
            temporary.mkdir(parents=True)
            yield temporary
            temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _temporary_path(path: Path) -> Path:
    """Returns a hidden name beside a file or directory: ".a.partial.txt" for "a.txt"."""
    # Some writers choose the format by the suffix.
    return path.with_name(f".{path.stem}.partial{path.suffix}")


@contextmanager
def lock(path: Path, seconds: float = -1) -> Iterator[None]:
    """Waits until no other process holds the lock, then holds it.

    Args:
        path: the lock's file, which names the holder. A killed process frees the lock.
        seconds: the longest wait; -1 for no limit.

    Raises:
        TimeoutError: another process held the lock all the time.
    """
    from filelock import FileLock  # Takes a tenth of a second to import.

    _make_directory_of(path)
    # Other users of a shared directory need to write it when they hold the lock next.
    with FileLock(path, seconds, mode=0o666):
        path.write_text(f"process {os.getpid()} on {socket.gethostname()}")
        try:
            yield
        finally:
            # Deleted while the lock is held: waiting processes notice it and lock a new file.
            path.unlink(missing_ok=True)


@contextmanager
def exclusive_lock(path: Path, what: str, fix: str) -> Iterator[None]:
    """Holds a lock, or raises at once if another process holds it.

    Args:
        path: the lock's file; see `lock`.
        what: the locked object, e.g. "--output=a.txt"; the error message begins with it.
        fix: an alternative to waiting, e.g. "give another --output"; the message ends with it.

    Raises:
        UserError: another process holds the lock; the message names it.
    """
    # The `try` must not contain the `yield`: a TimeoutError of the caller's block is another error.
    with ExitStack() as stack:
        try:
            stack.enter_context(lock(path, 0))
        except TimeoutError as error:
            holder = "another process"
            with suppress(OSError):  # The lock has just been freed, and its file deleted.
                holder = path.read_text() or holder
            raise UserError(f"{what} is in use by {holder}: wait for its end, or {fix}.") from error
        yield


def read_at_most(path: Path, most: int) -> bytes:
    """Reads a file of at most `most` bytes.

    The size that the file system reports is not trusted.

    Raises:
        OSError: the file cannot be read.
        ValueError: the path is not a file (e.g. a pipe), or the file has more bytes.
    """
    if not path.is_file():
        raise ValueError("no such file")
    with path.open("rb") as file:
        content = file.read(most + 1)  # One more, which only a larger file has.
    if len(content) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return content


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON file that holds one object, in bounded memory.

    Raises:
        OSError: the file cannot be read.
        UserError: the path is not a file, or its content is not text, not a JSON object, nested
            too deeply, or above 16 MiB.
    """
    try:
        value = json.loads(read_at_most(path, _MOST_JSON))
        if not isinstance(value, dict):
            raise ValueError("expected a JSON object")
    except (RecursionError, ValueError) as error:
        raise UserError(f"{path} cannot be used ({reason_of(error)}): copy it again.") from error
    return value
