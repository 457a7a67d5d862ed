"""Files that are there whole or not at all, whoever else writes them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


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
    os.replace(aside, path)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Gives a path to write to, in a folder that nobody else has; then puts the file in its place.

    Args:
        path: of the file; an old one is replaced, unless there is an error.

    Raises:
        OSError: it cannot be written.
    """
    with TemporaryDirectory(prefix=".partial", dir=path.parent) as aside:
        written = Path(aside) / path.name
        yield written
        os.replace(written, path)
