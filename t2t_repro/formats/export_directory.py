"""Where an exported model is written that is one directory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from t2t_repro.errors import UserError
from t2t_repro.files import whole_directory


@contextmanager
def export_directory(export_dir: Path) -> Iterator[Path]:
    """Gives a directory to write to, which becomes `export_dir`: whole, or not at all.

    Args:
        export_dir: as --export_dir names it.

    Raises:
        UserError: the directory is there already or cannot be written.
    """
    try:
        with whole_directory(export_dir.absolute()) as aside:
            yield aside
    except OSError as error:
        raise UserError(
            f"--export_dir={export_dir}: {error.strerror}; expected a directory that can be "
            "written to."
        ) from error
