"""What values a parameter takes, said in its annotation: `steps: Count`, `dropout: Rate`.

A gin file is held against the annotations before anything is made; a call in Python by `checked`.
"""

import functools
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import gin

from t2t_repro.errors import UserError

_Owner = TypeVar("_Owner", bound=Callable[..., Any])
_Item = TypeVar("_Item")

# Products of such numbers are finite in float32.
_MOST_FLOAT = 1e9
_MOST_INT = 2**31 - 1


@dataclass(frozen=True)
class Range:
    """A part of an annotation, `Annotated[int, Range(least=1)]`: where a number lies.

    Attributes:
        least: the least that it may be.
        most: the most.
        above: what it has to be greater than.
        below: what it has to be less than.
    """

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    below: float = math.inf

    def __contains__(self, value: Any) -> bool:
        is_inside = self.least <= value <= self.most
        return is_inside and (self.above < value or math.isinf(self.above)) and (
            value < self.below or math.isinf(self.below)
        )  # fmt: skip

    def __str__(self) -> str:
        ends = {
            "at least": self.least, "above": self.above, "at most": self.most, "below": self.below
        }  # fmt: skip
        given = {text: end for text, end in ends.items() if not math.isinf(end)}
        return " " + " and ".join(
            f"{text} {end if isinstance(end, int) else format(end, 'g')}"
            for text, end in given.items()
        )


class NotEmpty:
    """A part of an annotation, `Annotated[str, NotEmpty()]`."""

    def __contains__(self, value: Any) -> bool:
        return len(value) > 0

    def __str__(self) -> str:
        return ", not empty"


@dataclass(frozen=True)
class AtMost:
    """A part of an annotation, `Annotated[Several[int], AtMost(100)]`.

    Attributes:
        count: how many there may be.
    """

    count: int

    def __contains__(self, value: Any) -> bool:
        return len(value) <= self.count

    def __str__(self) -> str:
        return f", of at most {self.count}"


Count = Annotated[int, Range(least=1, most=_MOST_INT)]
Seed = Annotated[int, Range(least=0, most=2**32 - 1)]
Rate = Annotated[float, Range(least=0, below=1)]
Positive = Annotated[float, Range(above=0, most=_MOST_FLOAT)]
Text = Annotated[str, NotEmpty()]
Several = Annotated[Sequence[_Item], NotEmpty()]

_PLAIN: Mapping[Any, tuple[type, str]] = {
    bool: (bool, "True or False"),
    int: (Integral, "an integer"),
    float: (Real, "a number"),
    str: (str, "a text"),
    NoneType: (NoneType, "None"),
}
_LITERALS = (bool, int, float, complex, str, bytes, NoneType, list, tuple, dict, type)
"""What a gin file can write down, and classes: none is an object of a protocol."""

_CHECKED = (bool, int, float, str, type, NoneType)
SEQUENCES = (Sequence, Collection, list, tuple)


class Promise(ABC):
    """Stands for a value that is not made yet."""

    @abstractmethod
    def can_be(self, hint: Any) -> bool:
        """Whether the value can be what an annotation says; neither a union nor Annotated."""


def constructor_of(owner: Callable[..., Any]) -> Callable[..., Any]:
    """The function that takes what a function or class is called with."""
    if not inspect.isclass(owner):
        return owner
    init = owner.__init__
    return owner.__new__ if init is object.__init__ else init


def hints_of(owner: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function, or of a class's constructor, by parameter; and "return"."""
    function = inspect.unwrap(constructor_of(owner))
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):
        # An annotation may name what is imported for a type checker alone.
        return {k: v for k, v in inspect.get_annotations(function).items() if type(v) is not str}


def fits(value: Any, hint: Any) -> bool:
    """Whether a value can be what an annotation says; True where that cannot be known."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        limits = [one for one in parts[1:] if isinstance(one, Range | NotEmpty | AtMost)]
        is_made = not isinstance(value, Promise)
        return fits(value, parts[0]) and all(value in one for one in limits if is_made)
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in parts)
    if isinstance(value, Promise):
        return value.can_be(hint)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in parts)
    if hint is None or hint in _PLAIN:
        kind = _PLAIN[NoneType if hint is None else hint][0]
        return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if origin is Callable or origin is type:
        return callable(value)
    if (origin or hint) in SEQUENCES:
        items = parts[:1] if origin is not tuple or parts[1:] == (...,) else ()
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        return is_list and all(fits(item, one) for one in items for item in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            fits(key, parts[0]) and fits(item, parts[1]) for key, item in value.items()
        )
    kind = origin or hint
    if not inspect.isclass(kind) or kind in (object, Any):
        return True
    if getattr(kind, "_is_protocol", False):
        return not isinstance(value, _LITERALS)
    # A path is given to gin as a text.
    return isinstance(value, kind) or (issubclass(kind, Path) and isinstance(value, str))


def expected(hint: Any) -> str:
    """What an annotation asks for, in words: "an integer at least 1 or None"."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return expected(parts[0]) + "".join(map(str, parts[1:]))
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(expected, parts)))
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if hint is None or hint in _PLAIN:
        return _PLAIN[NoneType if hint is None else hint][1]
    if origin is Callable or origin is type:
        made = f" that gives {_a(parts[-1])}" if inspect.isclass(parts[-1]) else ""
        return f"a function or class{made}, @name without parentheses"
    if (origin or hint) in SEQUENCES:
        # What texts are for stands elsewhere: names of files, mostly.
        is_text = not parts or fits("", parts[0])
        return "a list" if is_text else f"a list, each {expected(parts[0])}"
    if origin is Mapping:
        return f"a dictionary {{'name': value}}, each value {expected(parts[1])}"
    return f"{_a(origin or hint)}, @name() with parentheses"


def _a(kind: Any) -> str:
    name = getattr(kind, "__name__", str(kind))
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def check_value(name: str, value: Any, hint: Any) -> None:
    """Checks that a value is one of those that an annotation describes.

    Args:
        name: such as "Cleaning.max_words".
        value: what was bound.
        hint: such as `Count`.

    Raises:
        UserError: it is not.
    """
    if not fits(value, hint):
        raise UserError(f"{name} is {_short(value)}, expected {expected(hint)}.")


def validated(owner: _Owner) -> _Owner:
    """Has what is given to a function compared with its annotations, at every call.

    Other objects are not checked, but for a class where an object belongs.

    Args:
        owner: a function, or a class: its constructor is checked.

    Returns:
        the function, or the class itself. A call raises a UserError where a value does not fit.
    """
    function = constructor_of(owner)
    signature = inspect.signature(function)
    hints = hints_of(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            hint = hints.get(name, Any)
            if value is not gin.REQUIRED and (isinstance(value, _CHECKED) or _is_plain(hint)):
                check_value(f"{owner.__name__}.{name}", value, hint)
        return function(*args, **kwargs)

    # gin does not look behind a decorator.
    call.__signature__ = signature  # type: ignore[attr-defined]
    if not inspect.isclass(owner):
        return call  # type: ignore[return-value]
    owner.__init__ = call  # type: ignore[method-assign]
    return owner


def _is_plain(hint: Any) -> bool:
    """Whether an annotation is about numbers and texts alone."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _is_plain(parts[0])
    if origin in (Union, UnionType, Mapping):
        return all(map(_is_plain, parts))
    return origin is Literal or hint is None or hint in _PLAIN


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}...{text[-12:]}"
