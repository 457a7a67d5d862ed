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

from t2t_repro.errors import STORAGE_ERRORS, UserError

_MOST_JSON = 2**24  # Our files have kilobytes; parsing takes up to 100 times a file's size.


def sync(*paths: Path) -> None:
    """Waits until files, or the names in directories, are on the disk.

    Raises:
        OSError: the disk is full, or fails.
    """
    for path in paths:
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        except OSError as error:
            # Some file systems cannot sync directories.
            if error.errno != errno.EINVAL or not path.is_dir():
                raise
        finally:
            os.close(number)


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file, whole or not at all, and makes its directory.

    Args:
        path: of the file; only one process writes it at a time. An old one is replaced.
        content: of the file.

    Raises:
        OSError: the file cannot be written.
    """
    _make_directory_of(path)
    with whole_file(path) as aside:
        aside.write_bytes(content)


def _make_directory_of(path: Path) -> None:
    # A link may name a directory that is missing; Path.mkdir would fail.
    os.makedirs(os.path.realpath(path.parent), exist_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file as `write_whole` does."""
    write_whole(path, (json.dumps(value, indent=2) + "\n").encode())


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Names the path in errors of the disk.

    Libraries leave it out, or name another one.

    Args:
        path: of the file or directory.

    Raises:
        OSError: the disk is full, read-only or fails.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, UserError) or getattr(error, "filename", None):
            raise
        for number in STORAGE_ERRORS:
            if (reason := os.strerror(number)) in str(error):
                raise OSError(number, reason, str(path)) from error
        raise


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yields a temporary path, which is renamed to `path` at the end.

    Args:
        path: of the file; only one process writes it at a time. An old one is replaced, except
            after an error.

    Raises:
        OSError: the file cannot be written.
    """
    aside = _aside(path)
    try:
        with naming(path):
            yield aside
            # Otherwise a power cut could leave an empty file under the new name.
            sync(aside)
            os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """Yields a temporary, empty directory, which is renamed at the end.

    Its name is then `path`. Nothing remains after an error; leftovers of a killed process are
    deleted.

    Args:
        path: of a directory that is missing or empty; only one process makes it at a time.

    Raises:
        OSError: the directory cannot be written, or `path` is not empty.
    """
    # A link's directory is that which it names.
    path = Path(os.path.realpath(path))
    aside = _aside(path)
    shutil.rmtree(aside, ignore_errors=True)
    try:
        with naming(path):
            aside.mkdir(parents=True)
            yield aside
            aside.rename(path)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _aside(path: Path) -> Path:
    # It keeps the suffix, from which some writers conclude the format.
    return path.with_name(f".{path.stem}.partial{path.suffix}")


@contextmanager
def lock(path: Path, seconds: float = -1) -> Iterator[None]:
    """Waits until no other process holds the lock, then holds it.

    Args:
        path: of the lock, a file that exists while it is held. A killed process frees the lock.
        seconds: the longest wait; -1 for as long as it takes.

    Raises:
        TimeoutError: another process holds the lock.
    """
    from filelock import FileLock  # Takes a tenth of a second to import.

    _make_directory_of(path)
    # Other users of a shared directory may lock it too, after its holder has ended.
    with FileLock(path, seconds, mode=0o666):
        path.write_text(f"process {os.getpid()} on {socket.gethostname()}")
        try:
            yield
        finally:
            # While the lock is held: those that wait notice that the file was deleted.
            path.unlink(missing_ok=True)


@contextmanager
def exclusive_lock(path: Path, what: str, fix: str) -> Iterator[None]:
    """Holds a lock, or raises at once if another process holds it.

    Args:
        path: of the lock's file; see `lock`.
        what: names the locked object, at the beginning of the error message.
        fix: an alternative to waiting, at the end of the message.

    Raises:
        UserError: another process holds the lock; the message names it.
    """
    # The `try` must not contain the `yield`: a TimeoutError of the caller's block is another error.
    with ExitStack() as stack:
        try:
            stack.enter_context(lock(path, 0))
        except TimeoutError as error:
            holder = "another process"
            with suppress(OSError):  # The lock has just been freed.
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
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return content


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON file that holds one object, in bounded memory.

    Raises:
        OSError: the file cannot be read.
        ValueError: the path is not a file, or its content is not UTF-8, not a JSON object, nested
            too deeply, or above 16 MiB.
    """
    try:
        value = json.loads(read_at_most(path, _MOST_JSON))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("expected a JSON object")
    return value
