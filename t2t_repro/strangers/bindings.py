"""A configuration that a stranger may have written, looked through before gin acts on it."""

from collections.abc import Sequence
from pathlib import Path

from gin.config_parser import ImportStatement, IncludeStatement

from t2t_repro.bindings.text import statements
from t2t_repro.configuration import check_file
from t2t_repro.errors import UserError


def check_harmless(gin_file: Path, gin_params: Sequence[str]) -> None:
    """Makes sure that a file only binds: an import runs code, an include reads other files.

    Args:
        gin_file: the file.
        gin_params: the user's own bindings; an import that stands there too is as the user wants.

    Raises:
        UserError: it does more, cannot be parsed, or is not there.
    """
    check_file(gin_file)
    try:
        text = gin_file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{gin_file} is not UTF-8: put back its file.") from error
    for statement in statements(text, str(gin_file)):
        if isinstance(statement, IncludeStatement):
            raise UserError(
                f"{gin_file} includes {statement.filename!r}, expected bindings alone, as a "
                "training run writes them: put back its file."
            )
        if isinstance(statement, ImportStatement) and statement.format() not in gin_params:
            raise UserError(
                f"{gin_file} says {statement.format()!r}, which would run code that may be a "
                f"stranger's: if it is yours, give --gin_param='{statement.format()}'."
            )
