"""Finds gin files and gives their bindings to gin: each is opened once, and its text parsed once.

A model directory's config.gin is data that anyone may have written: `trained_bindings` parses it,
but imports and calls nothing. It keeps literals, and the names of given configurables.
"""

import copy
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import gin
from gin.config_parser import BindingStatement, ImportStatement, IncludeStatement

from t2t_repro.config import checks, gin_text
from t2t_repro.errors import UserError, reason_of
from t2t_repro.files import read_at_most

_PACKAGE = Path(__file__).parents[1]
# The folders of experiments: of the installed package, and of its checkout.
_GIN_FOLDERS = _PACKAGE / "gin", _PACKAGE.parent / "gin"
# Makes gin's own references.
_GIN_REFERENCES = gin.config.ParserDelegate()


def configure(
    gin_file: str | Path | None,
    params: Sequence[str],
    roots: Collection[Callable[..., Any]],
    defaults: Sequence[str] = (),
) -> dict[str, Any]:
    """Gives a gin file and further bindings to gin.

    Any earlier configuration is replaced, and `sys.path` is extended. Names are checked first, then
    literal values, then whether every binding of the file itself and of `params` is used. Bindings
    of an included file may be unused: an experiment may replace their configurable.

    Args:
        gin_file: path of the file, or None for bindings alone.
        params: bindings such as "train.seed = 2".
        roots: the program's own calls: configurables, or dataclasses of them.
        defaults: bindings of lower priority, which the file and `params` replace.

    Returns:
        the bindings, by name.

    Raises:
        UserError: the file, a name or a value in it cannot be used, or a binding is not used.
        Exception: any error of a module that the file imports.
    """
    gin.clear_config()
    path = find_gin_file(gin_file) if gin_file else None
    # The file's own folder, then those above it.
    folders: Sequence[Path] = path.resolve().parents if path else ()
    _look_for_modules_in(Path.cwd(), *folders[:1], *_GIN_FOLDERS)
    bindings: dict[str, Any] = {}
    _apply("\n".join(defaults), ["the configuration of the model directory"], bindings)
    own_names: set[str] = _apply(read_gin(path), [str(path)], bindings, folders) if path else set()
    own_names |= _apply("\n".join(params), ["--gin_param"], bindings, folders)
    # Not gin.finalize(): modules that are imported later could not register their configurables.
    checks.check_values(bindings)
    checks.check_read(own_names, bindings, roots)
    return bindings


def _apply(
    text: str, files: list[str], bindings: dict[str, Any], beside: Sequence[Path] = ()
) -> set[str]:
    """Gives the bindings of a text and of its includes to gin, and imports its modules.

    gin's own include is not used: a folder that it searches cannot be removed again.

    Args:
        text: the content of a gin file.
        files: the files that include it, then its own; for errors, and to find circles.
        bindings: the bindings so far, by name; those of the text are added to them.
        beside: folders that are searched for included files before the project's; those of an
            included file are its own, then those of the file that includes it.

    Returns:
        the names that the text itself binds.
    """
    own_names: set[str] = set()
    for statement in gin_text.statements(text, files[-1]):
        place = f"gin: {files[-1]}, line {statement.location.line_num}"
        if isinstance(statement, BindingStatement):
            name = gin_text.name_of(statement)
            _bind(name, statement.value, place)
            bindings[name] = statement.value
            own_names.add(name)
        elif isinstance(statement, ImportStatement):
            # gin would reword an error of the module, so it is imported before gin imports it.
            _import(statement.module, f"{place}: {statement.format()!r}")
            gin.parse_config(statement.format())
        elif isinstance(statement, IncludeStatement):
            path = find_gin_file(statement.filename, beside)
            if str(path) in files:
                circle = " includes ".join([*files[files.index(str(path)) :], str(path)])
                raise UserError(f"{place}: the file includes itself ({circle}); delete the line.")
            included = read_gin(path, f"{place} includes {statement.filename}")
            _look_for_modules_in(path.resolve().parent)
            _apply(included, [*files, str(path)], bindings, [*path.resolve().parents, *beside])
    return own_names


def _bind(name: str, value: Any, place: str) -> None:
    """Binds a parameter, such as "source/SubwordTraining.vocab_size", or a macro.

    `place` is the file and line of the binding, for errors.

    Raises:
        UserError: the parameter, or a configurable in the value, is unknown.
    """
    # Only a macro's name has no dot.
    owner, dot, argument = name.rpartition("/")[2].partition(".")
    if dot:
        known = checks.parameters_of(_find_configurable(owner, place))
        if argument not in known:
            raise UserError(f"{place}: {owner} has no '{argument}'; expected {', '.join(known)}.")
    # gin keeps a macro's value as that of gin.macro in the scope of the macro's name.
    key = name if dot else (name, "gin.macro", "value")
    # Not in the `with` block, since its errors are reported as they are.
    gin_value = _with_gin_references(value, place)
    with gin_text.one_line_errors():
        gin.bind_parameter(key, gin_value)


def _with_gin_references(value: Any, place: str) -> Any:
    """Returns a value with gin's own reference for each `Reference`, in nested containers too.

    Raises:
        UserError: there is no configurable of that name; `place` says where it is named.
    """
    if isinstance(value, gin_text.Reference):
        if value.is_macro:
            return _GIN_REFERENCES.macro(value.removeprefix("%"))
        # Imports its module if that has moved; raises an error if the name is unknown.
        _find_configurable(value.selector, place)
        return _GIN_REFERENCES.configurable_reference(value.strip("@()"), value.endswith("()"))
    if isinstance(value, dict):
        return {key: _with_gin_references(item, place) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_with_gin_references(item, place) for item in value)
    return value


def _find_configurable(name: str, place: str) -> Callable[..., Any]:
    """Returns the configurable of a name; imports its module if it has moved beside the gin files.

    Raises:
        UserError: the name is unknown; `place` says where it is.
    """
    if module := gin_text.MOVED.get(name):
        _import(module, place)
    return checks.known_configurable(name, place)


def value_of(owner: str, name: str) -> Any:
    """Returns what gin binds to a parameter, or None if it binds nothing.

    `owner` is the configurable's name, `name` the parameter's. Each time, `@name()` is called anew.
    """
    # A deep copy resolves gin's reference; gin itself would resolve all parameters' references.
    return copy.deepcopy(gin.get_bindings(owner, resolve_references=False).get(name))


def find_gin_file(given: str | Path, beside: Sequence[Path] = ()) -> Path:
    """Finds a gin file at its path or in the project's gin/.

    Args:
        given: a path, or a name such as "base_ende.gin" or "gin/base_ende.gin".
        beside: folders that are searched before the project's.

    Returns:
        its path, or `given` if there is no such file.
    """
    # The parents too: a name may begin with gin/.
    folders = [Path(), *beside, *(folder.parent for folder in _GIN_FOLDERS), *_GIN_FOLDERS]
    paths = (folder / given for folder in folders)
    return next((path for path in paths if path.is_file()), Path(given))


def read_gin(path: Path, place: str | None = None) -> str:
    """Returns the text of a gin file.

    Args:
        path: the file.
        place: where the file is named, e.g. "gin: my.gin, line 1 includes base.gin", for errors;
            by default the path.

    Raises:
        UserError: the file is missing, has more than 1 MiB, or is not UTF-8.
    """
    try:
        # An editor on Windows may have put a byte-order mark in front.
        return read_at_most(path, 2**20).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        problem = f"{place or path}: {reason_of(error)}"
        raise UserError(f"{problem}; expected bindings, as in gin/*.gin.") from error


def import_modules(names: Sequence[str]) -> None:
    """Imports the modules that a user names.

    Raises:
        UserError: a module is missing.
        Exception: any other error of a module.
    """
    _look_for_modules_in(Path.cwd(), *_GIN_FOLDERS)
    for name in names:
        _import(name, f"--import={name}")


def trained_bindings(
    config_gin: Path,
    known: Collection[Callable[..., Any]],
    replaced: Collection[str] = (),
    imports: Sequence[str] = (),
) -> list[str]:
    """Reads a model directory's bindings of some configurables.

    Args:
        config_gin: the model directory's config.gin.
        known: the configurables that may be bound and referred to; bindings of others are ignored.
        replaced: names of parameters that the caller binds.
        imports: modules that the caller has imported; all configurables of their packages are
            known too.

    Returns:
        the bindings, each a line of gin, with values in the place of macros.

    Raises:
        UserError: the file cannot be parsed, refers to other configurables, or has a macro that is
            not bound, is circular, or is in a list, tuple or dictionary.
    """
    text = read_gin(config_gin)
    bindings = gin_text.bindings_in(text, str(config_gin))
    packages = {name.partition(".")[0] for name in imports}

    # What the caller gives, and what the packages have that it has imported.
    def is_known(selector: str) -> bool:
        owner = checks.configurable_or_none(selector)
        return owner in known or getattr(owner, "__module__", "").partition(".")[0] in packages

    lines: list[str] = []
    for name, bound_value in bindings.items():
        if name in replaced or not is_known(gin_text.owner_of(name)):
            continue
        value = _without_macro(bound_value, bindings)
        binding = f"{name} = {value!r}"
        for reference in gin_text.references_in(value):
            if reference.is_macro or not is_known(reference.selector):
                problem = f"{config_gin} binds {binding}, but {reference} is not known here"
                raise UserError(f"{problem}: bind another one with --gin_param{import_hint(text)}.")
        lines.append(binding)
    return lines


def _without_macro(value: Any, bindings: dict[str, Any]) -> Any:
    """Returns the value that a macro stands for; any other value as it is.

    If the macro is unbound or circular, the result is again a macro.
    """
    # A macro's value may be another macro; as macros may be circular, the steps are limited.
    for _ in bindings:
        if isinstance(value, gin_text.Reference) and value.is_macro:
            value = bindings.get(value.removeprefix("%"), value)
    return value


def import_hint(text: str) -> str:
    """Returns the end of an error: the flags that import the modules of a configuration.

    It is "" if `text`, the content of a gin file, imports none.
    """
    imports = (line for line in gin_text.statements(text) if isinstance(line, ImportStatement))
    flags = " ".join(f"--import={line.module}" for line in imports)
    return f", or, if you trust the training run's own modules, give {flags}" if flags else ""


def _import(name: str, place: str) -> None:
    """Imports a module that a gin file or a flag names.

    Raises:
        UserError: it is missing; the error begins with `place`, where it is named.
        Exception: any error of the module, also if a module is missing that it imports.
    """
    try:
        # Also for names that cannot be a module's, such as ./parts.py, it is a ModuleNotFoundError;
        # for "" it would be a ValueError.
        __import__(name or " ")
    except ModuleNotFoundError as error:
        # Neither the named module nor its package is missing: the traceback says who imports it.
        if not f"{name}.".startswith(f"{error.name}."):
            raise
        places = "beside the gin file, in the working directory, or in a folder of PYTHONPATH"
        raise UserError(f"{place}: no module {error.name}; expected one {places}.") from error


def _look_for_modules_in(*folders: Path) -> None:
    """Appends folders to `sys.path` for good: processes that prepare data need them too."""
    # At the end, so that their modules hide no others. A folder that is there already stays.
    sys.path += [str(folder) for folder in folders if str(folder) not in sys.path]
