"""Works on long texts block by block, in bounded memory; goes on after a kill.

Finished blocks are appended to `<output>.partial`: a head line with the settings, then a JSON line
for each block. The same command, given again, skips the blocks that are there.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from t2t_repro.command_line.text_lines import file_path, named_input, stream_input, write_output
from t2t_repro.data.line_files import check_line_counts
from t2t_repro.errors import UserError
from t2t_repro.files import exclusive_lock, naming, write_whole
from t2t_repro.progress import Progress

# Enough for batches of similar length. A block ends sooner where lines are long.
_LINES, _CHARACTERS = 4096, 2**22


class Block(NamedTuple):
    """Lines that are worked on together.

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
    inputs: Mapping[str, str | None],
    outputs: Mapping[str, str | None],
    settings: Callable[[], Mapping[str, Any]],
    work: Callable[[Block], Outputs],
    total: int | None = None,
) -> None:
    """Reads inputs, works on their blocks, and writes outputs.

    Args:
        stage: for the progress, e.g. "translate".
        inputs: paths of texts that belong together line by line, by flag; see `stream_input`.
        outputs: paths by flag, "output" first, which can be standard output; see `file_path`.
        settings: returns all but the inputs that determines the outputs, by the names that errors
            give them; called if there is an output file.
        work: computes the outputs of a block.
        total: number of lines, if known; see `count_lines`.

    Raises:
        UserError: an input is unusable, or the partial file belongs to another command.
    """
    blocks = read_blocks(inputs)
    if not (output := file_path(outputs["output"])):
        with Progress(stage, 0, total, "lines") as progress:
            for block in blocks:
                for lines in work(block).values():
                    write_output(lines, None)
                progress.advance(_length(block))
        return
    path = Path(output)
    lock = path.with_name(f".{path.name}.lock")
    with exclusive_lock(lock, f"--output={output}", "give another --output"):
        partial = _PartialFile(Path(f"{output}.partial"), settings())
        done = partial.skip(blocks)
        with Progress(stage, done, total, "lines") as progress:
            for block in blocks:
                partial.append(block, work(block))
                progress.advance(_length(block))
        # --output last: once it exists, so do the others.
        for flag, place in reversed([*outputs.items()]):
            write_output(partial.lines(flag), place)
        partial.path.unlink(missing_ok=True)


class _PartialFile:
    """The file of finished blocks; it exists once there is one.

    Args:
        path: of the file.
        settings: see `work_in_blocks`.

    Raises:
        UserError: the file was begun with other settings, or is another program's.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        self._head = json.dumps(settings)
        if path.exists():
            with path.open("r+b") as file:
                self._check(file.readline())
                # A killed process may have written a part of a line.
                whole = file.tell()
                while (line := file.readline()).endswith(b"\n"):
                    whole += len(line)
                file.truncate(whole)

    def _check(self, line: bytes) -> None:
        settings = json.loads(self._head)
        try:
            begun = json.loads(line)
            differing = [name for name in settings if begun[name] != settings[name]]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{self.path} is not of this command: move it away, or give another --output."
            ) from error
        if differing:
            raise UserError(
                f"{self.path} was begun with other settings ({', '.join(differing)}): give the "
                f"same command to go on, or delete {self.path} to begin again."
            )

    def skip(self, blocks: Iterator[Block]) -> int:
        """Skips the blocks that are finished, and returns how many lines these are.

        Raises:
            UserError: the input was another.
        """
        lines = 0
        for record in self._records():
            block = next(blocks, None)
            if block is None or record["input"] != _digest(block):
                raise UserError(
                    f"{self.path} was begun with another input: give the same one to go on, or "
                    f"delete {self.path} to begin again."
                )
            lines += _length(block)
        return lines

    def append(self, block: Block, outputs: Outputs) -> None:
        """Appends a finished block."""
        record = json.dumps({"input": _digest(block), "outputs": outputs}, ensure_ascii=False)
        if not self.path.exists():
            write_whole(self.path, f"{self._head}\n".encode())
        with naming(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(record + "\n")

    def lines(self, flag: str) -> Iterator[str]:
        """Yields the lines of an output."""
        for record in self._records():
            yield from record["outputs"][flag]

    def _records(self) -> Iterator[Any]:
        if self.path.exists():
            with self.path.open(encoding="utf-8") as file:
                yield from map(json.loads, islice(file, 1, None))


def read_blocks(inputs: Mapping[str, str | None]) -> Iterator[Block]:
    """Yields the blocks of inputs that belong together line by line; see `work_in_blocks`.

    Where a block ends depends on the lines alone.

    Raises:
        UserError: an input cannot be read, or has fewer lines than another.
    """
    rows = zip_longest(*(stream_input(path, flag) for flag, path in inputs.items()))
    first = 1
    while block := list(_take(rows)):
        columns = dict(zip(inputs, map(list, zip(*block, strict=True)), strict=True))
        for flag, lines in columns.items():
            if None in lines:
                raise UserError(
                    f"{named_input(inputs[flag], flag)} has {first - 1 + lines.index(None)} lines, "
                    "expected as many as the other input has: line n belongs to line n."
                )
        yield Block(first, columns)
        first += len(block)


def _take(rows: Iterator[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    characters = 0
    for row in islice(rows, _LINES):
        yield row
        characters += sum(len(line or "") for line in row)
        if characters > _CHARACTERS:
            return


def count_lines(inputs: Mapping[str, str | None]) -> int | None:
    """Counts the lines of all files, before hours of work.

    Args:
        inputs: see `work_in_blocks`.

    Returns:
        their number, or None if no input is a file.

    Raises:
        UserError: a file is unusable, or has fewer lines than another.
    """
    counts = {
        named_input(path, flag): sum(1 for _ in stream_input(path, flag))
        for flag, path in inputs.items()
        if file_path(path) and (os.path.isfile(str(path)) or not os.path.exists(str(path)))
    }
    check_line_counts(counts)
    return next(iter(counts.values()), None)


def _length(block: Block) -> int:
    return len(next(iter(block.texts.values())))


def _digest(block: Block) -> str:
    return hashlib.sha256(json.dumps(block.texts).encode()).hexdigest()
