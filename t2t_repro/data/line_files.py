"""Files of text, a line a sentence: read, counted and identified, plain or gzip-compressed."""

import functools
import gzip
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from t2t_repro.errors import UserError

_CHUNK_BYTES = 1 << 20
# The longest line: a small compressed file may hold an endless one.
_MAX_LINE_BYTES = 1 << 24
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(path: Path) -> Iterator[str]:
    r"""Yields the lines of a plain or `.gz` UTF-8 file, without "\n" or "\r\n" and without a BOM.

    Raises:
        UserError: the file is missing, is a damaged gzip file, or a line is not UTF-8.
    """
    with _open(path) as file:
        yield from decoded_lines(file, str(path))


def decoded_lines(file: BufferedIOBase, name: str) -> Iterator[str]:
    """Yields the lines of an open file, as `read_lines` does, as soon as they are there.

    Args:
        file: plain bytes, or one that decompresses.
        name: of the file, for errors.

    Raises:
        UserError: it is a damaged gzip file, or a line is not UTF-8.
    """
    number = 1
    for chunk in _whole_lines(name, _chunks(file, name)):
        if number == 1:
            chunk = chunk.removeprefix(_BYTE_ORDER_MARK)
        # At "\n" only; text mode and str.splitlines would also end lines at a lone "\r", U+2028 and
        # others, and so put aligned files out of step.
        lines = _decode(name, number, chunk).removesuffix("\n").split("\n")
        number += len(lines)
        yield from (line.removesuffix("\r") for line in lines)


def _whole_lines(name: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Cuts a file's bytes behind newlines, not far from where they are cut already."""
    rest: list[bytes] = []
    for chunk in chunks:
        end = chunk.rfind(b"\n") + 1
        if end:
            yield b"".join([*rest, chunk[:end]])
            rest = []
        if end < len(chunk):
            rest.append(chunk[end:])
        if sum(map(len, rest)) > _MAX_LINE_BYTES:
            raise UserError(
                f"{name} has a line of more than {_MAX_LINE_BYTES:,} bytes, expected one sentence "
                "a line: is it a text file?"
            )
    if rest:
        yield b"".join(rest)


def _decode(name: str, number: int, chunk: bytes) -> str:
    """Decodes whole lines, of which the first has that number."""
    try:
        return chunk.decode("utf-8")
    except UnicodeDecodeError as error:
        before = chunk[: error.start].split(b"\n")
        raise UserError(
            f"{name}, line {number + len(before) - 1}: byte 0x{chunk[error.start]:02x} at position "
            f"{len(before[-1])} is not valid UTF-8; convert the file to UTF-8 (e.g. with iconv)"
        ) from error


def check_line_counts(paths: Sequence[Path]) -> int:
    """Returns the number of lines that one file, or each of several aligned files, has.

    Raises:
        UserError: a file is missing or empty, or their numbers of lines differ.
    """
    counts = [_count_lines(path) for path in paths]
    for path, count in zip(paths, counts, strict=True):
        if count == 0:
            raise UserError(f"{path} is empty; expected one sentence a line")
    if len(set(counts)) > 1:
        received = ", ".join(
            f"{path} has {count} lines" for path, count in zip(paths, counts, strict=True)
        )
        raise UserError(
            f"{received}: line {min(counts) + 1} has no partner; aligned files need the same "
            "number of lines, line n of one translating line n of the other"
        )
    return counts[0]


def _open(path: Path) -> BufferedIOBase:
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            # It might never end, and is read twice.
            raise UserError(f"{path} is a device or a pipe, expected a file: copy it to one.")
        return gzip.open(path) if path.suffix == ".gz" else path.open("rb")
    except OSError as error:
        raise UserError(
            f"cannot read {path} ({error.strerror}); expected a text file: check the name, which "
            f"is relative to {Path.cwd()}"
        ) from error


def _chunks(file: BufferedIOBase, name: str) -> Iterator[bytes]:
    """Reads a file's bytes, turning what a damaged gzip file raises into a `UserError`."""
    try:
        # What a pipe has, without waiting for more.
        yield from iter(lambda: file.read1(_CHUNK_BYTES), b"")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(
            f"{name} is not a whole gzip file ({error}); fetch it again, or drop '.gz' from its "
            "name if it is plain text"
        ) from error


def _count_lines(path: Path) -> int:
    """Counts lines without decoding; a last line without a newline counts."""
    newlines, last = 0, b"\n"
    with _open(path) as file:
        for chunk in _chunks(file, str(path)):
            newlines += chunk.count(b"\n")
            last = chunk[-1:]
    return newlines + (last != b"\n")


def identify(path: Path) -> dict[str, Any]:
    """Returns name, size and SHA-256 of a file: its content, wherever it lies.

    Raises:
        UserError: the file cannot be read.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise UserError(f"cannot read {path} ({error.strerror}); expected a text file") from error
    digest = _sha256(path, status.st_size, status.st_mtime_ns)
    return {"name": path.name, "bytes": status.st_size, "sha256": digest}


@functools.cache
def _sha256(path: Path, size: int, modified_ns: int) -> str:
    """Hashes a file; size and time of change are arguments so that the cache notices an edit."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
