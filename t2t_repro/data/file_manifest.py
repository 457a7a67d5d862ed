"""Which files a folder holds, with sizes and checksums: half a copy is noticed, and named.

Sizes are compared whenever the folder is opened. Checksums are compared once for every copy of the
files: a small file beside them, `verified.json`, says which (by size, time of change and inode)
have been read and found to be right, so that only what was copied, restored or changed since is
read again. Delete it to have all read again.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from absl import logging

from t2t_repro.errors import UserError
from t2t_repro.files import read_json, whole_file

_VERIFIED = "verified.json"


class FileEntry(NamedTuple):
    """What is known of a file.

    Attributes:
        bytes: its size.
        sha256: of its content, hexadecimal.
    """

    bytes: int
    sha256: str


def read_entries(listed: object) -> dict[str, FileEntry]:
    """Takes entries as JSON has them.

    Raises:
        ValueError: they are not such entries, or one is of a file outside of the folder.
    """
    if not isinstance(listed, dict):
        raise ValueError("files are not listed by name")
    entries = {}
    for name, entry in listed.items():
        parts = PurePosixPath(name).parts
        if not parts or ".." in parts or PurePosixPath(name).is_absolute() or "\0" in name:
            raise ValueError(f"{name!r} is not below the folder")
        if [type(part) for part in entry] != [int, str]:
            raise ValueError(f"{name!r} is described as {entry!r}")
        entries[name] = FileEntry(*entry)
    return entries


def describe_files(folder: Path) -> dict[str, FileEntry]:
    """Reads all files below a folder that has just been made, and notes that they are whole.

    Returns:
        entries by paths relative to the folder.
    """
    files = (path for path in folder.rglob("*") if path.is_file())
    paths = sorted(path for path in files if path != folder / _VERIFIED)
    names = [path.relative_to(folder).as_posix() for path in paths]
    entries = {
        name: FileEntry((folder / name).stat().st_size, _sha256(folder / name)) for name in names
    }
    _write_verified(folder, {name: _identity(folder, name, entries[name], "") for name in names})
    return entries


def check_files(folder: Path, expected: Mapping[str, FileEntry], mend: str) -> None:
    """Compares the files below a folder with their entries; see the module for how.

    Args:
        folder: where they are; where it cannot be written to, all are read at every call.
        expected: entries by relative path.
        mend: what the user should do where a file is missing or damaged.

    Raises:
        UserError: a file is missing, or its size or checksum is another.
    """
    verified = _read_verified(folder)
    now = {name: _identity(folder, name, entry, mend) for name, entry in expected.items()}
    unread = [name for name in expected if verified.get(name) != now[name]]
    if unread:
        logging.info("data: comparing the checksums of %d files in %s", len(unread), folder)
    for name in unread:
        if _sha256(folder / name) != expected[name].sha256:
            raise UserError(f"{folder / name} is damaged (its checksum is another): {mend}")
    if unread:
        _write_verified(folder, now)


def _identity(folder: Path, name: str, entry: FileEntry, mend: str) -> list[int]:
    try:
        status = (folder / name).stat()
    except OSError as error:
        raise UserError(f"{folder / name} is missing ({error.strerror}): {mend}") from error
    if not (folder / name).is_file():
        raise UserError(f"{folder / name} is no file: {mend}")
    if status.st_size != entry.bytes:
        raise UserError(
            f"{folder / name} has {status.st_size:,} bytes, expected {entry.bytes:,}: {mend}"
        )
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _read_verified(folder: Path) -> dict[str, list[int]]:
    try:
        return dict(read_json(folder / _VERIFIED))
    except (OSError, ValueError, TypeError):
        return {}


def _write_verified(folder: Path, identities: Mapping[str, list[int]]) -> None:
    try:
        with whole_file(folder / _VERIFIED) as aside:
            aside.write_text(json.dumps(identities, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        logging.info("data: cannot note that %s is whole (%s)", folder, error.strerror)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
