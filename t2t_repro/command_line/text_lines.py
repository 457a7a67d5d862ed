"""Text that verbs read and write: a line in, a line out, and a prompt at a terminal."""

import gzip
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from io import BufferedIOBase
from pathlib import Path
from typing import cast

from t2t_repro.data.line_files import decoded_lines
from t2t_repro.errors import UserError
from t2t_repro.files import whole_file


def read_input(path: str | None, flag: str = "input") -> list[str]:
    """Reads all lines of a file, or of standard input; see `stream_input`."""
    return list(stream_input(path, flag))


def stream_input(path: str | None, flag: str = "input") -> Iterator[str]:
    r"""Yields the lines of a plain or `.gz` file, or of standard input; only \n ends a line.

    Args:
        path: of the file, or None for standard input.
        flag: that gave the path, for errors.

    Raises:
        UserError: the file is not there, or is not UTF-8.
    """
    try:
        with _opened(path) as file:
            yield from decoded_lines(file, named_input(path, flag))
    except OSError as error:
        raise UserError(f"--{flag}={path}: {error.strerror}; expected a text file.") from error


def named_input(path: str | None, flag: str) -> str:
    """What an error calls a text."""
    return f"--{flag}={path}" if path else "standard input"


def _opened(path: str | None) -> AbstractContextManager[BufferedIOBase]:
    if not path:
        return nullcontext(cast(BufferedIOBase, sys.stdin.buffer))
    return gzip.open(path) if path.endswith(".gz") else open(path, "rb")


def write_output(lines: Iterator[str], path: str | None) -> None:
    """Writes lines to standard output, or to a file that appears whole or not at all.

    Args:
        lines: without their ends.
        path: that --output gave, or None for standard output.

    Raises:
        UserError: the file cannot be written.
    """
    if not path:
        for line in lines:
            sys.stdout.buffer.write(line.encode("utf-8") + b"\n")
        sys.stdout.flush()
        return
    check_output(path)
    try:
        with (
            whole_file(Path(path)) as aside,
            aside.open("w", encoding="utf-8", newline="\n") as file,
        ):
            file.writelines(line + "\n" for line in lines)
    except OSError as error:
        raise UserError(f"--output={path}: {error.strerror}; expected a writable path.") from error


def check_output(path: str | None, flag: str = "output") -> None:
    """Says that there is no place for a file of output, before one is made with much work.

    Args:
        path: that a flag gave, or None for standard output.
        flag: its name.

    Raises:
        UserError: it is a folder or a device, or in no folder, or in one that is not to be
            written to.
    """
    if path and os.path.exists(path) and not os.path.isfile(path):
        mend = "; leave --output out for standard output" if flag == "output" else ""
        raise UserError(f"--{flag}={path}: expected a file{mend}.")
    if path and not os.path.isdir(os.path.dirname(path) or "."):
        raise UserError(
            f"--{flag}={path}: No such file or directory; expected a folder that is there."
        )
    if path and not os.access(os.path.dirname(path) or ".", os.W_OK):
        raise UserError(f"--{flag}={path}: Permission denied; expected a folder to write to.")


def one_line(text: str) -> str:
    """A translation as a line; a model can write whatever has a subword, ends of lines among it."""
    return text.replace("\n", " ")


def written(number: int, found: Iterable[tuple[str, float]], scores: bool) -> Iterator[str]:
    """The lines of output of a line of input.

    Args:
        number: of the line, from 1.
        found: its translations and their scores.
        scores: whether numbers and scores are written.
    """
    for text, score in found:
        yield f"{number}\t{score:.4f}\t{one_line(text)}" if scores else one_line(text)


def converse(translated: Callable[[Sequence[str]], Iterator[str]]) -> None:
    """Asks for sentences at a terminal until there is none, and prints what becomes of each.

    Where Python has readline, lines can be edited, and the arrow keys bring back earlier ones.

    Args:
        translated: the lines to print for lines of input.
    """
    # Imported, it does so for input().
    with suppress(ImportError):
        import readline  # noqa: F401

    print("A sentence a line; an empty line ends.", file=sys.stderr)
    while True:
        try:
            line = input("source> ")
        except (EOFError, KeyboardInterrupt):
            return
        if not line.strip():
            return
        for text in translated([line]):
            print(text)
