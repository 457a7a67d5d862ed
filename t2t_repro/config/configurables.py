"""What gin calls: which functions and classes these are, and what can be bound of them."""

import inspect
import traceback
from typing import Any

import gin

from t2t_repro.config.values import constructor_of, hints_of

_WHERE = "It happened in the configurable"


def is_configurable(owner: Any) -> bool:
    """Whether gin can bind parameters of a function or class."""
    try:
        gin.get_configurable(owner)
    except ValueError:
        return False
    return True


def parameters_of(name: str) -> dict[str, inspect.Parameter]:
    """The parameters of a configurable that can be bound; none of a macro."""
    try:
        owner = gin.get_configurable(name)
        # Of a class Python would rather show the parameters of __new__, if it has one.
        parameters = [*inspect.signature(constructor_of(owner)).parameters.values()]
    except (ValueError, KeyError):
        return {}
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        parameter.name: parameter
        for parameter in parameters[inspect.isclass(owner) :]
        if parameter.kind in named and _can_be_bound(name, parameter.name)
    }


def hints_of_configurable(name: str) -> dict[str, Any]:
    """The annotations of a configurable, see `hints_of`; none of a macro."""
    try:
        return hints_of(gin.get_configurable(name))
    except (ValueError, KeyError):
        return {}


def _can_be_bound(name: str, parameter: str) -> bool:
    """Whether gin's denylist and allowlist let it be: the code gives the others."""
    try:
        gin.config.ParsedBindingKey.parse(("", name, parameter))
    except ValueError:
        return False
    return True


def say_where(error: BaseException) -> None:
    """Adds to an error, once, the name of the innermost configurable in whose code it arose.

    gin names the configurables that it has called itself. Methods of what these have made, such as
    a corpus that is read or a schedule in an update, are called by others.
    """
    if any(note.startswith(_WHERE) for note in getattr(error, "__notes__", ())):
        return
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for frame in reversed(frames):
        owner = frame.f_globals.get(frame.f_code.co_name)
        if "self" in frame.f_locals:
            owner = type(frame.f_locals["self"])
        if (inspect.isfunction(owner) or inspect.isclass(owner)) and is_configurable(owner):
            error.add_note(f"{_WHERE} {owner.__module__}.{owner.__qualname__}.")
            return
