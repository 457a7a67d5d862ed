"""The names that gin can bind, read from the package's source.

To import what gin binds takes seconds, since TensorFlow comes with it: no one waits for a typo.
"""

import ast
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from gin.config_parser import BindingStatement

from t2t_repro.config.checks import configurable, parameters_of
from t2t_repro.config.gin_text import name_of, name_today, owner_of, references_in
from t2t_repro.errors import UserError

PACKAGE = Path(__file__).parents[1]
_CONFIGURABLE = "gin.configurable"


def check_names(statements: Collection[Any]) -> None:
    """Checks the names in a configuration.

    Args:
        statements: all of a gin file, what it includes, and bindings on top of it. The modules that
            it imports have been imported.

    Raises:
        UserError: a configurable or one of its parameters does not exist.
    """
    for one in statements:
        if not isinstance(one, BindingStatement):
            continue
        place = f"gin: {one.location.filename}, line {one.location.line_num}"
        owner, dot, parameter = name_today(name_of(one)).rpartition(".")
        references = [ref.name for ref in references_in(one.value) if not ref.is_macro]
        for name in [owner_of(owner), *references] if dot else references:
            if name not in configurables() and not configurable(name):
                close = get_close_matches(name, configurables(), cutoff=0.5) or configurables()
                raise UserError(f"{place}: there is no {name}; expected {', '.join(close)}.")
        known = parameters_of(owner_of(owner)) or configurables().get(owner_of(owner))
        if dot and known and parameter not in known:
            raise UserError(f"{place}: {owner} has no {parameter}; expected {', '.join(known)}.")


@functools.cache
def configurables() -> dict[str, list[str]]:
    """Returns the names of the package's configurables, each with those of its parameters.

    Those that gin does not bind, such as a metric's texts, are among them.
    """
    classes: dict[str, ast.ClassDef] = {}
    found: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if f"@{_CONFIGURABLE}" in text:
            body = ast.parse(text).body
            classes |= {one.name: one for one in body if isinstance(one, ast.ClassDef)}
            found |= _configurables_of(body, classes)
    return found


def _configurables_of(
    body: Sequence[ast.stmt], classes: Mapping[str, ast.ClassDef]
) -> Iterator[tuple[str, list[str]]]:
    """Yields the configurables of a module, with their parameters."""
    for node in body:
        for decorator in getattr(node, "decorator_list", ()):
            call = decorator if isinstance(decorator, ast.Call) else ast.Call(decorator, [], [])
            if ast.unparse(call.func) == _CONFIGURABLE:
                name = ast.literal_eval(call.args[0]) if call.args else node.name  # type: ignore
                yield name, [*dict.fromkeys(_parameters(node, classes))]


def _parameters(node: Any, classes: Mapping[str, ast.ClassDef]) -> Iterator[str]:
    """Yields the parameters of a function or a constructor; a dataclass's are its fields."""
    if isinstance(node, ast.FunctionDef):
        arguments = [*node.args.args, *node.args.kwonlyargs]
        yield from (one.arg for one in arguments if one.arg != "self")
        return
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and one.name == "__init__":
            yield from _parameters(one, classes)
            return
    for base in node.bases:
        if (name := ast.unparse(base)) in classes:
            yield from _parameters(classes[name], classes)
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and "ClassVar" not in ast.unparse(one.annotation):
            yield ast.unparse(one.target)
