"""What a gin file binds, checked where it arrives."""

import math
from types import UnionType

from t2t_repro.errors import UserError

_WORDS: dict[object, str] = {
    int: "a whole number",
    int | None: "a whole number or None",
    float: "a number",
    bool: "True or False",
    str: "a string",
    str | None: "a string or None",
}


def check_setting(
    name: str,
    value: object,
    kind: type | UnionType,
    least: float = -math.inf,
    most: float = math.inf,
) -> None:
    """Checks the type and the range of a value that a gin file may bind.

    Args:
        name: such as "Cleaning.max_words".
        value: what was bound.
        kind: one of the types above (a whole number is a `float` too), or a configurable class.
        least: the least number.
        most: the greatest.

    Raises:
        UserError: it is of another type, or outside of the range.
    """
    fits = isinstance(value, int | float if kind is float else kind)
    if isinstance(value, int | float) and kind is not bool:
        fits = fits and not isinstance(value, bool) and least <= value <= most
    if not fits:
        what = _WORDS[kind] if kind in _WORDS else f"@{getattr(kind, '__name__', kind)}()"
        if least > -math.inf:
            what = f"at least {least}{f' and at most {most}' * (most < math.inf)}, {what}"
        raise UserError(f"{name} = {value!r}: expected {what}")
