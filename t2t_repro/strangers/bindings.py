"""A configuration that a stranger may have written, looked through before gin acts on it."""

from pathlib import Path

from gin.config_parser import ImportStatement, IncludeStatement

from t2t_repro.bindings.text import statements
from t2t_repro.configuration import check_file
from t2t_repro.errors import UserError


def check_harmless(gin_file: Path) -> list[str]:
    """Makes sure that a file only binds and imports: an include reads other files.

    Args:
        gin_file: the file.

    Returns:
        the names of the modules that it imports, each of which would run code.

    Raises:
        UserError: it does more, cannot be parsed, or is not there.
    """
    check_file(gin_file)
    try:
        text = gin_file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{gin_file} is not UTF-8: put back its file.") from error
    modules = []
    for statement in statements(text, str(gin_file)):
        if isinstance(statement, IncludeStatement):
            raise UserError(
                f"{gin_file} includes {statement.filename!r}, expected bindings alone, as a "
                "training run writes them: put back its file."
            )
        if isinstance(statement, ImportStatement):
            modules.append(statement.module)
            if statement.module.startswith("__gin__"):
                raise UserError(
                    f"{gin_file} says {statement.format()!r}, with which it could call whatever "
                    "it names: decorate with @gin.configurable what it shall call."
                )
    return modules
