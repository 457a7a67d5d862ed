"""Texts that belong together line by line, read block by block: in bounded memory, however long."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from itertools import islice, zip_longest
from typing import NamedTuple

from t2t_repro.command_line.text_lines import named_input, stream_input
from t2t_repro.errors import UserError

# So many that sentences of similar length fill a batch: benchmarks/stream.py measures it.
_LINES = 4096
# Longer lines are fewer.
_CHARACTERS = 2**22


class LineBlock(NamedTuple):
    """Lines that are translated together; where blocks end depends on the lines alone.

    Attributes:
        first: the number of its first line, from 1.
        texts: its lines, by the flags that gave the texts; of each as many.
        digest: SHA-256 of all lines up to its end.
    """

    first: int
    texts: dict[str, list[str]]
    digest: str


class AlignedTexts:
    """Reads texts of which lines n belong together.

    Args:
        paths: of the files, plain or `.gz`, by the flags that gave them; None is standard input.

    Attributes:
        total: how many lines there are; None if that is not known, as of a pipe.

    Raises:
        UserError: a file is not there, is not UTF-8, or has not as many lines as another.
    """

    def __init__(self, paths: Mapping[str, str | None]) -> None:
        self._paths = dict(paths)
        # What can be read twice is checked before hours of translation.
        counts = {
            flag: sum(1 for _ in stream_input(path, flag))
            for flag, path in paths.items()
            if path and (os.path.isfile(path) or os.path.isdir(path) or not os.path.exists(path))
        }
        if len(set(counts.values())) > 1:
            received = ", ".join(
                f"{named_input(paths[flag], flag)} has {count} lines"
                for flag, count in counts.items()
            )
            raise UserError(f"{received}: expected files in which line n belongs to line n.")
        self.total = next(iter(counts.values()), None)
        self._digest = hashlib.sha256()
        self._rows = self._read()
        self._next = 1

    def skip(self, lines: int) -> str:
        """Passes over lines, and returns their digest, as `LineBlock` has it."""
        for row in islice(self._rows, lines):
            self._count(row)
        return self._digest.hexdigest()

    def __iter__(self) -> Iterator[LineBlock]:
        """Yields the blocks of what has not been read.

        Raises:
            UserError: standard input is not UTF-8, or has not as many lines as a file.
        """
        while rows := list(self._take()):
            first = self._next - len(rows)
            columns = map(list, zip(*rows, strict=True))
            texts = dict(zip(self._paths, columns, strict=True))
            yield LineBlock(first, texts, self._digest.hexdigest())

    def _take(self) -> Iterator[tuple[str, ...]]:
        """The rows of the next block."""
        characters = 0
        for row in islice(self._rows, _LINES):
            self._count(row)
            yield row
            characters += sum(map(len, row))
            if characters > _CHARACTERS:
                return

    def _count(self, row: tuple[str, ...]) -> None:
        self._digest.update("".join(f"{line}\n" for line in row).encode())
        self._next += 1

    def _read(self) -> Iterator[tuple[str, ...]]:
        streams = [stream_input(path, flag) for flag, path in self._paths.items()]
        for number, row in enumerate(zip_longest(*streams), start=1):
            for line, (flag, path) in zip(row, self._paths.items(), strict=True):
                if line is None:
                    raise UserError(
                        f"{named_input(path, flag)} has {number - 1} lines, but there is a line "
                        f"{number} to translate with it: expected as many lines of each."
                    )
            yield row
