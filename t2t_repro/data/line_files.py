"""Text files with a sentence a line, plain or gzip-compressed: read, counted and identified."""

import gzip
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from t2t_repro.errors import UserError

_CHUNK_BYTES = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(path: Path, name: str | None = None) -> Iterator[str]:
    r"""Yields the lines of a plain or `.gz` UTF-8 file, without "\n" or "\r\n" and without a BOM.

    Args:
        path: of the file.
        name: of the file, for errors; its path by default.

    Raises:
        UserError: the file is missing, is a damaged gzip file, or a line is not UTF-8.
    """
    name = name or str(path)
    with _open(path, name) as file:
        yield from decoded_lines(file, name)


def decoded_lines(file: Iterable[bytes], name: str) -> Iterator[str]:
    """Yields the lines of an open file, as `read_lines` does, as soon as they can be read.

    Args:
        file: plain bytes, or a file that decompresses.
        name: of the file, for errors.

    Raises:
        UserError: it is a damaged gzip file, or a line is not UTF-8.
    """
    # In binary only "\n" ends a line. Text mode would also end lines at a lone "\r", and
    # str.splitlines at U+2028 and others; aligned files would no longer match.
    with _gzip_errors(name):
        for number, line in enumerate(file, start=1):
            if number == 1:
                line = line.removeprefix(_BYTE_ORDER_MARK)
            try:
                yield line.removesuffix(b"\n").removesuffix(b"\r").decode()
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{name}, line {number}: byte 0x{line[error.start]:02x} at position "
                    f"{error.start} is not valid UTF-8; convert the file to UTF-8 (e.g. with iconv)"
                ) from error


def check_line_counts(paths: Sequence[Path]) -> int:
    """Returns the number of lines of one file, or of each of several aligned files.

    Raises:
        UserError: a file is missing or empty, or their numbers of lines differ.
    """
    counts = [_count_lines(path) for path in paths]
    if 0 in counts:
        raise UserError(f"{paths[counts.index(0)]} is empty; expected one sentence a line")
    if len(set(counts)) > 1:
        received = ", ".join(
            f"{path} has {count} lines" for path, count in zip(paths, counts, strict=True)
        )
        raise UserError(
            f"{received}: line {min(counts) + 1} has no partner; aligned files need the same "
            "number of lines, line n of one translating line n of the other"
        )
    return counts[0]


def _count_lines(path: Path) -> int:
    """Counts lines without decoding; a last line without a newline counts."""
    newlines, last = 0, b"\n"
    with _open(path, str(path)) as file, _gzip_errors(str(path)):
        while chunk := file.read(_CHUNK_BYTES):
            newlines += chunk.count(b"\n")
            last = chunk[-1:]
    return newlines + (last != b"\n")


def _open(path: Path, name: str) -> BufferedIOBase:
    try:
        return gzip.open(path) if path.suffix == ".gz" else path.open("rb")
    except OSError as error:
        raise UserError(
            f"cannot read {name} ({error.strerror}), expected a text file: check the name, which "
            f"is relative to {Path.cwd()}"
        ) from error


@contextmanager
def _gzip_errors(name: str) -> Iterator[None]:
    """Turns the errors of a damaged gzip file into a `UserError`."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(
            f"{name} is not a whole gzip file ({error}); fetch it again, or drop '.gz' from its "
            "name if it is plain text"
        ) from error


def identify(path: Path) -> dict[str, Any]:
    """Returns name, size and SHA-256 of a file: its content, in any folder.

    Raises:
        UserError: the file cannot be read.
    """
    if not path.is_file():
        raise UserError(f"cannot read {path}: there is no such file, expected a text file.")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": digest}
