"""A directory of a stranger, looked through before anything in it is opened."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path


def not_plain(folder: Path) -> Iterator[str]:
    """What a directory holds besides files and directories, in words.

    A pipe in place of a file would keep waiting whoever opens it, and a link can lead to any file
    of the machine. Links that stay inside are what storage systems write.
    """
    root = folder.resolve()
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            try:
                mode = path.stat().st_mode
                inside = path.resolve().is_relative_to(root)
            except (OSError, RuntimeError):
                yield f"{str(path.relative_to(folder))!r}, a link that leads nowhere"
                continue
            if not inside:
                yield f"{str(path.relative_to(folder))!r}, a link that leads out of it"
            elif not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                yield f"{str(path.relative_to(folder))!r}, which is neither a file nor a directory"
