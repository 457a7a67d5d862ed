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
"""The first bytes of compressed files, and of files that are not read: what to do with them."""


def read_lines(path: Path | None, name: str | None = None) -> Iterator[str]:
    r"""Yields the lines of a UTF-8 file.

    They have no "\n" or "\r\n" at the end, and no BOM. Lines of a pipe are yielded as soon as they
    can be read.

    Args:
        path: of the file, plain or compressed by gzip, xz or bzip2; None for standard input.
        name: of the file, for errors; its path by default.

    Raises:
        UserError: the file is missing, of another kind, damaged, or a line is not UTF-8.
    """
    name = name or str(path)
    # In binary only "\n" ends a line. Text mode would also end lines at a lone "\r", and
    # str.splitlines at U+2028 and others; aligned files would no longer match.
    with opened(path, name) as file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                line = line.removeprefix(_BYTE_ORDER_MARK)
                if not line.endswith(b"\n") and b"\r" in line[:-1]:
                    problem = f"{name} ends its lines with CR alone, as old Macs did, expected LF"
                    raise UserError(f"{problem}: convert it (tr '\\r' '\\n' < OLD > NEW).")
            try:
                yield line.removesuffix(b"\n").removesuffix(b"\r").decode()
            except UnicodeDecodeError as error:
                bad = f"byte 0x{line[error.start]:02x} at position {error.start} is not valid UTF-8"
                raise UserError(f"{name}, line {number}: {bad}; convert it (iconv).") from error


@contextmanager
def opened(path: Path | None, name: str, is_xml: bool = False) -> Iterator[Any]:
    """Opens a file, or standard input, as plain bytes.

    The file may be in UTF-16 if `is_xml`.

    Raises:
        UserError: the file is missing, damaged, or of a kind that is not text.
    """
    try:
        with ExitStack() as stack:
            file: Any = stack.enter_context(path.open("rb")) if path else sys.stdin.buffer
            while (kind := _kind(file)) in COMPRESSED:
                file = stack.enter_context(COMPRESSED[kind](file))
            if kind and not (is_xml and kind.startswith("UTF-16")):
                known = ", ".join(COMPRESSED)
                raise UserError(f"{name} is {kind}; expected UTF-8 text, plain or in {known}.")
            yield file
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        message = f"{name} is not a whole compressed file ({error}); fetch it again"
        if reason := getattr(error, "strerror", None):
            advice = f"check the name, which is relative to {Path.cwd()}"
            message = f"cannot read {name} ({reason}), expected a text file: {advice}"
        raise UserError(message) from error


def _kind(file: Any) -> str:
    """Returns the kind of a file by its first bytes, or ""."""
    start = file.peek(512)
    return next((kind for pattern, kind in _KINDS.items() if re.match(pattern, start)), "")


def check_line_counts(counts: Mapping[str, int]) -> None:
    """Checks that parallel texts have as many lines.

    Args:
        counts: the number of lines of each text, by its name.

    Raises:
        UserError: the numbers differ.
    """
    if len({*counts.values()}) > 1:
        received = ", ".join(f"{name} has {count} lines" for name, count in counts.items())
        raise UserError(f"{received}; expected the same number: line n belongs to line n.")


def identify(path: Path) -> dict[str, Any]:
    """Returns name, size and SHA-256 of a file.

    The folder does not matter.

    Raises:
        UserError: the file is missing.
    """
    if not path.is_file():
        raise UserError(f"cannot read {path}: there is no such file, expected a text file.")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": digest}
