"""The clean text of a split on disk: a file of source and a file of target sentences."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from t2t_repro.data.corpora.corpus import Pair

PAIRS_IN_BLOCK = 10_000
"""Some 3 megabytes of text, a third of a second's work of one core."""


TextBlock = tuple[str, bytes, bytes]
"""Some pairs of a split: the name of their corpus in a mixture, "" for a single corpus; and the
source and the target lines in UTF-8, each with a newline."""


class CleanText:
    """The text of one split.

    Args:
        directory: of the two files.
        split: its name.
    """

    def __init__(self, directory: Path, split: str) -> None:
        self._paths = tuple(directory / f"{split}.{side}.txt" for side in ("source", "target"))

    def write(self, blocks: Iterable[Sequence[Pair]]) -> None:
        """Writes all pairs; replaces what an interrupted run left."""
        with ExitStack() as opened:
            files = [
                opened.enter_context(path.open("w", encoding="utf-8", newline="\n"))
                for path in self._paths
            ]
            for pairs in blocks:
                for side, file in enumerate(files):
                    file.writelines(f"{pair[side]}\n" for pair in pairs)

    def __iter__(self) -> Iterator[Pair]:
        """Yields all pairs.

        Raises:
            OSError: a file is missing.
            ValueError: the files have different numbers of lines, or are not UTF-8.
        """
        # newline="\n": a sentence may hold a carriage return.
        source_path, target_path = self._paths
        with (
            source_path.open(encoding="utf-8", newline="\n") as source,
            target_path.open(encoding="utf-8", newline="\n") as target,
        ):
            for source_line, target_line in zip(source, target, strict=True):
                yield source_line[:-1], target_line[:-1]

    def blocks(self, counts: Mapping[str, int]) -> Iterator[TextBlock]:
        """Yields all pairs in blocks that are fast to send to another process.

        Args:
            counts: number of pairs of each corpus, in the order of the text.
        """
        source_path, target_path = self._paths
        with source_path.open("rb") as source, target_path.open("rb") as target:
            for corpus, count in counts.items():
                for start in range(0, count, PAIRS_IN_BLOCK):
                    size = min(PAIRS_IN_BLOCK, count - start)
                    yield corpus, b"".join(islice(source, size)), b"".join(islice(target, size))
