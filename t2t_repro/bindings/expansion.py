"""What bindings become when gin puts in what they refer to, counted before it does.

42 macros, each of which names the one before twice, are 4,000 billion values; and what leads back to
itself has no end. No person meets these limits.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import gin

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


class _Refused(Exception):
    """Says what is expected in place of a value.

    Args:
        expected: the words.
        binding: whose value it is, by its name; by default that which was looked at first.
    """

    def __init__(self, expected: str, binding: tuple[str, Any] | None = None) -> None:
        super().__init__(expected)
        self.binding = binding


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
        """Counts what a binding becomes.

        Raises:
            UserError: see `check_expansion`.
        """
        bound, _ = _parameter(name)
        try:
            self._check_scopes(bound.scope)
            self._count(value, () if bound.owner == _MACRO else bound.scope, [(name, value)], 0)
        except _Refused as error:
            name, value = error.binding or (name, value)
            raise UserError(f"{_short(name)} is {_short(repr(value))}, expected {error}.") from None

    def _count(
        self, value: Any, scope: tuple[str, ...], path: list[tuple[str, Any]], depth: int
    ) -> None:
        """Counts a value that a scope sees, to which a path of bindings has led."""
        self._left -= 1
        if isinstance(value, str | bytes):
            self._left -= len(value) // _CHARACTERS
        if self._left < 0:
            raise _Refused(f"at most {_MAX_VALUES:,} values in all bindings, references followed")
        if depth > _MAX_DEPTH:
            raise _Refused(
                f"at most {_MAX_DEPTH} references and brackets deep, and none that leads back to "
                "itself",
                path[-1],
            )
        if isinstance(value, Reference):
            scope, given = self._called(value, scope)
            for name, part in given.items():
                self._count(part, scope, [*path, (_named(value, name), part)], depth + 1)
            return
        parts: list[Any] = []
        if isinstance(value, dict):
            parts = [*value, *value.values()]
            if any(isinstance(key, Reference) for key in value):
                raise _Refused("no reference for a key: write the key itself")
        elif isinstance(value, list | tuple):
            parts = [*value]
        for part in parts:
            self._count(part, scope, path, depth + 1)

    def _called(
        self, value: Reference, scope: tuple[str, ...]
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """In which scope gin calls what is referred to, and what it gives to it."""
        if not value.is_macro and _is_gins(value):
            raise _Refused("no part of gin itself: write what it stands for, or %name for a macro")
        self._check_scopes(value.scope)
        owner = _MACRO if value.is_macro else value.name
        scope = value.scope or scope
        given: dict[str, Any] = {}
        for end in range(len(scope) + 1):
            given |= self._bound.get(_Bound(scope[:end], owner), {})
        return scope, given

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
