"""What a reference of gin's will be, known from annotations before anything is called."""

import inspect
from collections.abc import Callable, Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import gin

from t2t_repro.config.configurables import hints_of_configurable
from t2t_repro.config.gin_text import Reference
from t2t_repro.config.values import SEQUENCES, Promise, hints_of


class Promised(Promise):
    """What "@name" or "@name()" stands for: a function or class, or what it returns.

    Args:
        reference: as it is written.
    """

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._is_called = reference.endswith("()")
        try:
            self._owner = gin.get_configurable(reference.name)
        except (ValueError, KeyError):
            self._owner = None

    def __repr__(self) -> str:
        return str(self._reference)

    def can_be(self, hint: Any) -> bool:
        """See `Promise`."""
        if self._owner is None:
            return True
        if self._is_called:
            return any(_can_be(kind, hint) for kind in self._results())
        if get_origin(hint) is Callable:
            returned = get_args(hint)[-1:]
            return any(_can_be(a, b) for a in self._results() for b in _kinds(*returned or [Any]))
        if hint is Callable or (get_origin(hint) or hint) is type:
            return True
        kind = get_origin(hint) or hint
        if not _is_known(kind):
            return kind is not Literal
        return getattr(kind, "_is_protocol", False) and "__call__" in vars(kind)

    def _results(self) -> list[Any]:
        """The types of what a call returns."""
        if inspect.isclass(self._owner):
            return [self._owner]
        return list(_kinds(hints_of_configurable(self._reference.name).get("return", Any)))


def _kinds(hint: Any) -> Iterator[Any]:
    """The parts of a union."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        yield from _kinds(parts[0])
    elif origin in (Union, UnionType):
        for part in parts:
            yield from _kinds(part)
    else:
        yield hint


def _can_be(kind: Any, hint: Any) -> bool:
    """Whether an object of a type can be what an annotation says; True where nobody knows."""
    if get_origin(hint) is Literal:
        kind = get_origin(kind) or kind
        return not _is_known(kind) or kind in map(type, get_args(hint))
    if get_origin(hint) is Callable:
        return _can_be_called(kind, get_args(hint)[-1])
    kind, hint = get_origin(kind) or kind, get_origin(hint) or hint
    kind, hint = (NoneType if one is None else one for one in (kind, hint))
    if not _is_known(kind) or not _is_known(hint):
        return True
    if hint in SEQUENCES and hasattr(kind, "_fields"):
        # A NamedTuple is not meant as a list.
        return False
    if getattr(hint, "_is_protocol", False):
        names = [name for name, one in vars(hint).items() if inspect.isfunction(one)]
        return all(hasattr(kind, name) for name in names if not name.startswith("_"))
    if hint is float and issubclass(kind, int):
        return True
    return issubclass(kind, hint) or issubclass(hint, kind)


def _can_be_called(kind: Any, returned: Any) -> bool:
    """Whether objects of a type can be functions that return what an annotation says."""
    if get_origin(kind) is Callable:
        return any(_can_be(get_args(kind)[-1], one) for one in _kinds(returned))
    if not _is_known(kind):
        return True
    call = next((vars(base)["__call__"] for base in kind.__mro__ if "__call__" in vars(base)), None)
    if call is None:
        return kind is Callable
    found = hints_of(call).get("return", Any)
    return any(_can_be(one, other) for one in _kinds(found) for other in _kinds(returned))


def _is_known(kind: Any) -> bool:
    """Whether a type says what objects of it are."""
    return inspect.isclass(kind) and kind not in (Any, object)
