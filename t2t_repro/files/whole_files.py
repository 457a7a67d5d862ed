"""Files and directories that are there whole or not at all, whoever else writes them."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from t2t_repro.files.durable import sync

ASIDE = ".partial"
"""Begins the name of a folder in which `whole_file` writes; one that was killed leaves it there."""


def nearest_folder(folder: Path) -> Path:
    """Returns a folder, or the nearest one above it that is there: what it would be made in."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file in one piece, and its folder; what a killed writer left is written over.

    Args:
        path: of the file, which nobody else writes at the same time.
        content: of it.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.partial")
    aside.write_bytes(content)
    # Otherwise a power cut could leave an empty file under the new name.
    sync(aside)
    os.replace(aside, path)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Gives a path to write to, in a folder that nobody else has; then puts the file in its place.

    Args:
        path: of the file; an old one is replaced, unless there is an error.

    Yields:
        the path to write to.

    Raises:
        OSError: it cannot be written.
    """
    with TemporaryDirectory(prefix=ASIDE, dir=path.parent) as aside:
        written = Path(aside) / path.name
        yield written
        sync(written)
        os.replace(written, path)


@contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """Gives an empty directory to write to, beside a new one; then puts it in its place.

    After an error nothing is left; what a killed writer left is deleted.

    Args:
        path: of the directory, which nobody else makes at the same time.

    Yields:
        the directory to write to.

    Raises:
        OSError: it cannot be written, or is there already, with something in it.
    """
    aside = path.with_name(f".{path.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        aside.mkdir(parents=True)
        yield aside
        aside.rename(path)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
