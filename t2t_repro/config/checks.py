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


def check_values(bindings: Mapping[str, Any]) -> None:
    """Compares literal values with annotations, and checks that macros are bound.

    The values of references and macros are checked later, when gin calls what is
    `values.configurable`.

    Args:
        bindings: the values of parameters and macros, by name (see `gin_text.bindings_in`).

    Raises:
        UserError: a parameter does not take its value, or a macro is not bound.
    """
    for name, value in bindings.items():
        for reference in references_in(value):
            macro = reference.removeprefix("%")
            if reference.is_macro and macro not in bindings:
                raise UserError(f"{name} is {value!r}, but {macro} is not bound: bind it too.")
        # The name of a macro has no dot; its value has no annotation.
        if "." in name and not any(references_in(value)):
            hints = values.hints_of(gin.get_configurable(owner_of(name)))
            values.check_value(name, value, hints.get(name.rpartition(".")[2], Any))


def check_read(
    own_names: Collection[str], bindings: Mapping[str, Any], roots: Iterable[Callable[..., Any]]
) -> None:
    """Checks that something reads each of the user's bindings.

    Args:
        own_names: names of the user's bindings, such as "a/Owner.parameter"; of macros, "a/name".
        bindings: gin's bindings, by name.
        roots: the program's own calls: configurables, or dataclasses of them.

    Raises:
        UserError: nothing would read a binding.
    """
    used = _reachable(bindings, roots)
    unread = [name for name in own_names if not _is_read(name, used)]
    if unread:
        problem = f"gin binds {', '.join(sorted(unread))}, but nothing in this run reads it"
        raise UserError(f"{problem}: delete the line, or bind a parameter that uses it.")


def _is_read(name: str, used: Collection[Reference]) -> bool:
    """Returns whether any of a run's calls and macros, `used`, reads a binding.

    "a/Owner.parameter" is read if Owner is called, and anything in the scope a/ or one inside it.
    """
    parameter = name.split("/")[-1]
    if "." not in parameter:  # A macro.
        return f"%{name}" in used
    is_called = any(reference.name == owner_of(name) for reference in used)
    # A call inherits its caller's scope, so the call in the scope may be that of another owner.
    scope = name.removesuffix(parameter)
    return is_called and any(reference.scope.startswith(scope) for reference in used)


def check_bound(bindings: Mapping[str, Any], roots: Iterable[Callable[..., Any]]) -> None:
    """Checks that the parameters a run needs are bound.

    Args:
        bindings: gin's bindings, by name.
        roots: the program's own calls: configurables, or dataclasses of them.

    Raises:
        UserError: a parameter without a default is not bound.
    """
    for reference in sorted(_reachable(bindings, roots)):
        scope = reference.scope
        for parameter in _required_parameters(reference):
            needed = f"{reference.name}.{parameter}"
            scopes = [key.removesuffix(needed) for key in bindings if key.split("/")[-1] == needed]
            # A call without a scope inherits its caller's, which is unknown: any binding will do.
            is_bound = any(not scope or scope.startswith(outer) for outer in scopes)
            if not is_bound:
                problem = f"{scope}{needed} is not bound, but this run needs it"
                raise UserError(f"{problem}: bind it; a function that is only passed on has no ().")


def _reachable(bindings: Mapping[str, Any], roots: Iterable[Callable[..., Any]]) -> set[Reference]:
    """Returns the roots' calls and all references in their bindings and defaults, at any depth."""
    # By configurable or macro, whatever the scope of the binding.
    bound_references: dict[str, set[Reference]] = {}
    for name, value in bindings.items():
        bound_references.setdefault(owner_of(name), set()).update(references_in(value))
    reached: set[Reference] = set()
    newest = {call for root in roots for call in _calls_of(root)}
    while newest:
        reached |= newest
        following: set[Reference] = set()
        for name in {reference.name for reference in newest}:
            following.update(bound_references.get(name, ()), _default_references(name, bindings))
        newest = following - reached
    return reached


def _default_references(owner_name: str, bindings: Collection[str]) -> Iterator[Reference]:
    """Yields references to the configurables that are defaults of a configurable's parameters.

    Parameters that gin binds, those in `bindings`, are left out; a macro's name yields nothing.
    """
    if not (owner := configurable_or_none(owner_name)):
        return
    for name, parameter in parameters_of(owner).items():
        if f"{owner_name}.{name}" in bindings:
            continue
        default = parameter.default
        for item in default if isinstance(default, tuple) else [default]:
            # A function is passed on uncalled, hence no "()"; a field's factory below is called.
            if inspect.isfunction(item) and configurable_or_none(item):
                yield Reference(f"@{values.name_of_configurable(item)}")
    if dataclasses.is_dataclass(owner):
        for field in dataclasses.fields(owner):
            if f"{owner_name}.{field.name}" not in bindings:
                yield from _calls_of(field.default_factory)


def _calls_of(root: Any) -> Iterator[Reference]:
    """Yields "@name()" of a configurable, or the calls of a plain dataclass's factories.

    Any other object, such as a factory that gin does not know, yields nothing.
    """
    if configurable_or_none(root):
        yield Reference(f"@{values.name_of_configurable(root)}()")
    elif dataclasses.is_dataclass(root):
        for field in dataclasses.fields(root):
            yield from _calls_of(field.default_factory)


def _required_parameters(reference: Reference) -> Iterator[str]:
    """Yields the parameters that gin has to bind for a reference, as they have no default.

    A macro, and what gin does not know, has none.
    """
    if not (owner := configurable_or_none(reference.name)):
        return
    for name, parameter in parameters_of(owner).items():
        # A function that is passed on uncalled gets its other arguments from its caller.
        has_no_value = reference.endswith("()") and parameter.default is parameter.empty
        if parameter.default is gin.REQUIRED or has_no_value:
            yield name


def parameters_of(owner: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Returns the parameters of a function, or of a class's constructor, that can be given by name.

    `self` and *args, which cannot, are left out.
    """
    # `inspect.signature` of a class with a __new__ would show the parameters of __new__.
    parameters = [*inspect.signature(values.constructor_of(owner)).parameters.values()]
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    without_self = parameters[1:] if inspect.isclass(owner) else parameters
    return {parameter.name: parameter for parameter in without_self if parameter.kind in kinds}


def configurable_or_none(owner: Any) -> Callable[..., Any] | None:
    """Returns gin's configurable of a name, class or function; None if gin knows none."""
    try:
        return gin.get_configurable(owner)
    except (ValueError, KeyError, TypeError):
        return None


def known_configurable(name: str, place: str) -> Callable[..., Any]:
    """Returns gin's configurable of a name.

    Args:
        name: the configurable's name in a gin file.
        place: file and line of the name, for the error.

    Raises:
        UserError: the name is unknown; the message lists similar ones, or all if there are none.
    """
    if owner := configurable_or_none(name):
        return owner
    # gin has no public list of its configurables. Its registry can only be iterated by items(); a
    # selector has the module in front of the name.
    known = sorted({selector.rpartition(".")[2] for selector, _ in gin.config._REGISTRY.items()})
    close = get_close_matches(name, known, cutoff=0.5) or known
    raise UserError(f"{place}: there is no '{name}'; expected {' or '.join(close)}.")


def differing_values(there: Any, now: Any, name: str = "") -> list[str]:
    """Lists the differences of two nested dictionaries and lists; a missing key counts as None.

    Args:
        there: the saved values.
        now: the values of the current run.
        name: the keys that lead to both values, joined by dots.

    Returns:
        differences, such as "cleaning.max_words 250 there, 77 now".
    """
    containers = (dict, list, tuple)
    if not isinstance(there, containers) or not isinstance(now, containers):
        difference = f"{name} {values.short(there)} there, {values.short(now)} now"
        return [] if there == now else [difference]
    before = there if isinstance(there, dict) else dict(enumerate(there))
    after = now if isinstance(now, dict) else dict(enumerate(now))
    differences = []
    for key in dict.fromkeys([*before, *after]):
        path = f"{name}.{key}" if name else str(key)
        differences += differing_values(before.get(key), after.get(key), path)
    return differences
