"""Checks gin's bindings before anything is computed: wrong values, missing and unused ones."""

import dataclasses
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import gin

from t2t_repro.config import values
from t2t_repro.config.gin_text import Reference, owner_of, references_in
from t2t_repro.errors import UserError


def check_values(bound: Mapping[str, Any]) -> None:
    """Compares literal values with annotations, and checks that macros are bound.

    Constructors compare what references and macros become.

    Args:
        bound: gin's bindings, by name.

    Raises:
        UserError: a parameter does not take its value, or a macro is not bound.
    """
    for name, value in bound.items():
        for reference in references_in(value):
            if reference.is_macro and reference[1:] not in bound:
                raise UserError(f"{name} is {value!r}, but {reference[1:]} is not bound.")
        if "." in name and not any(references_in(value)):
            hints = values.hints_of(gin.get_configurable(owner_of(name)))
            values.check_value(name, value, hints.get(name.rsplit(".", 1)[-1], Any))


def check_read(
    own: Collection[str], bound: Mapping[str, Any], roots: Iterable[Callable[..., Any]]
) -> None:
    """Checks that something reads each of the user's bindings.

    Args:
        own: names of the user's bindings.
        bound: gin's bindings, by name.
        roots: the program's own calls: configurables, or dataclasses of them.

    Raises:
        UserError: nothing would read a binding.
    """
    used = _reached(bound, roots)
    names = {reference.name for reference in used}
    unread = []
    for name in own:
        parameter = name.split("/")[-1]
        # A call without a scope may be in any scope that its caller has.
        scope = name.removesuffix(parameter)
        is_called = owner_of(name) in names and any(call.scope.startswith(scope) for call in used)
        if not (is_called if "." in parameter else f"%{name}" in used):
            unread.append(name)
    if unread:
        names_unread = ", ".join(sorted(unread))
        problem = f"gin binds {names_unread}, but nothing in this run reads it"
        raise UserError(f"{problem}: delete the line, or bind what uses it, as train does.")


def check_bound(bound: Mapping[str, Any], roots: Iterable[Callable[..., Any]]) -> None:
    """Checks that the parameters a run needs are bound (see `check_read`).

    Raises:
        UserError: a parameter without a default is not bound.
    """
    for reference in sorted(_reached(bound, roots)):
        for name in _required(reference):
            needed = f"{reference.name}.{name}"
            scopes = [key.removesuffix(needed) for key in bound if key.split("/")[-1] == needed]
            # A call without a scope may be in any scope that its caller has.
            scope = reference.scope
            is_bound = any(not scope or scope.startswith(around) for around in scopes)
            if not is_bound:
                full = reference.scope + needed
                problem = f"{full} is not bound, but this run needs it"
                raise UserError(f"{problem}: add it to the gin file, or give it with --gin_param.")


def _reached(bound: Mapping[str, Any], roots: Iterable[Callable[..., Any]]) -> set[Reference]:
    """Returns the references that roots reach, and the roots' own calls."""
    referred: dict[str, set[Reference]] = {}
    for name, value in bound.items():
        referred.setdefault(owner_of(name), set()).update(references_in(value))
    reached: set[Reference] = set()
    newest = {reference for root in roots for reference in _called(root)}
    while newest:
        reached |= newest
        named = ({*referred.get(call.name, ()), *_defaults(call.name, bound)} for call in newest)
        newest = reached.union(*named) - reached
    return reached


def _defaults(name: str, bound: Collection[str]) -> Iterator[Reference]:
    """Yields references to the configurables that are defaults of unbound parameters."""
    if not (owner := registered(name)):
        return
    for parameter in parameters_of(owner).values():
        default = parameter.default
        if f"{name}.{parameter.name}" in bound:
            continue
        for item in default if isinstance(default, tuple) else [default]:
            if inspect.isfunction(item) and registered(item):
                yield Reference(f"@{values.name_of_configurable(item)}")
    if dataclasses.is_dataclass(owner):
        for field in dataclasses.fields(owner):
            if f"{name}.{field.name}" not in bound:
                yield from _called(field.default_factory)


def _called(owner: Any) -> Iterator[Reference]:
    """Yields the call of a configurable; of a plain dataclass, those that its defaults make."""
    if registered(owner):
        yield Reference(f"@{values.name_of_configurable(owner)}()")
    elif dataclasses.is_dataclass(owner):
        for field in dataclasses.fields(owner):
            yield from _called(field.default_factory)


def _required(reference: Reference) -> Iterator[str]:
    """Yields the parameters without a default that gin has to bind."""
    if not (owner := registered(reference.name)):
        return
    for name, parameter in parameters_of(owner).items():
        # A function that is passed on uncalled gets the rest from its caller.
        is_called = reference.endswith("()") and parameter.default is parameter.empty
        if parameter.default is gin.REQUIRED or is_called:
            yield name


def parameters_of(owner: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Returns a function's or constructor's parameters that can be given by name."""
    # `inspect.signature` of a class with a __new__ would show the parameters of __new__.
    parameters = [*inspect.signature(values.constructor_of(owner)).parameters.values()]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    without_self = parameters[1:] if inspect.isclass(owner) else parameters
    return {parameter.name: parameter for parameter in without_self if parameter.kind in named}


def registered(owner: Any) -> Callable[..., Any] | None:
    """Returns the configurable of a name, class or function, or None."""
    try:
        return gin.get_configurable(owner)
    except (ValueError, KeyError, TypeError):
        return None


def known_configurable(name: str, place: str) -> Callable[..., Any]:
    """Returns the configurable of a name.

    `place` stands in front of the error.

    Raises:
        UserError: the name is unknown; the message lists close ones.
    """
    if owner := registered(name):
        return owner
    # gin has no public list of its configurables.
    known = sorted({selector.rpartition(".")[2] for selector, _ in gin.config._REGISTRY.items()})
    close = get_close_matches(name, known, cutoff=0.5) or known
    raise UserError(f"{place}: there is no '{name}'; expected {', '.join(close)}.")


def differing_values(there: Any, now: Any, name: str = "") -> list[str]:
    """Compares two nested dictionaries and lists key by key.

    Returns:
        differences, such as "cleaning.max_words 250 there, 77 now".
    """
    kinds = (dict, list, tuple)
    if not isinstance(there, kinds) or not isinstance(now, kinds):
        difference = f"{name} {values.short(there)} there, {values.short(now)} now"
        return [] if there == now else [difference]
    before, after = (x if isinstance(x, dict) else dict(enumerate(x)) for x in (there, now))
    differences = []
    for key in dict.fromkeys([*before, *after]):
        path = f"{name}.{key}" if name else str(key)
        differences += differing_values(before.get(key), after.get(key), path)
    return differences
