"""gin: parsing an experiment's file, and refusing what nothing would use."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path

import gin

from t2t_repro.errors import UserError

_BINDING = re.compile(r"^([\w./]+) =", re.MULTILINE)
_REFERENCE = re.compile(r"[@%]([\w./]+)")


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
    if gin_file and not Path(gin_file).is_file():
        raise UserError(f"--gin_file={gin_file}: no such file; expected one such as gin/*.gin.")
    files = [str(gin_file)] if gin_file else []
    try:
        gin.parse_config_files_and_bindings(files, list(gin_params))
    except (ValueError, SyntaxError, OSError, AttributeError, RuntimeError) as error:
        raise UserError(f"gin: {on_one_line(error)}") from error
    _check_reachable(gin.config_str(), roots)


def on_one_line(error: Exception) -> str:
    """The message of an error, its lines joined."""
    return " ".join(line.strip() for line in str(error).splitlines() if line.strip())


def _check_reachable(config: str, roots: Collection[str]) -> None:
    values: dict[str, str] = {}
    matches = list(_BINDING.finditer(config))
    ends = [match.start() for match in matches[1:]] + [len(config)]
    for match, end in zip(matches, ends, strict=True):
        values[match[1]] = config[match.end() : end]

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
