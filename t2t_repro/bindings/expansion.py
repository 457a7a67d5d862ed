"""What bindings become when gin puts in what they refer to, counted before it does.

42 macros, each of which names the one before twice, are 4,000 billion values; and what leads back to
itself has no end. No person meets these limits.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from t2t_repro.bindings.text import Reference
from t2t_repro.errors import UserError

_MAX_VALUES = 100_000
_MAX_DEPTH = 50
_MAX_SCOPES = 20

# So many characters of a text, which may be repeated, count as a value.
_CHARACTERS = 32

# What gin calls a macro's configurable.
_MACRO = "macro"


def check_expansion(values: Mapping[str, Any]) -> None:
    """Checks that what is bound ends somewhere, with all references followed as gin will.

    Args:
        values: all that is bound, by name.

    Raises:
        UserError: a value leads back to itself, or all of them become too many.
    """
    expansion = _Expansion(values)
    for name, value in values.items():
        expansion.count(name, value)


class _Bound(NamedTuple):
    """What parameters are of: a configurable, or the macro that a scope names, and its scope."""

    scope: tuple[str, ...]
    owner: str


class _Expansion:
    """Follows references, and counts the values."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._left = _MAX_VALUES
        self._bound: dict[_Bound, dict[str, Any]] = {}
        for name, value in values.items():
            bound, parameter = _parameter(name)
            self._bound.setdefault(bound, {})[parameter] = value

    def count(self, name: str, value: Any) -> None:
        """Counts what a binding becomes."""
        bound, _ = _parameter(name)
        if len(bound.scope) > _MAX_SCOPES:
            raise UserError(f"gin: {name[:60]!r}... has more than {_MAX_SCOPES} scopes; give less.")
        scope = () if bound.owner == _MACRO else bound.scope
        self._count(name, value, scope, 0)

    def _count(self, name: str, value: Any, scope: tuple[str, ...], depth: int) -> None:
        self._left -= 1
        if isinstance(value, str | bytes):
            self._left -= len(value) // _CHARACTERS
        if self._left < 0:
            raise UserError(
                f"gin: with {name}, what is bound becomes more than {_MAX_VALUES:,} values, "
                "references followed; expected what a person has written."
            )
        if depth > _MAX_DEPTH:
            raise UserError(
                f"gin: {name} leads more than {_MAX_DEPTH} references and brackets deep, as one "
                "that leads back to itself does; write out what it shall be."
            )
        if isinstance(value, Reference):
            scope, parts = self._called(name, value, scope)
        elif isinstance(value, dict):
            parts = [*value, *value.values()]
            if any(isinstance(key, Reference) for key in value):
                raise UserError(f"gin: {name} has a reference for a key; write the key itself.")
        else:
            parts = [*value] if isinstance(value, list | tuple) else []
        for part in parts:
            self._count(name, part, scope, depth + 1)

    def _called(
        self, name: str, value: Reference, scope: tuple[str, ...]
    ) -> tuple[tuple[str, ...], list[Any]]:
        """In which scope gin calls what is referred to, and what it gives to it."""
        if len(value.scope) > _MAX_SCOPES:
            raise UserError(f"gin: {name} refers to more than {_MAX_SCOPES} scopes; give less.")
        owner = _MACRO if value.is_macro else value.name
        scope = value.scope or scope
        given: dict[str, Any] = {}
        for end in range(len(scope) + 1):
            given |= self._bound.get(_Bound(scope[:end], owner), {})
        return scope, list(given.values())


def _parameter(name: str) -> tuple[_Bound, str]:
    """What a parameter is of, and its name there."""
    *scope, last = name.split("/")
    owner, _, parameter = last.partition(".")
    if not parameter:
        return _Bound((*scope, last), _MACRO), "value"
    return _Bound(tuple(scope), owner), parameter
