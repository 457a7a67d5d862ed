"""A configuration that a stranger may have written, looked through before gin acts on it."""

from pathlib import Path

from gin.config_parser import ImportStatement, IncludeStatement

from t2t_repro.config.gin_files import read_bindings
from t2t_repro.config.gin_text import statements
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
    modules = []
    for statement in statements(read_bindings(gin_file), str(gin_file)):
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
