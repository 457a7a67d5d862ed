"""What verbs check before their work begins."""

import importlib.util
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from absl import flags

from t2t_repro.errors import UserError


def check_new(flag: str) -> None:
    """Says that a directory to be made is there already, with something in it.

    Args:
        flag: that names it.

    Raises:
        UserError: it is.
    """
    path = Path(str(flags.FLAGS[flag].value))
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(
            f"--{flag}={path} is there already; expected a directory to be made: give another, or "
            "delete it."
        )


@contextmanager
def making(flag: str) -> Iterator[Path]:
    """Keeps other processes from making the same directory.

    Args:
        flag: that names it.

    Yields:
        its absolute path.

    Raises:
        UserError: another process makes it; it is named.
    """
    from t2t_repro.files import exclusive_lock

    given = str(flags.FLAGS[flag].value)
    path = Path(os.path.abspath(given))
    # Beside it: the directory itself appears whole.
    lock = path.with_name(f".{path.name}.lock")
    with exclusive_lock(lock, given, f"give another --{flag}"):
        yield path


def check_model_name() -> None:
    """Says that --model_name cannot be part of a URL, where clients will put it.

    Raises:
        UserError: it cannot.
    """
    name = flags.FLAGS.model_name
    if not re.fullmatch(r"[\w.-]+", name, re.ASCII):
        raise UserError(
            f"--model_name={name}: expected letters, digits, '_', '-' and '.'; "
            "it becomes part of a URL."
        )


def check_extra(extra: str, *modules: str) -> None:
    """Says how to install what a verb needs beyond the package's own requirements.

    Args:
        extra: of setup.py.
        *modules: that it installs.

    Raises:
        UserError: one of them is missing.
    """
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise UserError(f"{module} is not installed: pip install 't2t_repro[{extra}]'.")
