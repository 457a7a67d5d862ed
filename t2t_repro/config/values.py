"""Checks values by the annotations of their parameters: `steps: Count`, `dropout: Rate`.

Values of a gin file and of a call in Python are compared with the same annotations.
"""

import functools
import inspect
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import gin

from t2t_repro.errors import UserError

_Owner = TypeVar("_Owner", bound=Callable[..., Any])


@dataclass(frozen=True)
class Range:
    """Bounds of a number, as a part of an annotation: `Annotated[int, Range(least=1)]`."""

    least: float = -math.inf
    above: float = -math.inf
    most: float = math.inf
    below: float = math.inf

    def __contains__(self, value: Any) -> bool:
        return self.least <= value <= self.most and self.above < value < self.below

    def __str__(self) -> str:
        # The words in the order of the fields.
        bounds = zip(("at least", "above", "at most", "below"), vars(self).values(), strict=True)
        return " and ".join(f"{words} {bound}" for words, bound in bounds if math.isfinite(bound))


REQUIRED: Any = gin.REQUIRED
"""The default of a parameter that gin has to bind."""

Count = Annotated[int, Range(least=1, most=2**31 - 1)]  # TensorFlow's int32.
Seed = Annotated[int, Range(least=0, most=2**32 - 1)]
Rate = Annotated[float, Range(least=0, below=1)]
Share = Annotated[float, Range(least=0, most=1)]
# Products of such numbers are finite in float32.
Positive = Annotated[float, Range(above=0, most=10**9)]

Precision = Literal["float32", "mixed_bfloat16"]
"""The precision of a model's computations; its weights are float32."""

# By annotation, the class of its values and how an error describes them.
_PLAIN: Mapping[Any, tuple[type, str]] = {
    bool: (bool, "True or False"),
    int: (Integral, "an integer"),
    float: (Real, "a number"),
    str: (str, "a text"),
    NoneType: (NoneType, "None"),
}
_SEQUENCES = (Sequence, Collection, list, tuple)


def configurable(
    name: str | None = None, denylist: Sequence[str] = ()
) -> Callable[[_Owner], _Owner]:
    """Lets gin bind the parameters of a function or class, and checks them at every call.

    Args:
        name: its name in gin files; that in Python by default.
        denylist: parameters that gin does not bind.

    Returns:
        a decorator; see `validated`.
    """
    return lambda owner: gin.configurable(name, denylist=list(denylist))(validated(owner))


def validated(owner: _Owner) -> _Owner:
    """Makes a function or class compare the arguments of every call with their annotations.

    Args:
        owner: a function, or a class, whose constructor is checked.

    Returns:
        a wrapper of the function, or the class itself with its constructor replaced. A call raises
        a UserError where a value does not fit, with gin's name of the function or class.
    """
    function = constructor_of(owner)
    signature = inspect.signature(function)
    hints = hints_of(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if value is not gin.REQUIRED:
                check_value(f"{name_of_configurable(owner)}.{name}", value, hints.get(name, Any))
        return function(*args, **kwargs)

    # gin reads the parameters of the wrapper itself, not of what it wraps.
    call.__signature__ = signature  # type: ignore[attr-defined]
    if not inspect.isclass(owner):
        return call  # type: ignore[return-value]
    # A class without a constructor stays as it is.
    if function is not object.__new__:
        setattr(owner, function.__name__, call)
    return owner


def name_of_configurable(owner: Callable[..., Any]) -> str:
    """Returns gin's name of a function or class, or that in Python if gin has none."""
    # gin has no public way from a configurable to its name.
    registered = gin.config._INVERSE_REGISTRY.get(inspect.unwrap(owner))
    return registered.name if registered else owner.__name__


def check_value(name: str, value: Any, hint: Any) -> None:
    """Checks that an annotation permits a value.

    Args:
        name: the value's name in errors, such as "Cleaning.max_words".
        value: the value of a binding, a call or a file.
        hint: its annotation, such as `Count`.

    Raises:
        UserError: the annotation does not permit the value.
    """
    if not fits(value, hint):
        raise UserError(f"{name} is {short(value)}, expected {expected(hint)}.")


def constructor_of(owner: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the constructor of a class; a function is returned as it is."""
    if not inspect.isclass(owner):
        return owner
    # A named tuple has __new__ alone. Without any constructor, the result is `object.__new__`.
    return owner.__new__ if owner.__init__ is object.__init__ else owner.__init__


def hints_of(owner: Callable[..., Any]) -> dict[str, Any]:
    """Returns the annotations of the parameters of a function or class, by name.

    If one cannot be evaluated, all those in quotes are left out: their parameters are not checked.
    """
    function = inspect.unwrap(constructor_of(owner))
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError):
        # An annotation may be prose, or have a name that is imported for type checkers alone.
        return {k: v for k, v in inspect.get_annotations(function).items() if type(v) is not str}


def fits(value: Any, hint: Any) -> bool:
    """Returns whether an annotation permits a value; True for unknown forms, e.g. a TypeVar.

    The items of lists and dictionaries are compared, too. An integer is also a float; True is no
    number, and a text no sequence.
    """
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        # The parts of Annotated[int, Range(least=1)] are int and the range.
        limits = [part for part in parts[1:] if isinstance(part, Range)]
        return fits(value, parts[0]) and all(value in part for part in limits)
    if origin in (Union, UnionType):
        return any(fits(value, part) for part in parts)
    if origin is Literal:
        return any(type(value) is type(part) and value == part for part in parts)
    if hint in _PLAIN:
        kind = _PLAIN[hint][0]
        # Python's bool is an int.
        return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if origin is Callable or origin is type:
        return callable(value)
    if (origin or hint) in _SEQUENCES:
        if isinstance(value, str) or not isinstance(value, Sequence):
            return False
        # Items are checked if one annotation holds for all: not in tuple[int, str].
        has_item_hint = bool(parts) and (origin is not tuple or parts[1:] == (...,))
        return not has_item_hint or all(fits(item, parts[0]) for item in value)
    if origin is Mapping:
        is_dict = isinstance(value, Mapping)
        return is_dict and all(fits(k, parts[0]) and fits(v, parts[1]) for k, v in value.items())
    return _is_instance(value, origin or hint)


def _is_instance(value: Any, owner: Any) -> bool:
    """Returns whether a value is of a class, or has all public names of a protocol.

    Returns True if `owner` is neither, or any object will do. A text counts as a path.
    """
    if not inspect.isclass(owner) or owner in (object, Any):
        return True
    # A protocol of typing; isinstance would work only for those with @runtime_checkable. A class,
    # which has the same names as its objects, is a @name where @name() is meant.
    if getattr(owner, "_is_protocol", False):
        public = [name for name in dir(owner) if not name.startswith("_")]
        return not isinstance(value, type) and all(hasattr(value, name) for name in public)
    # gin writes a path as a text.
    return isinstance(value, owner) or (issubclass(owner, Path) and isinstance(value, str))


def expected(hint: Any) -> str:
    """Describes the values that an annotation permits, for errors: "an integer at least 1".

    For a class it is "a Transformer, @name() with parentheses".
    """
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return " ".join([expected(parts[0]), *map(str, parts[1:])])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(expected, parts)))
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if hint in _PLAIN:
        return _PLAIN[hint][1]
    if origin is Callable or origin is type:
        return "a function or class, @name without parentheses"
    if (origin or hint) in _SEQUENCES:
        return f"a list, each {expected(parts[0])}" if parts else "a list"
    if origin is Mapping:
        return f"a dictionary {{'name': value}}, each value {expected(parts[1])}"
    name = getattr(origin or hint, "__name__", str(hint))
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}, @name() with parentheses"


def texts(name: str, values: object) -> list[str]:
    """Returns the texts of any iterable as a list.

    Args:
        name: their name in errors.
        values: an iterable such as a list or a generator; a single text is an error.

    Raises:
        UserError: `values` is not an iterable of texts.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise UserError(f"{name} is {short(values)}, expected a list of texts: ['one', 'two'].")
    listed = list(values)
    for number, text in enumerate(listed):
        # JSON can hold a lone surrogate, "\ud800", which UTF-8 cannot encode.
        if not isinstance(text, str) or re.search("[\ud800-\udfff]", text):
            raise UserError(f"{name}[{number}] is {short(text)}, expected a text.")
    return listed


def short(value: object) -> str:
    """Returns a value as Python writes it, for errors; the middle of a long one is left out."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}...{text[-12:]}"
