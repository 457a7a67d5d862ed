"""A user's mistake is one line on standard error and status 2, as in the package's own commands."""

import sys
from collections.abc import Callable

from t2t_repro.errors import UserError


def mistakes_in_one_line(main: Callable[[], None]) -> None:
    """Runs a script's `main`; any other error than a UserError is a bug, and keeps its traceback.

    Raises:
        SystemExit: of status 2, after a mistake.
    """
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
