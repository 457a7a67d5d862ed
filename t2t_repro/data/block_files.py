"""Files that grow together, block by block, and a journal of the blocks that are whole.

A killed process leaves a block half written. Whoever opens the files next cuts it off, so that they
hold whole blocks again, the same number in each file.
"""

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_FINISHED = {"finished": True}


@dataclass(frozen=True)
class Block:
    """A whole block.

    Attributes:
        ends: where it ends in each file, bytes from its start, by name.
        note: what the writer wants to know of it, as JSON has it.
    """

    ends: dict[str, int]
    note: dict[str, Any]


class BlockFiles(ExitStack):
    """Opens files to append blocks to, after those that are whole.

    Args:
        journal: where whole blocks are listed; none are, if it is not there.
        paths: the files, by names that the journal knows them by.

    Attributes:
        blocks: the whole ones, in order.
        finished: whether `finish` was called.
    """

    def __init__(self, journal: Path, paths: Mapping[str, Path]) -> None:
        super().__init__()
        for path in (journal, *paths.values()):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        self.blocks, self.finished = _read_journal(journal, paths)
        self._names = tuple(paths)
        for name, end in self._ends().items():
            os.truncate(paths[name], end)
        self._files = {name: self.enter_context(path.open("ab")) for name, path in paths.items()}
        self._journal = self.enter_context(journal.open("a", encoding="utf-8"))

    def append(self, parts: Mapping[str, bytes], note: Mapping[str, Any]) -> None:
        """Appends a block: bytes for every file."""
        ends = self._ends()
        for name, part in parts.items():
            self._files[name].write(part)
            self._files[name].flush()
            ends[name] += len(part)
        block = Block(ends, dict(note))
        self._log(asdict(block))
        self.blocks.append(block)

    def finish(self) -> None:
        """Notes that no block is to follow."""
        self._log(_FINISHED)
        self.finished = True

    def _ends(self) -> dict[str, int]:
        return dict(self.blocks[-1].ends) if self.blocks else dict.fromkeys(self._names, 0)

    def _log(self, entry: dict[str, Any]) -> None:
        self._journal.write(json.dumps(entry) + "\n")
        self._journal.flush()


def _read_journal(journal: Path, paths: Mapping[str, Path]) -> tuple[list[Block], bool]:
    """Reads which blocks are whole, and whether they are all; cuts what follows off the journal."""
    sizes = {name: path.stat().st_size for name, path in paths.items()}
    blocks: list[Block] = []
    finished, good = False, 0
    with journal.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                break
            try:
                entry = json.loads(line)
                if entry == _FINISHED:
                    finished = True
                else:
                    block = Block(**entry)
                    # Where the machine itself went down, the journal may know more than the files.
                    if not all(0 <= block.ends[name] <= size for name, size in sizes.items()):
                        break
                    blocks.append(block)
            except (ValueError, TypeError, KeyError, RecursionError):
                break
            good += len(line)
    os.truncate(journal, good)
    return blocks, finished
