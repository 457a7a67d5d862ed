"""What gin binds, checked before anything is computed; differences of two configurations."""

import inspect
from collections.abc import Callable, Collection
from typing import Any

import gin

from t2t_repro.config.gin_text import Reference, bindings_in, owner_of, references_in
from t2t_repro.config.values import check_value, constructor_of, hints_of, short
from t2t_repro.errors import UserError


def check_values() -> None:
    """Compares the literals that are bound with the annotations of their parameters.

    Constructors compare what references and macros become.

    Raises:
        UserError: a parameter does not take its value.
    """
    for name, value in bindings_in(gin.config_str()).items():
        if "." in name and not any(references_in(value)):
            hints = hints_of(gin.get_configurable(owner_of(name)))
            check_value(name, value, hints.get(name.rsplit(".", 1)[-1], Any))


def check_read(own: Collection[str], roots: Collection[str]) -> None:
    """Checks that something reads what the user binds.

    Args:
        own: names of the user's bindings.
        roots: names of the configurables that the program calls by itself.

    Raises:
        UserError: nothing would read a binding.
    """
    found = reached(roots)
    if unread := sorted(name for name in own if not _is_read(name, found)):
        raise UserError(
            f"gin binds {', '.join(unread)}, but nothing in this run would read it: delete the "
            "line, or bind what uses it (as train or prepare do)."
        )


def check_bound(needed: Collection[str], given: Collection[str] = ()) -> None:
    """Checks that a run finds what it needs.

    Args:
        needed: names of the configurables that the program calls by itself.
        given: names of parameters that the program passes.

    Raises:
        UserError: a parameter without a default is not bound.
    """
    bound = {*bindings_in(gin.config_str()), *given}
    for reference in sorted(reached(needed)):
        for name, parameter in parameters_of(reference.name).items():
            is_required = parameter.default is gin.REQUIRED or (
                # A function that is passed on uncalled gets the rest from its caller.
                parameter.default is parameter.empty and reference.endswith("()")
            )
            full_name = "/".join((*reference.scope, f"{reference.name}.{name}"))
            if is_required and not any(_reaches(one, full_name) for one in bound):
                raise UserError(
                    f"{full_name} is not bound, but this run needs it: add a line "
                    f"'{full_name} = ...' to the gin file, or give it with --gin_param."
                )


def parameters_of(name: str) -> dict[str, inspect.Parameter]:
    """Returns the parameters of a configurable that can be bound; of a macro, none."""
    if (owner := configurable(name)) is None:
        return {}
    # Of a class Python would rather show the parameters of __new__, if it has one.
    parameters = [*inspect.signature(constructor_of(owner)).parameters.values()]
    known = gin.config._inverse_lookup(owner, allow_decorators=True)
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        one.name: one
        for one in parameters[inspect.isclass(owner) :]
        if one.kind in named and one.name in (known.allowlist or [one.name])
        if one.name not in (known.denylist or [])
    }


def configurable(owner: Any) -> Callable[..., Any] | None:
    """Returns the configurable of a name or a function; None if there is none."""
    try:
        return gin.get_configurable(owner)
    except (ValueError, KeyError):
        return None


def differing_bindings(there: str, now: str) -> list[str]:
    """Returns what two configurations, as gin prints them, bind differently.

    Args:
        there: an earlier one, perhaps with older names.
        now: the current one.

    Returns:
        such as "train.seed 1 there, 2 now", sorted by name.
    """
    before, after = (
        {name: repr(value) for name, value in bindings_in(text).items()} for text in (there, now)
    )
    return [
        f"{name} {before.get(name, 'not bound')} there, {after.get(name, 'not bound')} now"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def differing_values(there: Any, now: Any, name: str = "") -> list[str]:
    """Compares two nested dictionaries and lists key by key.

    Returns:
        such as "cleaning.max_words 250 there, 77 now".
    """
    kinds = (dict, list, tuple)
    if not isinstance(there, kinds) or not isinstance(now, kinds):
        return [] if there == now else [f"{name} {short(there)} there, {short(now)} now"]
    before, after = (one if isinstance(one, dict) else dict(enumerate(one)) for one in (there, now))
    found = []
    for key in dict.fromkeys([*before, *after]):
        path = f"{name}.{key}" if name else str(key)
        found += differing_values(before.get(key), after.get(key), path)
    return found


def reached(roots: Collection[str]) -> set[Reference]:
    """Returns all that roots refer to, directly or not; a root itself is "@root()"."""
    bound: dict[str, set[Reference]] = {}
    values = bindings_in(gin.config_str())
    for name, value in values.items():
        bound.setdefault(owner_of(name), set()).update(references_in(value))
    reached: set[Reference] = set()
    newest = {Reference(f"@{root}()") for root in roots}
    while newest:
        reached |= newest
        found = set().union(*(bound.get(reference.name, set()) for reference in newest))
        found |= {
            Reference(f"@{default.__name__}")
            for reference in newest
            for name, parameter in parameters_of(reference.name).items()
            if f"{reference.name}.{name}" not in values
            for one in [parameter.default]
            for default in (one if isinstance(one, tuple) else [one])
            if inspect.isfunction(default) and configurable(default)
        }
        newest = found - reached
    return reached


def _is_read(name: str, reached: Collection[Reference]) -> bool:
    """Returns whether something that is reached reads a binding.

    A call without a scope may be in any scope that its caller has.
    """
    *scope, of = name.split("/")
    if "." not in of:
        return any(one.is_macro and list(one.scope) == name.split("/") for one in reached)
    is_called = any(one.name == owner_of(name) for one in reached)
    return is_called and any(list(one.scope[: len(scope)]) == scope for one in reached)


def _reaches(given: str, needed: str) -> bool:
    """Returns whether a binding holds for a call in a scope: one of an outer scope, or the same."""
    (*outer, one), (*scope, other) = given.split("/"), needed.split("/")
    return one == other and (not scope or scope[: len(outer)] == outer)
