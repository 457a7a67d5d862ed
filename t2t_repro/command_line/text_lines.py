"""Reads and writes text line by line, and asks for it at a terminal."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from absl import flags

from t2t_repro.data.line_files import COMPRESSED, read_lines
from t2t_repro.errors import UserError
from t2t_repro.files import naming, whole_file

_INPUTS = {"input", "prefix", "source", "target", "reference", "translations", "baseline"}
_OUTPUTS = {"output", "alignments"}
"""The flags that name a text file; "-" is standard input or output."""

_STANDARD_INPUT = "/dev/stdin"


def read_input(path: str | None, flag: str = "input") -> list[str]:
    """Reads all lines of a file, or of standard input; see `stream_input`."""
    return list(stream_input(path, flag))


def stream_input(path: str | None, flag: str = "input") -> Iterator[str]:
    r"""Yields the lines of a file, plain or compressed; only \n ends a line.

    Args:
        path: of the file; None or "-" for standard input.
        flag: that gave the path, for errors.

    Raises:
        UserError: the file cannot be read (see `read_lines`), or standard input is two texts.
    """
    file = file_path(path)
    names = [f"--{name}" for name, one in _named_files() if one == _STANDARD_INPUT]
    if not file and len(names) > 1:
        raise UserError(f"{' and '.join(names)} are standard input, expected one: give a file.")
    yield from read_lines(Path(file) if file else None, named_input(path, flag))


def file_path(path: str | None) -> str | None:
    """Returns a path; None for standard input or output, which is "-" too."""
    return None if path == "-" else path


def named_input(path: str | None, flag: str) -> str:
    """Returns the name of an input in errors."""
    return f"--{flag}={path}" if file_path(path) else "standard input"


def _named_files() -> Iterator[tuple[str, str]]:
    """Yields the flags that name text files, and each path."""
    for name in sorted((_INPUTS | _OUTPUTS) & {*flags.FLAGS}):
        value = flags.FLAGS[name].value or ("-" if name == "input" else [])
        for path in [value] if isinstance(value, str) else value:
            yield name, _STANDARD_INPUT if path == "-" and name in _INPUTS else path


def write_output(lines: Iterable[str], path: str | None) -> None:
    """Writes lines to standard output, or to a file that appears whole or not at all.

    Args:
        lines: to write.
        path: of the file, compressed if its name ends as in `COMPRESSED`; None or "-" for standard
            output.
    """
    if not (file_name := file_path(path)):
        with naming("standard output"):
            for line in lines:
                sys.stdout.buffer.write(line.encode() + b"\n")
            sys.stdout.flush()
        return
    with whole_file(Path(file_name)) as aside:
        opened = COMPRESSED.get(aside.suffix.lower(), open)
        with opened(aside, "wt", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)


def check_output(flag: str = "output") -> None:
    """Checks that a file can be written, before hours of work.

    Args:
        flag: that names the file; without a value there is nothing to check.

    Raises:
        UserError: the path is not a file, its directory is missing or read-only, its name says a
            compression that is not written, or another flag names the same file.
    """
    if not (path := flags.FLAGS[flag].value) or (path == "-" and flag == "output"):
        return
    if path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
        raise UserError(f"--{flag}={path}: expected a file, or a new one.")
    if not os.access(os.path.dirname(path) or ".", os.W_OK):
        raise UserError(f"--{flag}={path}: expected a file in a directory that can be written to.")
    if path.lower().endswith((".zip", ".zst", ".7z")):
        raise UserError(f"--{flag}={path}: expected a text, or one in {', '.join(COMPRESSED)}.")
    for name, other in _named_files():
        if name != flag and _identity(other) == _identity(path):
            raise UserError(f"--{flag}={path} is the file of --{name} too: give another one.")


def _identity(path: str) -> object:
    """Returns the same for two names of one file, also by links; a file may be new."""
    return os.stat(path)[1:3] if os.path.exists(path) else os.path.realpath(path)


def one_line(text: str) -> str:
    r"""Returns a translation as one line; a model can write "\n" if it has such a subword."""
    return text.replace("\n", " ")


def written(
    number: int, translations: Iterable[tuple[str, float, bool]], scores: bool
) -> Iterator[str]:
    """Yields the output lines of an input line.

    Args:
        number: of the input line, from 1.
        translations: text, score, and whether it is finished, of each.
        scores: adds the number and the score, separated by tabs, and marks what is unfinished.
    """
    for text, score, finished in translations:
        row = f"{number}\t{score:.4f}\t{one_line(text)}" + "\tunfinished" * (not finished)
        yield row if scores else one_line(text)


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
