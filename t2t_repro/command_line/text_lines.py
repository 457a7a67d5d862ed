"""Reads and writes text line by line, and asks for it at a terminal."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from absl import flags

from t2t_repro.data.line_files import decoded_lines, read_lines
from t2t_repro.errors import UserError
from t2t_repro.files import whole_file

_FILES = {
    "input", "prefix", "source", "target", "reference", "translations", "baseline", "output",
    "alignments",
}  # fmt: skip
"""The flags that name a text file."""


def read_input(path: str | None, flag: str = "input") -> list[str]:
    """Reads all lines of a file, or of standard input; see `stream_input`."""
    return list(stream_input(path, flag))


def stream_input(path: str | None, flag: str = "input") -> Iterator[str]:
    r"""Yields the lines of a plain or `.gz` file, or of standard input; only \n ends a line.

    Args:
        path: of the file; None for standard input.
        flag: that gave the path, for errors.

    Raises:
        UserError: the file does not exist, or is not UTF-8.
    """
    name = named_input(path, flag)
    yield from read_lines(Path(path), name) if path else decoded_lines(sys.stdin.buffer, name)


def named_input(path: str | None, flag: str) -> str:
    """Returns the name of an input in errors."""
    return f"--{flag}={path}" if path else "standard input"


def write_output(lines: Iterable[str], path: str | None) -> None:
    """Writes lines to standard output, or to a file that appears whole or not at all."""
    if not path:
        for line in lines:
            sys.stdout.buffer.write(line.encode() + b"\n")
        sys.stdout.flush()
        return
    with whole_file(Path(path)) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def check_output(flag: str = "output") -> None:
    """Checks that a file can be written, before hours of work.

    Args:
        flag: that names the file; without a value there is nothing to check.

    Raises:
        UserError: the path is not a file, its directory is missing or read-only, or another flag
            names the same file.
    """
    if not (path := flags.FLAGS[flag].value):
        return
    if os.path.exists(path) and not os.path.isfile(path):
        raise UserError(f"--{flag}={path}: expected a file, or a new one.")
    if not os.access(os.path.dirname(path) or ".", os.W_OK):
        raise UserError(f"--{flag}={path}: expected a file in a directory that can be written to.")
    for name in _FILES & {*flags.FLAGS} - {flag}:
        value = flags.FLAGS[name].value or []
        for other in [value] if isinstance(value, str) else value:
            if os.path.realpath(other) == os.path.realpath(path):
                raise UserError(f"--{flag}={path} is the file of --{name} too: give another one.")


def one_line(text: str) -> str:
    r"""Returns a translation as one line; a model can write "\n" if it has such a subword."""
    return text.replace("\n", " ")


def written(number: int, translations: Iterable[tuple[str, float]], scores: bool) -> Iterator[str]:
    """Yields the output lines of an input line.

    Args:
        number: of the input line, from 1.
        translations: texts and scores.
        scores: adds the number and the score, separated by tabs.
    """
    for text, score in translations:
        yield f"{number}\t{score:.4f}\t{one_line(text)}" if scores else one_line(text)


def converse(translated: Callable[[Sequence[str]], Iterable[str]]) -> None:
    """Asks for sentences at a terminal, and prints the translations of each.

    Args:
        translated: returns the output lines of input lines.
    """
    # Imported, readline edits the lines of input() and remembers earlier ones.
    with suppress(ImportError):
        import readline  # noqa: F401

    print("A sentence a line; an empty line ends.", file=sys.stderr)
    with suppress(EOFError):
        while (line := input("source> ")).strip():
            print(*translated([line]), sep="\n")
