"""gin: parsing an experiment's file, and refusing what nothing would use."""

import io
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gin
from gin.config_parser import BindingStatement, ImportStatement, IncludeStatement

import t2t_repro
from t2t_repro.config.checks import check_bound, check_read, check_types
from t2t_repro.config.expansion import check_expansion
from t2t_repro.config.gin_text import Text, bindings_in, name_of, refused_by_gin, statements
from t2t_repro.config.limits import MAX_BYTES
from t2t_repro.config.modules import find_module, import_found, is_missing
from t2t_repro.errors import UserError, reason_of
from t2t_repro.files import read_at_most

_MAX_FILES = 100

_PACKAGE = Path(t2t_repro.__file__).parent
_EXPERIMENTS = _PACKAGE, _PACKAGE.parent
"""In which of them there is a folder gin/: the package, or its checkout."""


def configure(
    gin_file: str | Path | None,
    gin_params: Sequence[str],
    roots: Collection[str],
    needed: Collection[str] = (),
    given: Collection[str] = (),
) -> None:
    """Parses a gin file and bindings on top of it, replacing any earlier configuration.

    Args:
        gin_file: path of the file, or None for bindings alone.
        gin_params: bindings such as "train.seed = 2".
        roots: names of the configurables that the program calls by itself. A binding is read if it
            is of one of them, or of something that these refer to. Those of an included file need
            not be read: an experiment may replace what they are for.
        needed: those of the roots whose parameters without a default have to be bound.
        given: parameters that the program gives where they are not bound.

    Raises:
        UserError: there is no such file, a name in it does not exist, nothing would read a
            binding, its value is of the wrong type, or one is missing.
        Exception: whatever a module raises that the file imports.
    """
    gin.clear_config()
    folders: list[Path] = [Path(), *_EXPERIMENTS]
    files = _Files(folders, [])
    including: tuple[Path, ...] = ()
    found: list[_Binding] = []
    if gin_file:
        including = (find_gin_file(gin_file),)
        folders[1:1] = including[0].resolve().parents
        found = _parse_file(including[0], files, ())
    found += _parse("\n".join(gin_params), "--gin_param", files, including)
    values = {one.name: one.value for one in found}
    check_expansion(values)
    with refused_by_gin():
        gin.finalize()
    check_types(values)
    check_read({one.name for one in found if one.is_own}, values, roots)
    check_bound([*values, *given], values, needed)


def find_gin_file(given: str | Path) -> Path:
    """Finds a gin file: where it says, or among the project's own, with or without gin/ before it.

    Args:
        given: a path, or a name such as "base_ende.gin".

    Returns:
        its path; what was given, if there is no such file.
    """
    places = [folder / part / given for folder in _EXPERIMENTS for part in ("", "gin")]
    return next((path for path in (Path(given), *places) if path.is_file()), Path(given))


def read_bindings(gin_file: str | Path, given: str | None = None) -> str:
    """Reads a file that a person can have written.

    Args:
        gin_file: its path.
        given: what the user gave, e.g. "--gin_file=my.gin"; the path by default.

    Returns:
        its text.

    Raises:
        UserError: there is none, it is too large, or no text.
    """
    given = given or str(gin_file)
    try:
        return read_at_most(Path(gin_file), MAX_BYTES).decode("utf-8")
    except (OSError, ValueError) as error:
        raise UserError(
            f"{given}: {reason_of(error)}; expected a file of bindings, as gin/*.gin are."
        ) from error


class _Binding(NamedTuple):
    """A binding, by its parameter's name; an included file's is not the experiment's own."""

    name: str
    value: Any
    is_own: bool


class _Files(NamedTuple):
    """The files of a configuration.

    Attributes:
        folders: where included ones are looked for, one after the other.
        read: all that have been read, as often as they have been.
    """

    folders: Sequence[Path]
    read: list[Path]


def _parse_file(path: Path, files: _Files, including: tuple[Path, ...]) -> list[_Binding]:
    files.read.append(path)
    if len(files.read) > _MAX_FILES:
        raise UserError(f"gin: more than {_MAX_FILES} files are included; include fewer.")
    return _parse(read_bindings(path), str(path), files, (*including, path))


def _parse(text: str, name: str, files: _Files, including: tuple[Path, ...]) -> list[_Binding]:
    """Has gin act on a text, piece by piece between its includes.

    gin looks for an included file in a search path that belongs to the whole process, and can only
    be added to; so the files are found here.

    Args:
        text: to be parsed.
        name: of its file, for errors.
        files: of the configuration.
        including: the files that are being parsed; modules are looked for beside them.

    Returns:
        the bindings, those of included files among them, in the order in which gin acts on them.
    """
    lines, begin = io.StringIO(text).readlines(), 0
    found = []
    for statement in statements(text, name):
        if isinstance(statement, ImportStatement):
            _import(statement, [str(file.resolve().parent) for file in reversed(including)])
        elif isinstance(statement, IncludeStatement):
            number = statement.location.line_num
            _bind(lines, begin, number - 1, name)
            begin = number
            path = _included(statement.filename, f"{name}, line {number}", files, including)
            included = _parse_file(path, files, including)
            found += [one._replace(is_own=False) for one in included]
        elif isinstance(statement, BindingStatement):
            found.append(_Binding(name_of(statement), statement.value, is_own=True))
    _bind(lines, begin, len(lines), name)
    return found


def _bind(lines: Sequence[str], begin: int, end: int, name: str) -> None:
    """Has gin act on some lines of a text; its errors give their numbers in the whole."""
    with refused_by_gin():
        gin.parse_config(Text("\n" * begin + "".join(lines[begin:end]), name))


def _included(filename: str, place: str, files: _Files, including: tuple[Path, ...]) -> Path:
    candidates = (folder / filename for folder in files.folders)
    path = next((one for one in candidates if one.is_file()), None)
    if path is None:
        raise UserError(
            f"gin: Unable to open file: {filename}, which {place} includes; expected it in the "
            "working directory, in a folder that the experiment's file lies in, or among gin/*.gin."
        )
    if path in including:
        raise UserError(f"gin: {place} includes {filename}, which includes it: leave one out.")
    return path


def _import(statement: ImportStatement, folders: Sequence[str]) -> None:
    """Imports a module before gin does, which hides where in it an error arose."""
    if statement.module.startswith("__gin__."):
        return
    try:
        import_found(statement.module, find_module(statement.module, folders))
    except ModuleNotFoundError as error:
        if not is_missing(error, statement.module):
            raise
        raise UserError(
            f"gin: {statement.format()!r}: there is no module {error.name}; expected one "
            "beside the gin file, in the working directory, or in a folder of PYTHONPATH."
        ) from error


def differing_bindings(there: str, now: str) -> list[str]:
    """What two configurations bind differently, as gin prints them: one text a parameter.

    Args:
        there: of what has been made before.
        now: of what is to be made.

    Returns:
        such as "train.seed 1 there, 2 now", in the order of the parameters' names.
    """
    before, after = (
        {name_of(binding): repr(binding.value) for binding in bindings_in(text)}
        for text in (there, now)
    )
    return [
        f"{name} {before.get(name, 'not bound')} there, {after.get(name, 'not bound')} now"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def differing_values(there: Any, now: Any, name: str = "") -> list[str]:
    """What two descriptions, nested dictionaries and lists, have differently, key by key.

    Returns:
        such as "cleaning.max_words 250 there, 77 now".
    """
    kinds = (dict, list, tuple)
    if not isinstance(there, kinds) or not isinstance(now, kinds):
        return [] if there == now else [f"{name} {_short(there)} there, {_short(now)} now"]
    before, after = _entries(there), _entries(now)
    found = []
    for key in dict.fromkeys([*before, *after]):
        path = f"{name}.{key}" if name else str(key)
        found += differing_values(before.get(key), after.get(key), path)
    return found


def _entries(values: dict | list | tuple) -> dict:
    return values if isinstance(values, dict) else dict(enumerate(values))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:24]}...{text[-8:]}"
