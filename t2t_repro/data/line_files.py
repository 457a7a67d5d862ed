"""Text files with a sentence a line, plain or compressed: read, counted, identified."""

import bz2
import gzip
import hashlib
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from t2t_repro.errors import UserError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

COMPRESSED: Mapping[str, Callable] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
"""The functions that open compressed files, by the ends of the names."""

# Kinds of files that are not plain text, by regular expressions of their first bytes: the ending in
# `COMPRESSED`, or, for an error message, the format and the command that converts it.
_KINDS = {
    rb"\x1f\x8b": ".gz",
    rb"\xfd7zXZ\0": ".xz",
    rb"BZh[1-9](1AY&SY|\x17rE8P\x90)": ".bz2",
    rb"PK(\x03\x04|\x05\x06)": "a zip archive or a document: unzip -p FILE > TEXT",
    rb"\x28\xb5\x2f\xfd": "compressed by zstd: zstd -d FILE",
    rb"(?s).{257}ustar": "a tar archive: tar -xf FILE",
    rb"PAR1[\x15\x19\x1c\x2c]": "a Parquet table: write its texts, one a line, with pandas",
    rb"(?s)(..)?\0\0": "UTF-32: iconv -f UTF-32 -t UTF-8 FILE > TEXT",
    rb"\xff\xfe|\xfe\xff|\0?([^\0]\0){3}": "UTF-16: iconv -f UTF-16 -t UTF-8 FILE > TEXT",
}


def read_lines(path: Path | None, name: str | None = None) -> Iterator[str]:
    r"""Yields the lines of a UTF-8 file.

    They have no "\n" or "\r\n" at the end, and no BOM. Lines of a pipe are yielded as soon as they
    can be read.

    Args:
        path: a file, plain or compressed by gzip, xz or bzip2; None for standard input.
        name: the file's name in errors; by default its path, so standard input needs one.

    Raises:
        UserError: the file is missing, damaged, of another kind, not UTF-8, or has CR as line ends.
    """
    name = name or str(path)
    # In binary only "\n" ends a line. Text mode would also end lines at a lone "\r", and
    # str.splitlines at U+2028 and others; aligned files would no longer match.
    with opened(path, name) as file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                # A file that has CR for line ends is a single line.
                line = line.removeprefix(_BYTE_ORDER_MARK)
                if not line.endswith(b"\n") and b"\r" in line[:-1]:
                    problem = f"{name} ends its lines with CR alone, as old Macs did, expected LF"
                    raise UserError(f"{problem}: convert it (tr '\\r' '\\n' < OLD > NEW).")
            try:
                yield line.removesuffix(b"\n").removesuffix(b"\r").decode()
            except UnicodeDecodeError as error:
                byte = f"byte 0x{line[error.start]:02x} at position {error.start}"
                problem = f"{name}, line {number}: {byte} is not valid UTF-8"
                raise UserError(f"{problem}; convert it (iconv).") from error


@contextmanager
def opened(path: Path | None, name: str, is_xml: bool = False) -> Iterator[Any]:
    """Opens a file for reading bytes, decompressed.

    Args:
        path: None for standard input.
        name: the file's name in errors.
        is_xml: allows UTF-16, which XML declares.

    Yields:
        a binary file with `peek`.

    Raises:
        UserError: the file is missing, damaged, or of a kind that is not text.
    """
    # Around the `yield` too: a damaged file raises only where it is read.
    try:
        with ExitStack() as stack:
            file: Any = stack.enter_context(path.open("rb")) if path else sys.stdin.buffer
            # A loop, since a file may be compressed twice.
            while (kind := _kind(file)) in COMPRESSED:
                file = stack.enter_context(COMPRESSED[kind](file))
            if kind and not (is_xml and kind.startswith("UTF-16")):
                endings = ", ".join(COMPRESSED)
                raise UserError(f"{name} is {kind}; expected UTF-8 text, plain or in {endings}.")
            yield file
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        # Errors of the operating system have a reason; those of decompression have none.
        if reason := getattr(error, "strerror", None):
            problem = f"cannot read {name} ({reason}), expected a text file"
            raise UserError(f"{problem}: check the name, relative to {Path.cwd()}") from error
        problem = f"{name} is not a whole compressed file ({error})"
        raise UserError(f"{problem}; fetch it again") from error


def _kind(file: Any) -> str:
    """Returns the kind in `_KINDS` that a file's first bytes match; "" if it may be plain text."""
    # Read without being consumed: a pipe cannot go back.
    start = file.peek(512)
    return next((kind for pattern, kind in _KINDS.items() if re.match(pattern, start)), "")


def check_line_counts(counts: Mapping[str, int]) -> None:
    """Checks that parallel texts have the same number of lines.

    Args:
        counts: the number of lines of each text, by its name.

    Raises:
        UserError: the numbers differ.
    """
    if len({*counts.values()}) > 1:
        received = ", ".join(f"{name} has {count} lines" for name, count in counts.items())
        raise UserError(f"{received}; expected the same number: line n belongs to line n.")


def identify(path: Path) -> dict[str, Any]:
    """Returns what a file is known by: its name without the folder, its size and its SHA-256.

    For example {"name": "train.de", "bytes": 1234, "sha256": "5e1f0a..."}.

    Raises:
        UserError: the file is missing.
    """
    if not path.is_file():
        raise UserError(f"cannot read {path}: there is no such file, expected a text file.")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": digest}
