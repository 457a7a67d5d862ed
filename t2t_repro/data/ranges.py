"""The range of a number that a gin file binds; its type is checked as the file is read."""

import math

from t2t_repro.errors import UserError


def check_range(name: str, value: float, least: float, most: float = math.inf) -> None:
    """Checks that a number is in its range.

    Args:
        name: such as "Cleaning.max_words".
        value: what was bound.
        least: the least that it may be.
        most: the most.

    Raises:
        UserError: it is not, or is no number.
    """
    if not isinstance(value, int | float) or not least <= value <= most:
        limit = f" and at most {most}" if most < math.inf else ""
        raise UserError(f"{name} = {value!r}: expected at least {least}{limit}")
