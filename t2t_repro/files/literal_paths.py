"""Paths for what reads checkpoints in TensorFlow, which takes every path for a pattern.

It looks for files that match: `run[1]/step-5` stands for run1/step-5, and not for itself.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from t2t_repro.errors import UserError

_LITERAL = re.compile(r"[\w/ .,:=+@%~-]*")


@contextmanager
def literal(path: str | Path) -> Iterator[str]:
    """A path to the same place that is no pattern; while it lasts, the place can be read by it.

    Args:
        path: of a directory, or of files without their endings, as TensorFlow has it.

    Yields:
        the path by which TensorFlow reads it.

    Raises:
        UserError: there can be none.
    """
    if _LITERAL.fullmatch(str(path)):
        yield str(path)
        return
    folder, name = os.path.split(os.path.abspath(path))
    if os.path.isdir(path):
        folder, name = os.path.join(folder, name), ""
    with TemporaryDirectory() as aside:
        link = os.path.join(aside, "link")
        os.symlink(folder, link, target_is_directory=True)
        found = os.path.join(link, name)
        if not _LITERAL.fullmatch(found):
            raise UserError(
                f"{path}: TensorFlow takes {found} for a pattern of names; expected letters, "
                "digits, '_', '-' and '.': rename the files, or set TMPDIR to another folder."
            )
        yield found
