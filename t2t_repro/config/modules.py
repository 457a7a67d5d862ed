"""A user's own modules, which a gin file imports: found beside it, or where Python finds them."""

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path


def find_module(name: str, folders: Sequence[str]) -> ModuleSpec | None:
    """Finds the file of a module, or of the package that it is in; runs nothing.

    Args:
        name: such as "my_parts" or "my_parts.layers".
        folders: where it is looked for, one after the other.

    Returns:
        the module's, or its package's; that of the one which is loaded already, if one is; or None.
    """
    top = name.partition(".")[0]
    if top in sys.modules:
        return sys.modules[top].__spec__
    importlib.invalidate_caches()
    spec = PathFinder.find_spec(top, list(folders))
    # A folder without __init__.py is a package to Python, whatever is in it.
    return spec if spec and spec.has_location and spec.loader else None


def folder_of(spec: ModuleSpec) -> Path:
    """The folder that a module or package lies in."""
    file = Path(str(spec.origin)).absolute()
    return file.parents[1] if spec.submodule_search_locations is not None else file.parent


def is_missing(error: ModuleNotFoundError, name: str) -> bool:
    """Whether this module or a package that it is in is missing, not one that it imports."""
    return f"{name}.".startswith(f"{error.name}.")


def import_found(name: str, spec: ModuleSpec | None) -> None:
    """Imports a module.

    Args:
        name: of the module.
        spec: what `find_module` found of it; by default Python looks for it.

    Raises:
        Exception: whatever the module raises.
    """
    if spec and spec.loader and spec.name not in sys.modules:
        folder = str(folder_of(spec))
        if folder not in sys.path:
            # Last, so that it hides nothing. It stays: a function may import what lies beside it,
            # and so may the processes that prepare data.
            sys.path.append(folder)
        module = sys.modules[spec.name] = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[spec.name]
            raise
    importlib.import_module(name)
