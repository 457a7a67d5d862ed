"""What bindings become when gin puts in what they refer to, counted before it does.

42 macros, each of which names the one before twice, are 4,000 billion values; and what leads back
to itself has no end. No person meets these limits.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import gin

from t2t_repro.config.gin_text import Reference
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


class _Refused(Exception):
    """Says what is expected in place of a value."""


class _Bound(NamedTuple):
    """What parameters are of: a configurable, or the macro that a scope names, and its scope."""

    scope: tuple[str, ...]
    owner: str


class _Expansion:
    """Follows references, and counts the values."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._left = _MAX_VALUES
        # The one that is followed now.
        self._binding: tuple[str, Any] = "", None
        self._bound: dict[_Bound, dict[str, Any]] = {}
        for name, value in values.items():
            bound, parameter = _parameter(name)
            self._bound.setdefault(bound, {})[parameter] = value

    def count(self, name: str, value: Any) -> None:
        """Counts what a binding becomes.

        Raises:
            UserError: see `check_expansion`.
        """
        bound, _ = _parameter(name)
        self._binding = name, value
        try:
            self._check_scopes(bound.scope)
            self._count(value, () if bound.owner == _MACRO else bound.scope, (), 0)
        except _Refused as error:
            name, value = self._binding
            raise UserError(f"{_short(name)} is {_short(repr(value))}, expected {error}.") from None

    def _count(
        self, value: Any, scope: tuple[str, ...], calls: tuple[_Bound, ...], depth: int
    ) -> None:
        """Counts a value that is asked for in a scope, within calls of what is bound."""
        self._left -= 1
        if isinstance(value, str | bytes):
            self._left -= len(value) // _CHARACTERS
        if self._left < 0:
            raise _Refused(f"at most {_MAX_VALUES:,} values in all bindings, references followed")
        if depth > _MAX_DEPTH:
            raise _Refused(f"at most {_MAX_DEPTH} references and brackets, one in another")
        parts: list[Any] = []
        if isinstance(value, Reference):
            self._count_call(value, scope, calls, depth)
        elif isinstance(value, dict):
            parts = [*value, *value.values()]
            if any(isinstance(key, Reference) for key in value):
                raise _Refused("no reference for a key: write the key itself")
        elif isinstance(value, list | tuple):
            parts = [*value]
        for part in parts:
            self._count(part, scope, calls, depth + 1)

    def _count_call(
        self, value: Reference, scope: tuple[str, ...], calls: tuple[_Bound, ...], depth: int
    ) -> None:
        """Counts what gin gives to what a reference is to, called in its scope or in this one."""
        if not value.is_macro and _is_gins(value):
            raise _Refused("no part of gin itself: write what it stands for, or %name for a macro")
        self._check_scopes(value.scope)
        call = _Bound(value.scope or scope, _MACRO if value.is_macro else value.name)
        if call in calls:
            raise _Refused("what does not lead back to itself")
        given: dict[str, Any] = {}
        for end in range(len(call.scope) + 1):
            given |= self._bound.get(_Bound(call.scope[:end], call.owner), {})
        for name, part in given.items():
            before = self._binding
            self._binding = _named(value, name), part
            self._count(part, call.scope, (*calls, call), depth + 1)
            self._binding = before

    def _check_scopes(self, scope: tuple[str, ...]) -> None:
        if len(scope) > _MAX_SCOPES:
            raise _Refused(f"at most {_MAX_SCOPES} scopes")


def _named(reference: Reference, parameter: str) -> str:
    return "/".join(reference.scope) if reference.is_macro else f"{reference.name}.{parameter}"


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:60]}...{text[-12:]}"


def _is_gins(reference: Reference) -> bool:
    """Whether a reference is to what gin makes macros, constants and singletons of.

    Called as they are, they fail, or return what nobody has held against an annotation.
    """
    try:
        return str(gin.get_configurable(reference.selector).__module__).startswith("gin.")
    except ValueError:
        return False


def _parameter(name: str) -> tuple[_Bound, str]:
    """What a parameter is of, and its name there."""
    *scope, last = name.split("/")
    owner, _, parameter = last.partition(".")
    if not parameter:
        return _Bound((*scope, last), _MACRO), "value"
    return _Bound(tuple(scope), owner), parameter
