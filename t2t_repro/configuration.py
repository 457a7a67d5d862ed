"""gin: parsing an experiment's file, and refusing what nothing would use."""

import logging
import re
import tokenize
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gin
from gin.config_parser import (
    ConfigParser,
    ImportStatement,
    IncludeStatement,
    ParserDelegate,
)

from t2t_repro.errors import UserError

_BINDING = re.compile(r"^([\w./]+) =", re.MULTILINE)
_REFERENCE = re.compile(r"[@%]([\w./]+)")
# What gin's parser raises for text that it cannot take: it leaves Python's own errors as they are.
_GIN_ERRORS = (
    ValueError, TypeError, SyntaxError, RuntimeError, MemoryError, tokenize.TokenError,
)  # fmt: skip
_MAX_BYTES = 2**20
_CONFIG_DUMP = re.compile(r" in config string:.*", re.DOTALL)
_IN_CALL = re.compile(r"In call to configurable '([^']+)' \(<[^\n]*>\)")


def configure(
    gin_file: str | Path | None, gin_params: Sequence[str], roots: Collection[str]
) -> None:
    """Parses a gin file and bindings on top of it, replacing any earlier configuration.

    Args:
        gin_file: path of the file, or None for bindings alone.
        gin_params: bindings such as "train.seed = 2".
        roots: names of the configurables that the program calls by itself; a binding has an
            effect if it is of one of them, or of something that these refer to.

    Raises:
        UserError: there is no such file, a name in it does not exist, or a binding would have
            no effect.
    """
    gin.clear_config()
    if gin_file:
        check_file(gin_file)
    files = [str(gin_file)] if gin_file else []
    try:
        with _includes_beside(files):
            gin.parse_config_files_and_bindings(files, list(gin_params))
    except (*_GIN_ERRORS, OSError, AttributeError, ImportError) as error:
        raise UserError(f"gin: {on_one_line(error)}") from error
    _check_reachable(gin.config_str(), roots)


def check_file(gin_file: str | Path) -> None:
    """Raises a UserError where there is no such file, or it is no file that a person wrote."""
    if not Path(gin_file).is_file():
        raise UserError(f"--gin_file={gin_file}: no such file; expected one such as gin/*.gin.")
    if (size := Path(gin_file).stat().st_size) > _MAX_BYTES:
        raise UserError(f"--gin_file={gin_file} has {size:,} bytes; expected a file of bindings.")


def check_harmless(gin_file: Path, gin_params: Sequence[str]) -> None:
    """Makes sure that a file only binds: an import runs code, an include reads other files.

    Args:
        gin_file: a file that a stranger may have written.
        gin_params: the user's own bindings; an import that stands there too is as the user wants.

    Raises:
        UserError: it does more, or cannot be parsed.
    """
    check_file(gin_file)
    try:
        text = gin_file.read_text(encoding="utf-8")
        statements = list(ConfigParser(text, _Inert()))
    except _GIN_ERRORS as error:
        raise UserError(f"gin: {gin_file}: {on_one_line(error)}") from error
    for statement in statements:
        if isinstance(statement, IncludeStatement):
            raise UserError(
                f"{gin_file} includes {statement.filename!r}, expected bindings alone, as a "
                "training run writes them: put back its file."
            )
        if isinstance(statement, ImportStatement) and statement.format() not in gin_params:
            raise UserError(
                f"{gin_file} says {statement.format()!r}, which would run code that may be a "
                f"stranger's: if it is yours, give --gin_param='{statement.format()}'."
            )


class _Inert(ParserDelegate):
    """Takes references for what they are: names."""

    def configurable_reference(self, scoped_configurable_name: str, evaluate: bool) -> str:
        return scoped_configurable_name

    def macro(self, macro_name: str) -> str:
        return macro_name


@contextmanager
def _includes_beside(files: Sequence[str]) -> Iterator[None]:
    """Makes `include 'gin/base_ende.gin'` work from any working directory.

    What is not there relative to the working directory is looked for relative to the folders that
    the experiment's file lies in. gin's search path can only be added to, so it is put back by
    hand; and gin logs an error for every folder where it looks in vain.
    """
    prefixes = gin.config._LOCATION_PREFIXES
    before, disabled = list(prefixes), logging.root.manager.disable
    prefixes += [str(folder) for file in files for folder in Path(file).resolve().parents]
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        prefixes[:] = before
        logging.disable(disabled)


def on_one_line(error: Exception) -> str:
    """The message of an error, its lines joined, without what gin adds for programmers."""
    message = _CONFIG_DUMP.sub("", str(error))
    message = _IN_CALL.sub(r"(in \1)", message)
    return " ".join(line.strip() for line in message.splitlines() if line.strip())


def differing_bindings(there: str, now: str) -> list[str]:
    """What two configurations bind differently, as gin prints them: one text a parameter.

    Args:
        there: of what has been made before.
        now: of what is to be made.

    Returns:
        such as "train.seed 1 there, 2 now", in the order of the parameters' names.
    """
    before, after = _bindings(there), _bindings(now)
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


def _bindings(config: str) -> dict[str, str]:
    """Values by name; gin's comments, continuation marks and line breaks apart."""
    lines = [line.removesuffix("\\") for line in config.splitlines() if not line.startswith("#")]
    _, *parts = _BINDING.split("\n".join(lines))
    values = (" ".join(value.split()) for value in parts[1::2])
    return dict(zip(parts[::2], values, strict=True))


def _check_reachable(config: str, roots: Collection[str]) -> None:
    _, *parts = _BINDING.split(config)
    values = dict(zip(parts[::2], parts[1::2], strict=True))

    reached: set[str] = set()
    names = set(roots)
    while names - reached:
        reached |= names
        names = {
            reference.split("/")[-1]
            for binding, value in values.items()
            if _owner(binding) in reached
            for reference in _REFERENCE.findall(value)
        }
    unused = sorted(binding for binding in values if _owner(binding) not in reached)
    if unused:
        raise UserError(
            f"gin binds {', '.join(unused)}, but nothing in this run would read it: delete the "
            "line, or bind what uses it (as train or prepare do)."
        )


def _owner(binding: str) -> str:
    """The configurable that a binding is of; a macro is its own owner."""
    configurable = binding.rsplit(".", 1)[0] if "." in binding else binding
    return configurable.split("/")[-1].split(".")[-1]
