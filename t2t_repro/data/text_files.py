"""The user's own parallel text: pairs of aligned files, or files of two tab-separated columns."""

import functools
import gzip
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import gin

from t2t_repro.data.corpora import Pair, check_split
from t2t_repro.errors import UserError

Entry = str | Sequence[str]
"""`"train.tsv"`: source and target in two columns; `("train.en", "train.de")`: aligned files."""

_CHUNK_BYTES = 1 << 20
# Of one line; a small compressed file may hold an endless one.
_MAX_LINE_BYTES = 1 << 24
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@gin.configurable
class TextFilesCorpus:
    """Parallel text in plain or gzip-compressed (`.gz`) UTF-8 files, one sentence a line.

    A split is one entry or a list of entries, which are read one after the other. In gin::

        TextFilesCorpus.train = [("a.en", "a.de"), ("b.en.gz", "b.de.gz"), "c.tsv"]
        TextFilesCorpus.dev = ("dev.en", "dev.de")

    A tuple of two names is a pair of aligned files; a name by itself is a file with two columns;
    in a list, `["a.en", "a.de"]` is a pair too. Names are relative to the working directory.
    Lines end at a newline and nowhere else (a carriage return before it is dropped): characters
    such as U+2028 are part of a sentence.

    Args:
        train: Entries to train on.
        dev: Entries for model selection.
        test: Entries to evaluate on, if there are any.

    Raises:
        UserError: A split's value is not of the form above.
    """

    splits: tuple[str, ...]

    def __init__(
        self,
        train: Entry | Sequence[Entry],
        dev: Entry | Sequence[Entry],
        test: Entry | Sequence[Entry] | None = None,
    ) -> None:
        given = {"train": train, "dev": dev, "test": test}
        self._files = {
            split: _parse_entries(split, value)
            for split, value in given.items()
            if value is not None
        }
        self.splits = tuple(self._files)

    def describe(self) -> dict[str, Any]:
        """Return name, size and SHA-256 of every file: the content, wherever it lies.

        Raises:
            UserError: A file is missing.
        """
        return {
            "corpus": "TextFilesCorpus",
            "splits": {
                split: [[identify(path) for path in paths] for paths in entries]
                for split, entries in self._files.items()
            },
        }

    def prepare(self, download_dir: Path) -> None:
        """Check that every file is there, is not empty and has as many lines as its partner.

        Args:
            download_dir: Not used: nothing is fetched.

        Raises:
            UserError: One of these does not hold.
        """
        for entries in self._files.values():
            for paths in entries:
                check_line_counts(paths)

    def read(self, split: str, download_dir: Path) -> Iterator[Pair]:
        """Yield the pairs of a split, entry after entry.

        Args:
            split: One of `splits`.
            download_dir: Not used.

        Raises:
            UserError: There is no such split, a file is missing or empty, aligned files differ in
                their number of lines, or a line is not UTF-8 or has not two columns.
        """
        check_split(split, self.splits)
        for paths in self._files[split]:
            check_line_counts(paths)
        for paths in self._files[split]:
            if len(paths) == 1:
                yield from _read_columns(paths[0])
            else:
                yield from zip(read_lines(paths[0]), read_lines(paths[1]), strict=True)


def read_lines(path: Path) -> Iterator[str]:
    r"""Yield the lines of a plain or `.gz` UTF-8 file, without "\n" or "\r\n" and without a BOM.

    Raises:
        UserError: The file is missing, is a damaged gzip file, or a line is not UTF-8.
    """
    number = 1
    with _open(path) as file:
        chunks = _guarded(path, iter(lambda: file.read(_CHUNK_BYTES), b""))
        for chunk in _whole_lines(path, chunks):
            if number == 1:
                chunk = chunk.removeprefix(_BYTE_ORDER_MARK)
            # At "\n" only; text mode and str.splitlines would also end lines at a lone "\r", U+2028
            # and others, and so put aligned files out of step.
            lines = _decode(path, number, chunk).removesuffix("\n").split("\n")
            number += len(lines)
            yield from (line.removesuffix("\r") for line in lines)


def _whole_lines(path: Path, chunks: Iterable[bytes]) -> Iterator[bytes]:
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
                f"{path} has a line of more than {_MAX_LINE_BYTES:,} bytes, expected one sentence "
                "a line: is it a text file?"
            )
    if rest:
        yield b"".join(rest)


def _decode(path: Path, number: int, chunk: bytes) -> str:
    """Decodes whole lines, of which the first has that number."""
    try:
        return chunk.decode("utf-8")
    except UnicodeDecodeError as error:
        before = chunk[: error.start].split(b"\n")
        raise UserError(
            f"{path}, line {number + len(before) - 1}: byte 0x{chunk[error.start]:02x} at position "
            f"{len(before[-1])} is not valid UTF-8; convert the file to UTF-8 (e.g. with iconv)"
        ) from error


def check_line_counts(paths: Sequence[Path]) -> int:
    """Return the number of lines that one file, or each of several aligned files, has.

    Raises:
        UserError: A file is missing or empty, or their numbers of lines differ.
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


def _parse_entries(split: str, value: Entry | Sequence[Entry]) -> list[tuple[Path, ...]]:
    """Bring a split's value into the form: a list of one path (columns) or two (aligned)."""
    entries = value if isinstance(value, list) else [value]
    parsed: list[tuple[Path, ...]] = []
    for entry in entries:
        names = (entry,) if isinstance(entry, str) else entry
        usable = (
            isinstance(names, tuple | list)
            and len(names) == (1 if isinstance(entry, str) else 2)
            and all(isinstance(name, str) and name for name in names)
        )
        if not usable:
            raise UserError(
                f"TextFilesCorpus.{split}: received {entry!r}, expected a pair of files "
                "('a.en', 'a.de'), a file of two columns 'a.tsv', or a list of these"
            )
        parsed.append(tuple(Path(str(name)).expanduser() for name in names))
    if not parsed:
        raise UserError(f"TextFilesCorpus.{split}: received an empty list, expected files")
    return parsed


def _read_columns(path: Path) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise UserError(
                f"{path}, line {number}: {len(columns)} tab-separated columns, expected 2 (source, "
                "target); two aligned files are given as a tuple, ('a.en', 'a.de')"
            )
        yield columns[0], columns[1]


def _open(path: Path) -> BinaryIO:
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            # It might never end, and is read twice.
            raise UserError(f"{path} is a device or a pipe, expected a file: copy it to one.")
        return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")
    except OSError as error:
        raise UserError(
            f"cannot read {path} ({error.strerror}); expected a text file: check the name, which "
            f"is relative to {Path.cwd()}"
        ) from error


def _guarded(path: Path, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Pass `chunks` on, turning what a damaged gzip file raises into a `UserError`."""
    try:
        yield from chunks
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(
            f"{path} is not a whole gzip file ({error}); fetch it again, or drop '.gz' from its "
            "name if it is plain text"
        ) from error


def _count_lines(path: Path) -> int:
    """Count lines without decoding; a last line without a newline counts."""
    newlines, last = 0, b"\n"
    with _open(path) as file:
        for chunk in _guarded(path, iter(lambda: file.read(_CHUNK_BYTES), b"")):
            newlines += chunk.count(b"\n")
            last = chunk[-1:]
    return newlines + (last != b"\n")


def identify(path: Path) -> dict[str, Any]:
    """Return name, size and SHA-256 of a file: its content, wherever it lies.

    Raises:
        UserError: The file cannot be read.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise UserError(f"cannot read {path} ({error.strerror}); expected a text file") from error
    digest = _sha256(path, status.st_size, status.st_mtime_ns)
    return {"name": path.name, "bytes": status.st_size, "sha256": digest}


@functools.cache
def _sha256(path: Path, size: int, modified_ns: int) -> str:
    """Hash a file; size and time of change are arguments so that the cache notices an edit."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
