"""What a run reads, needs and can take of what is bound, said before anything is computed."""

import inspect
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import gin

from t2t_repro.config.configurables import (
    hints_of_configurable,
    is_configurable,
    parameters_of,
)
from t2t_repro.config.gin_text import Reference
from t2t_repro.config.promises import Promised
from t2t_repro.config.values import check_value
from t2t_repro.errors import UserError


def check_read(own: Collection[str], values: Mapping[str, Any], roots: Collection[str]) -> None:
    """Checks that a run reads what the user binds.

    Args:
        own: names of the user's bindings.
        values: all that is bound, by name.
        roots: names of the configurables that the program calls by itself.

    Raises:
        UserError: nothing would read a binding.
    """
    reached = _reached(values, roots)
    if unused := sorted(name for name in own if not _is_read(name, reached)):
        raise UserError(
            f"gin binds {', '.join(unused)}, but nothing in this run would read it: delete the "
            "line, or bind what uses it (as train or prepare do)."
        )


def _is_read(name: str, reached: Collection[Reference]) -> bool:
    """Whether something that is reached reads a binding.

    A call without a scope may be in whichever scope its caller has: any that is reached will do.
    """
    *scope, of = name.split("/")
    if "." not in of:
        return any(one.is_macro and list(one.scope) == name.split("/") for one in reached)
    is_called = any(one.name == _owner(name) for one in reached)
    return is_called and any(list(one.scope[: len(scope)]) == scope for one in reached)


def check_bound(given: Collection[str], values: Mapping[str, Any], needed: Collection[str]) -> None:
    """Checks that a run finds what it needs.

    Args:
        given: names of the parameters that have a value.
        values: all that is bound, by name.
        needed: names of the configurables that the program will call by itself.

    Raises:
        UserError: a parameter without a default is not bound.
    """
    for reference in sorted(_reached(values, needed)):
        for name, parameter in parameters_of(reference.name).items():
            is_required = parameter.default is gin.REQUIRED or (
                # What is handed on uncalled gets the rest from its caller.
                parameter.default is parameter.empty and reference.endswith("()")
            )
            full_name = "/".join((*reference.scope, f"{reference.name}.{name}"))
            if is_required and not any(_is_heard(one, full_name) for one in given):
                raise UserError(
                    f"{full_name} is not bound, but this run needs it: add a line "
                    f"'{full_name} = ...' to the gin file, or give it with --gin_param."
                )


def _is_heard(given: str, needed: str) -> bool:
    """Whether a binding is one that a call in a scope hears: of an outer scope, or of the same.

    A call without a scope may be in whichever scope its caller has.
    """
    (*outer, one), (*scope, other) = given.split("/"), needed.split("/")
    return one == other and (not scope or scope[: len(outer)] == outer)


def check_types(values: Mapping[str, Any]) -> None:
    """Checks what is bound against the annotations of parameters.

    Args:
        values: all that is bound, by name.

    Raises:
        UserError: a value is none that its parameter takes, or a reference to something else.
    """
    for name, value in values.items():
        hints, parameter = hints_of_configurable(_owner(name)), name.rsplit(".", 1)[-1]
        value = _as_promises(value, values)
        if parameter in hints:
            check_value(name, value, hints[parameter])
        if isinstance(value, float) and not math.isfinite(value):
            # gin cannot write it into the model directory.
            raise UserError(f"{name} is {value!r}, expected a finite number.")


def _as_promises(value: Any, values: Mapping[str, Any]) -> Any:
    """A value whose references are promises, and whose macros are what they stand for."""
    seen: set[Reference] = set()
    while isinstance(value, Reference) and value.startswith("%") and value not in seen:
        seen.add(value)
        value = values.get(value[1:], value)
    if isinstance(value, Reference):
        return Promised(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_as_promises(item, values) for item in value)
    if isinstance(value, dict):
        return {key: _as_promises(item, values) for key, item in value.items()}
    return value


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
