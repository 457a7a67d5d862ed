"""What a run reads, needs and can take of what is bound, said before anything is computed."""

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

import gin

from t2t_repro.bindings.configurables import is_configurable, parameters_of
from t2t_repro.bindings.text import Reference
from t2t_repro.errors import UserError

_PLAIN = {
    bool: "True or False",
    int: "an integer",
    float: "a number",
    str: "a text",
    NoneType: "None",
}


def check_read(own: Collection[str], values: Mapping[str, Any], roots: Collection[str]) -> None:
    """Checks that a run reads what the user binds.

    Args:
        own: names of the user's bindings.
        values: all that is bound, by name.
        roots: names of the configurables that the program calls by itself.

    Raises:
        UserError: nothing would read a binding.
    """
    read = {reference.name for reference in _reached(values, roots)}
    if unused := sorted(name for name in own if _owner(name) not in read):
        raise UserError(
            f"gin binds {', '.join(unused)}, but nothing in this run would read it: delete the "
            "line, or bind what uses it (as train or prepare do)."
        )


def check_bound(values: Mapping[str, Any], needed: Collection[str]) -> None:
    """Checks that a run finds what it needs.

    Args:
        values: all that is bound, by name.
        needed: names of the configurables that the program will call by itself.

    Raises:
        UserError: a parameter without a default is not bound.
    """
    bound = {name.split("/")[-1] for name in values}
    for reference in sorted(_reached(values, needed)):
        for name, parameter in parameters_of(reference.name).items():
            is_required = parameter.default is gin.REQUIRED or (
                # What is handed on uncalled gets the rest from its caller.
                parameter.default is parameter.empty and reference.endswith("()")
            )
            full_name = f"{reference.name}.{name}"
            if is_required and full_name not in bound:
                raise UserError(
                    f"{full_name} is not bound, but this run needs it: add a line "
                    f"'{full_name} = ...' to the gin file, or give it with --gin_param."
                )


def check_types(values: Mapping[str, Any]) -> None:
    """Checks numbers, texts, True, False and None against the annotations of parameters.

    Args:
        values: all that is bound, by name.

    Raises:
        UserError: a value is of another type than its parameter.
    """
    for name, value in values.items():
        value = _without_macros(value, values)
        parameter = parameters_of(_owner(name)).get(name.rsplit(".", 1)[-1])
        kinds = _kinds(parameter.annotation) if parameter else ()
        is_fit = type(value) in kinds or (type(value) is int and float in kinds)
        if type(value) in _PLAIN and kinds and not is_fit:
            expected = " or ".join(_PLAIN.get(kind, "a reference, @name") for kind in kinds)
            raise UserError(f"{name} is {value!r}, expected {expected}.")


def _without_macros(value: Any, values: Mapping[str, Any]) -> Any:
    """What a macro stands for; it may be another's value."""
    seen: set[Reference] = set()
    while isinstance(value, Reference) and value.startswith("%") and value not in seen:
        seen.add(value)
        value = values.get(value[1:], value)
    return value


def _kinds(annotation: Any) -> Sequence[Any]:
    """The types that an annotation lists, if it can be known of each what values it has."""
    kinds = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    is_known = all(
        # No number and no text is a function, or has a protocol of ours.
        kind in _PLAIN or get_origin(kind) is Callable or getattr(kind, "_is_protocol", False)
        for kind in kinds
    )
    return kinds if is_known else ()


def _reached(values: Mapping[str, Any], roots: Collection[str]) -> set[Reference]:
    """All that roots refer to, and what this refers to; the roots themselves are "@root()"."""
    bound: dict[str, set[Reference]] = {}
    for name, value in values.items():
        bound.setdefault(_owner(name), set()).update(_references(value))
    reached: set[Reference] = set()
    newest = {Reference(f"@{root}()") for root in roots}
    while newest:
        reached |= newest
        found = set().union(*(bound.get(reference.name, set()) for reference in newest))
        found |= {
            Reference(f"@{parameter.default.__name__}")
            for reference in newest
            for name, parameter in parameters_of(reference.name).items()
            if f"{reference.name}.{name}" not in values
            if inspect.isfunction(parameter.default) and is_configurable(parameter.default)
        }
        newest = found - reached
    return reached


def _references(value: Any) -> Iterator[Reference]:
    """The references in nested tuples, lists and dictionaries."""
    if isinstance(value, Reference):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for item in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _references(item)


def _owner(name: str) -> str:
    """The configurable that a binding is of; a macro is its own owner."""
    return name.split("/")[-1].split(".")[0]
