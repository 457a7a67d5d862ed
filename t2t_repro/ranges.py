"""The range of a number that a gin file binds."""

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
        raise UserError(f"{name} = {value!r}: expected {_limits(least, most)}")


def check_count(name: str, value: int, least: int = 1, most: float = math.inf) -> None:
    """Checks that a number is whole, and in its range; see `check_range`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise UserError(f"{name} = {value!r}: expected an integer, {_limits(least, most)}")
    check_range(name, value, least, most)


def _limits(least: float, most: float) -> str:
    return f"at least {least}" + (f" and at most {most}" if most < math.inf else "")
