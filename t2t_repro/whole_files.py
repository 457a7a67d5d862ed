"""Files that are there whole or not at all, whoever else writes them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


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
