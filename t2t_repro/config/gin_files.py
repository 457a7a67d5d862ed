"""Finds and parses gin files, with what they include and the user's own modules.

A model directory's config.gin is read as data, since anyone may have written it: it is parsed and
not acted on. `decoding_bindings` keeps literals, and the names of searches, penalties, ensembles,
utilities and metrics.
"""

import copy
import importlib
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gin
from gin.config_parser import BindingStatement, ImportStatement, IncludeStatement

from t2t_repro.config import gin_text
from t2t_repro.config.checks import check_read, check_values, configurable
from t2t_repro.config.known_names import PACKAGE, check_names
from t2t_repro.errors import UserError, reason_of
from t2t_repro.files import read_at_most

_MOST_BYTES = 2**20
_GIN_FOLDERS = PACKAGE / "gin", PACKAGE.parent / "gin"
"""Of the installed package, or of its checkout."""
_DECODING_ROOMS = (
    "t2t_repro.decoding",
    "t2t_repro.evaluation",
    "t2t_repro.model.ensemble",
    "t2t_repro.parsing.bracket_f1",
)
_EVALUATE = "evaluate"
_IMPLIED = {
    "NoisedSource": "noised_source",
    "SubwordDropout": "bpe_dropout",
    "TreebankCorpus": "t2t_repro.parsing.treebank",
    "attention_images": "attention_images",
}
"""Modules that a gin file need not import, by what it names: older gin files do not."""
_MOST_CHARACTERS = 2**20


def configure(gin_file: str | Path | None, params: Sequence[str], roots: Collection[str]) -> None:
    """Parses a gin file and bindings on top of it, replacing any earlier configuration.

    Args:
        gin_file: path of the file, or None for bindings alone.
        params: bindings such as "train.seed = 2".
        roots: names of the configurables that the program calls by itself. A binding is read if it
            is of one of them, or of something that these refer to. Bindings of an included file
            need not be read: an experiment may replace what they are for.

    Raises:
        UserError: there is no such file, a name in it does not exist, nothing reads a binding, or a
            value is of the wrong type.
        Exception: whatever a module raises that the file imports.
    """
    own = parse(gin_file, params)
    check_values()
    check_read(own, roots)


def parse(
    gin_file: str | Path | None,
    params: Sequence[str],
    defaults: Sequence[str] = (),
    skip_unknown: bool = False,
) -> set[str]:
    """Parses a gin file and bindings on top of it, replacing any earlier configuration.

    Args:
        gin_file: path of the file, or None for bindings alone.
        params: bindings such as "train.seed = 2".
        defaults: bindings that come before all others.
        skip_unknown: leaves out what is bound of configurables that have not been imported.

    Returns:
        the names that the file itself and `params` bind.

    Raises:
        UserError: as in `configure`.
    """
    gin.clear_config()
    own: set[str] = set()
    for piece in _pieces_of(gin_file, params, defaults):
        with gin_text.one_line_errors():
            gin.parse_config(gin_text.Text(piece.text, piece.name), skip_unknown)
        if piece.is_own:
            own |= gin_text.bindings_in(piece.text, piece.name).keys()
    if not skip_unknown:
        with gin_text.one_line_errors():
            gin.finalize()
    return own


def value_of(owner: str, name: str) -> Any:
    """Returns what one parameter is bound to, or None; no other is built."""
    # A copy resolves a macro or a reference.
    return copy.deepcopy(gin.get_bindings(owner, resolve_references=False).get(name))


def check_before_import(gin_file: str | Path | None, params: Sequence[str]) -> None:
    """Checks what can be checked of a gin file before what it binds is imported.

    The modules that it names are imported.

    Args:
        gin_file: path of the file, or None for bindings alone.
        params: bindings on top of it.

    Raises:
        UserError: a file cannot be found or parsed, or a name does not exist.
    """
    pieces = _pieces_of(gin_file, params)
    check_names([one for piece in pieces for one in gin_text.statements(piece.text, piece.name)])


def find_gin_file(given: str | Path, beside: Sequence[Path] = ()) -> Path:
    """Finds a gin file: where it says, or among the project's own, with or without gin/ before it.

    Args:
        given: a path, or a name such as "base_ende.gin".
        beside: folders that are searched before the project's.

    Returns:
        its path; what was given, if there is no such file.
    """
    folders = [Path(), *beside, *(one.parent for one in _GIN_FOLDERS), *_GIN_FOLDERS]
    return next((f / given for f in folders if (f / given).is_file()), Path(given))


def read_gin(gin_file: str | Path, given: str | None = None) -> str:
    """Reads a gin file.

    Args:
        gin_file: its path.
        given: what names it, e.g. "gin: my.gin, line 1 includes base.gin"; the path by default.

    Raises:
        UserError: there is no such file, it has more than 1 MiB, or it is not UTF-8.
    """
    try:
        return read_at_most(Path(gin_file), _MOST_BYTES).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise UserError(
            f"{given or gin_file}: {reason_of(error)}; expected bindings, as in gin/*.gin."
        ) from error


def import_modules(names: Sequence[str]) -> None:
    """Imports the modules that a user names.

    Raises:
        UserError: there is no such module.
        Exception: whatever a module raises.
    """
    _look_for_modules_in(Path.cwd(), *_GIN_FOLDERS)
    for name in names:
        _import(name, f"--import={name}")


def decoding_bindings(
    config_gin: Path, replaced: Collection[str] = (), imports: Sequence[str] = ()
) -> list[str]:
    """Returns the bindings of the configurables that decode or score, as lines of gin.

    A macro in the place of a value is replaced by what it stands for.

    Args:
        config_gin: of a model directory.
        replaced: names of parameters that the caller binds.
        imports: modules that the caller has imported, whose configurables may be used too.

    Raises:
        UserError: the file cannot be parsed, or refers to what is not among these configurables.
    """
    text = read_gin(config_gin)
    bound = gin_text.bindings_in(text, str(config_gin))
    trusted = (*_DECODING_ROOMS, *(name.partition(".")[0] for name in imports))
    kept: list[str] = []
    for name, value in bound.items():
        if name in replaced or not _is_of(gin_text.owner_of(name), trusted):
            continue
        if isinstance(value, gin_text.Reference) and value.is_macro:
            value = bound.get(value[1:], value)
        for reference in gin_text.references_in(value):
            if reference.is_macro or not _is_of(reference.selector, trusted):
                raise UserError(
                    f"{config_gin} binds {name} = {value!r}, but {reference} is not known here: "
                    f"bind another one with --gin_param{import_hint(text)}."
                )
        kept.append(f"{name} = {value!r}")
        # A macro can be long, and stand in many places.
        if len(kept[-1]) * len(kept) > _MOST_CHARACTERS:
            raise UserError(f"{config_gin}: {name} is too long; put back the training run's file.")
    return kept


def import_hint(text: str) -> str:
    """Returns how to import the modules that a configuration names, if it names any."""
    flags = " ".join(f"--import={name}" for name in gin_text.modules_in(text))
    return f", or, if you trust the training run's own modules, give {flags}" if flags else ""


class _Piece(NamedTuple):
    """Lines of a gin file between two includes.

    Attributes:
        text: after as many empty lines as come before it in the file.
        name: of the file, for errors.
        is_own: whether the file is not an included one.
    """

    text: str
    name: str
    is_own: bool


def _pieces_of(
    gin_file: str | Path | None, params: Sequence[str], defaults: Sequence[str] = ()
) -> Iterator[_Piece]:
    """Yields the pieces of all that `parse` acts on, after the modules that they need."""
    _look_for_modules_in(Path.cwd(), *_GIN_FOLDERS)
    yield from _pieces("\n".join(defaults), "the configuration of the model directory", (), False)
    beside: Sequence[Path] = ()
    if gin_file:
        path = find_gin_file(gin_file)
        beside = path.resolve().parents
        _look_for_modules_in(beside[0])
        yield from _pieces(read_gin(path), str(path), beside)
    yield from _pieces("\n".join(params), "--gin_param", beside)


def _pieces(text: str, name: str, beside: Sequence[Path], is_own: bool = True) -> Iterator[_Piece]:
    """Yields the pieces of a text and of what it includes, with the names of today.

    gin itself would look for included files in a search path that can only be added to.
    """
    lines, begin = text.splitlines(keepends=True), 0
    for statement in gin_text.statements(text, name):
        number = statement.location.line_num
        if isinstance(statement, BindingStatement):
            written = gin_text.name_of(statement)
            today = gin_text.name_today(written)
            lines[number - 1] = lines[number - 1].replace(written, today, 1)
            references = [one.name for one in gin_text.references_in(statement.value)]
            for one in {gin_text.owner_of(today), *references} & _IMPLIED.keys():
                _import(_IMPLIED[one], name)
        elif isinstance(statement, ImportStatement):
            # Before gin imports it: what gin raises is then about the text, not about the module.
            _import(statement.module, f"gin: {statement.format()!r} in {name}")
        elif isinstance(statement, IncludeStatement):
            yield _Piece("\n" * begin + "".join(lines[begin : number - 1]), name, is_own)
            begin = number
            place = f"gin: {name}, line {number} includes {statement.filename}"
            path = find_gin_file(statement.filename, beside)
            included = read_gin(path, place)
            _look_for_modules_in(path.resolve().parent)
            yield from _pieces(included, str(path), beside, is_own=False)
    yield _Piece("\n" * begin + "".join(lines[begin:]), name, is_own)


def _import(name: str, place: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}."):
            raise
        raise UserError(
            f"{place}: there is no module {error.name}; expected one beside the gin file, in the "
            "working directory, or in a folder of PYTHONPATH."
        ) from error


def _look_for_modules_in(*folders: Path) -> None:
    # Last, so that they hide nothing. They stay, for the processes that prepare data.
    sys.path += [str(folder) for folder in folders if str(folder) not in sys.path]


def _is_of(selector: str, modules: Collection[str]) -> bool:
    """Returns whether a name is that of a configurable in one of the modules."""
    if (owner := configurable(selector)) is None:
        return False
    module = f"{owner.__module__}."
    return selector == _EVALUATE or any(module.startswith(f"{one}.") for one in modules)
