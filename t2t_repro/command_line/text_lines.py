"""Text by lines: reads, checks and writes it, asks for it, and works on long files block by block.

Finished blocks are appended to `<output>.partial`: a JSON line with settings, a checksum of the
input, and outputs. The same command, given again after a kill, skips these blocks.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from absl import flags

from t2t_repro.data.line_files import COMPRESSED, check_line_counts, read_lines
from t2t_repro.decoding.search import Translation
from t2t_repro.errors import UserError
from t2t_repro.files import exclusive_lock, naming, whole_file
from t2t_repro.progress import Progress, Report

# The flags that name a text file; "-" is standard input for the first.
_INPUTS = {"input", "file", "prefix", "source", "target", "reference", "translations", "baseline"}
_OTHERS = {"output", "alignments", "glossary"}

_STANDARD_INPUT = "/dev/stdin"


def read_input(path: str | None, flag: str = "input") -> list[str]:
    """Reads all lines of a file, or of standard input; raises what `stream_input` raises."""
    return list(stream_input(path, flag))


def stream_input(path: str | None, flag: str = "input") -> Iterator[str]:
    r"""Yields the lines of a file, plain or compressed.

    Only \n ends a line.

    Args:
        path: the file; None or "-" for standard input.
        flag: the flag that gave the path, for errors.

    Raises:
        UserError: at the first line: it is standard input, which another flag is too, or it cannot
            be read.
    """
    file = file_path(path)
    of_stdin = [f"--{name}" for name, named in _named_files() if named == _STANDARD_INPUT]
    if not file and len(of_stdin) > 1:
        raise UserError(f"{' and '.join(of_stdin)} are standard input, expected one: give a file.")
    yield from read_lines(Path(file) if file else None, input_name(path, flag))


def file_path(path: str | None) -> str | None:
    """Returns a path; None if it is "-" or None, for standard input or output."""
    return None if path == "-" else path


def input_name(path: str | None, flag: str) -> str:
    """Returns the name of an input for errors: "--source=a.en", or "standard input"."""
    return f"--{flag}={path}" if file_path(path) else "standard input"


def _named_files() -> Iterator[tuple[str, str]]:
    """Yields the flag and the path of each text file: ("source", "a.en"), ("file", "/dev/stdin").

    Flags without a value are left out, except --input.
    """
    # Each command has some of these flags.
    for name in sorted((_INPUTS | _OTHERS) & {*flags.FLAGS}):
        # --input is standard input by default.
        value = flags.FLAGS[name].value or ("-" if name == "input" else [])
        # Flags that can be given several times have lists.
        for path in [value] if isinstance(value, str) else value:
            yield name, _STANDARD_INPUT if path == "-" and name in _INPUTS else path


def write_output(lines: Iterable[str], path: str | None) -> None:
    """Writes lines to standard output, or to a file, whole or not at all.

    Args:
        lines: the text, without line ends.
        path: the file, compressed if its name ends in .gz, .xz or .bz2; None or "-" for standard
            output.

    Raises:
        OSError: the text cannot be written; the error names the output.
    """
    write_content((line.encode() + b"\n" for line in lines), path)


def write_content(parts: Iterable[bytes], path: str | None) -> None:
    """Writes the parts of a text one after the other, to a path as in `write_output`."""
    if not (file_name := file_path(path)):
        with naming("standard output"):
            sys.stdout.buffer.writelines(parts)
            sys.stdout.flush()
        return
    open_file = COMPRESSED.get(Path(file_name).suffix.lower(), open)
    with whole_file(Path(file_name)) as temporary, open_file(temporary, "wb") as file:
        file.writelines(parts)


def check_output(flag: str = "output") -> None:
    """Checks that a file can be written, before hours of work.

    Args:
        flag: the flag that names the file. Without a value, or with "-" for --output, nothing
            is checked.

    Raises:
        UserError: the file cannot be written, or another flag names it too.
    """
    if not (path := flags.FLAGS[flag].value) or (path == "-" and flag == "output"):
        return
    # "-" is standard output for --output alone.
    is_special = path == "-" or (os.path.exists(path) and not os.path.isfile(path))
    # Only the directory needs to be writable: a new file replaces an old one.
    if is_special or not os.access(os.path.dirname(path) or ".", os.W_OK):
        raise UserError(f"--{flag}={path}: expected a file in a directory that can be written to.")
    for name, named in _named_files():
        if name != flag and _is_same_file(path, named):
            raise UserError(f"--{flag}={path} is the file of --{name} too: give another one.")


def _is_same_file(path: str, other: str) -> bool:
    """Returns whether two paths lead to the same file, by links or not; it may be missing."""
    # Resolved paths differ for hard links.
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


def one_line(text: str) -> str:
    r"""Returns a translation as one line; a model can write "\n" if it has such a subword."""
    return text.replace("\n", " ")


def output_lines(number: int, best: Iterable[Translation], with_scores: bool) -> Iterator[str]:
    r"""Yields the output lines of an input line, one for each translation: its text.

    Args:
        number: number of the input line, from 1.
        best: the translations of the line, the best first.
        with_scores: yields number, score and text, separated by tabs, and "unfinished" as a fourth
            column if the translation is cut off: "3\t-1.2345\tEin Haus\tunfinished".
    """
    for translation in best:
        text = one_line(translation.text)
        mark = "" if translation.finished else "\tunfinished"
        yield f"{number}\t{translation.score:.4f}\t{text}{mark}" if with_scores else text


def converse(translate: Callable[[Sequence[str]], Iterable[str]]) -> None:
    """Asks for sentences at a terminal until a blank line, and prints the lines of `translate`."""
    # The import alone lets input() edit lines and recall earlier ones.
    with suppress(ImportError):
        import readline  # noqa: F401

    print("A sentence a line; an empty line ends.", file=sys.stderr)
    with suppress(EOFError):
        while (line := input("source> ")).strip():
            print(*translate([line]), sep="\n")


# A block has at most so many lines, enough for batches of similar length. It ends sooner if it has
# more than so many characters, since long lines fill the memory.
_LINES, _CHARACTERS = 4096, 2**22


class Block(NamedTuple):
    """Lines of the inputs that are worked on, and whose outputs are stored, together.

    Attributes:
        first: number of the first line, from 1.
        texts: the lines of each input, by the flag that gave it; all have the same number.
    """

    first: int
    texts: Mapping[str, Sequence[str]]


Outputs = Mapping[str, Sequence[str]]
"""The lines of each output, by the flag that names its file."""


def work_in_blocks(
    stage: str,
    blocks: Iterator[Block],
    outputs: Mapping[str, str | None],
    settings: Callable[[], Mapping[str, Any]],
    work: Callable[[Block, Report], Outputs],
    total: int | None = None,
    write: Callable[[Iterable[str], str | None], None] = write_output,
) -> None:
    """Computes the outputs of blocks, and writes them.

    If --output is a file, finished blocks are stored beside it, and the same command goes on.

    Args:
        stage: name of the stage, for the progress, e.g. "translate".
        blocks: from `read_blocks`.
        outputs: paths by flag, "output" first; if that is standard output, it is the only one.
        settings: returns what determines the outputs besides the inputs, by its names in errors;
            called if there is an output file.
        work: computes the outputs of a block; calls its second argument with the share done.
        total: number of lines, if known; see `count_lines`.
        write: writes the lines of an output to its file; not called for standard output.

    Raises:
        UserError: an input is unusable, or another process or command works on --output.
    """
    if not (output := file_path(outputs["output"])):
        with Progress(stage, 0, total, "lines") as progress:
            for block in blocks:
                report = progress.part(_line_count(block))
                write_output(work(block, report)["output"], None)
                report(1.0)  # All is done, whatever share the work has reported.
        return
    # From here on --output is a file.
    lock = Path(output).with_name(f".{Path(output).name}.lock")
    with exclusive_lock(lock, f"--output={output}", "give another --output"):
        partial = _PartialFile(Path(f"{output}.partial"), settings())
        with Progress(stage, partial.skip_finished(blocks), total, "lines") as progress:
            for block in blocks:
                report = progress.part(_line_count(block))
                partial.append(block, work(block, report))
                report(1.0)
        # --output last: if it exists, so do the others.
        for flag, path in reversed([*outputs.items()]):
            write(partial.lines(flag), path)
        partial.path.unlink(missing_ok=True)


class _PartialFile:
    """The file of finished blocks; the first finished block creates it.

    Args:
        path: of the file.
        settings: what determines the outputs besides the inputs; see `work_in_blocks`.

    Raises:
        UserError: there is such a file, and it is not a file of finished blocks.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        # As they are read back from the file, e.g. lists in the place of tuples.
        self._settings = json.loads(json.dumps(settings))
        with suppress(FileNotFoundError), path.open("r+b") as file:
            # A kill may have left only a part of these characters, or none.
            if not b'{"settings": '.startswith(file.peek()[:13]):
                raise UserError(f"{path} is another program's file: move it, or give another.")
            # A kill may have left a part of a line at the end: it is cut off.
            file.truncate(sum(len(line) for line in file if line.endswith(b"\n")))

    def skip_finished(self, blocks: Iterator[Block]) -> int:
        """Takes the finished blocks from the iterator's front; returns how many lines they have.

        Raises:
            UserError: the settings, or the inputs, differ from those of the finished blocks.
        """
        lines = 0
        for record in self._records():
            # If the input has become shorter there is no such block: it differs from the record's.
            block = next(blocks, None)
            settings = self._settings_of(block)
            stored = record["settings"]
            if differing := [name for name in settings if stored.get(name) != settings[name]]:
                problem = f"{self.path} was begun with other settings ({', '.join(differing)})"
                raise UserError(f"{problem}: delete it, or give the same command to go on.")
            lines += _line_count(block)
        return lines

    def append(self, block: Block, outputs: Outputs) -> None:
        """Appends a finished block."""
        record = {"settings": self._settings_of(block), "outputs": outputs}
        with naming(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")

    def lines(self, flag: str) -> Iterator[str]:
        """Yields the finished lines of the output of a flag."""
        for record in self._records():
            yield from record["outputs"][flag]

    def _records(self) -> Iterator[dict[str, Any]]:
        """Yields the "settings" and "outputs" of each finished block; nothing without the file."""
        with suppress(FileNotFoundError), self.path.open(encoding="utf-8") as file:
            yield from map(json.loads, file)

    def _settings_of(self, block: Block | None) -> dict[str, Any]:
        """Returns all that determines the outputs of a block; None is the block after the last."""
        text = json.dumps(block.texts if block else None)
        return self._settings | {"the input": hashlib.sha256(text.encode()).hexdigest()}


def read_blocks(inputs: Mapping[str, str | None]) -> Iterator[Block]:
    """Yields the blocks of parallel inputs.

    The ends of blocks depend on the lines alone: the same command makes the same blocks.

    Args:
        inputs: paths by flag, of files with the same number of lines; see `stream_input`.

    Raises:
        UserError: an input has more lines than another one.
    """
    rows = zip_longest(*(stream_input(path, flag) for flag, path in inputs.items()))
    first = 1
    while block_rows := list(_next_rows(rows)):
        texts = {flag: [row[i] for row in block_rows] for i, flag in enumerate(inputs)}
        for flag, lines in texts.items():
            # zip_longest has filled up the shorter input with None.
            if None in lines:
                count = first - 1 + lines.index(None)
                problem = f"{input_name(inputs[flag], flag)} has {count} lines"
                raise UserError(f"{problem}, expected as many as the other input.")
        yield Block(first, texts)
        first += len(block_rows)


def _next_rows(rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of the next block: a line of each input; None for an input that has ended."""
    characters = 0
    for row in islice(rows, _LINES):
        yield row
        characters += sum(len(line or "") for line in row)
        if characters > _CHARACTERS:
            return


def count_lines(inputs: Mapping[str, str | None]) -> int | None:
    """Counts the lines of parallel files, and compares the numbers, before hours of work.

    Pipes and terminals are left out.

    Args:
        inputs: see `read_blocks`.

    Returns:
        the number of lines, the same of all files; None if no input is a file.

    Raises:
        UserError: the numbers differ, or a file cannot be read.
    """
    counts = {}
    for flag, path in inputs.items():
        file = file_path(path)
        # A pipe or a terminal can be read only once.
        if file and not (Path(file).is_fifo() or Path(file).is_char_device()):
            counts[input_name(path, flag)] = sum(1 for _ in stream_input(path, flag))
    check_line_counts(counts)
    return next(iter(counts.values()), None)


def _line_count(block: Block | None) -> int:
    """Returns the number of lines of each input in a block; 0 for None, after the last block."""
    return len(next(iter(block.texts.values()))) if block else 0
