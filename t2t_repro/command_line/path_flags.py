"""Flags that take files and directories of this machine."""

import errno
import os
import unicodedata

from absl import flags

# Bytes of the longest path in a directory that a verb writes.
_LONGEST_BELOW = 200


def define_path(name: str, default: str | None, help_text: str, is_required: bool = False) -> None:
    """Defines a flag that takes a file or directory.

    Args:
        name: of the flag.
        default: its value where it is not given.
        help_text: for --help.
        is_required: whether it has to be given.
    """
    flags.DEFINE(
        _LocalPath(), name, default, help_text,
        serializer=flags.ArgumentSerializer(), required=is_required,
    )  # fmt: skip
    if is_required:
        flags.register_validator(name, lambda path: path != "", "expected a path")


def define_paths(name: str, help_text: str) -> None:
    """Defines a flag that takes a file or directory, and may be given several times."""
    flags.DEFINE_multi(_LocalPath(), flags.ArgumentSerializer(), name, [], help_text)


class _LocalPath(flags.ArgumentParser[str]):
    """A file or directory of this machine, where another program would take gs://... as well."""

    def parse(self, argument: str) -> str:
        scheme, separator, _ = argument.partition("://")
        if separator:
            raise ValueError(
                "token stores are memory-mapped, checkpoints and all output are written aside and "
                f"renamed, which {scheme}:// does not allow; expected a path on this machine: "
                "mount it, or copy from and to a local disk"
            )
        if not all(map(_fits_on_a_line, argument)):
            raise ValueError(
                "expected a path without line breaks and other control characters, in UTF-8: "
                "TensorFlow and the log cannot take others"
            )
        # A shell does so too, but not behind "--flag=".
        path = os.path.expanduser(argument)
        if os.path.islink(path) and not os.path.exists(path):
            raise ValueError(f"is a link to nothing: {os.readlink(path)}")
        _check_length(path)
        return path

    def flag_type(self) -> str:
        return "path"


def _fits_on_a_line(character: str) -> bool:
    """Whether it is one of Unicode's letters, marks, numbers, symbols, spaces or their like."""
    category = unicodedata.category(character)
    return category[0] in "LMNPS" or category in ("Zs", "Cf", "Co", "Cn")


def _check_length(path: str) -> None:
    names = [f"{os.sep}{name}" for name in path.split(os.sep)]
    for looked_for in (os.path.join(path, "x" * _LONGEST_BELOW), *names):
        try:
            os.lstat(looked_for)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise ValueError(
                    "is too long; give one that this system can open, and a file below it"
                ) from error
