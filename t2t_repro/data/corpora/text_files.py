"""Parallel text of the user's own: aligned files, or files of two tab-separated columns."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from os.path import expanduser
from pathlib import Path
from typing import Any

from t2t_repro.config.values import configurable
from t2t_repro.data.corpora.corpus import Pair, given_splits
from t2t_repro.data.line_files import check_line_counts, count_lines, identify, read_lines
from t2t_repro.errors import UserError

Entry = str | Sequence[str]
"""`"train.tsv"`: source and target in two columns; `("train.en", "train.de")`: aligned files."""


@configurable()
class TextFilesCorpus:
    """Parallel text in UTF-8 files, plain or compressed (`.gz`, `.xz`, `.bz2`), a sentence a line.

    A split is one entry, or a list of entries that are read one after the other. In gin::

        TextFilesCorpus.train = [("a.en", "a.de"), ("b.en.gz", "b.de.gz"), "c.tsv"]
        TextFilesCorpus.dev = ("dev.en", "dev.de")

    A tuple of two names is a pair of aligned files; a single name is a file of two columns; in a
    list, `["a.en", "a.de"]` is a pair too. Names are relative to the working directory. Only a
    newline ends a line (a carriage return before it is dropped); characters such as U+2028 are part
    of a sentence.

    Args:
        train: entries to train on.
        dev: entries for model selection; optional in a mixture.
        test: entries to evaluate on.
        more_tests: entries of further test sets, by name.
    """

    def __init__(
        self,
        train: Entry | Sequence[Entry],
        dev: Entry | Sequence[Entry] | None = None,
        test: Entry | Sequence[Entry] | None = None,
        more_tests: Mapping[str, Entry | Sequence[Entry]] | None = None,
    ) -> None:
        given = given_splits(train, dev, test) | dict(more_tests or {})
        self._files = {split: _parse_entries(split, value) for split, value in given.items()}
        self.splits = tuple(self._files)

    def describe(self) -> dict[str, Any]:
        """Returns name, size and SHA-256 of every file; its folder does not matter."""
        return {
            "corpus": "TextFilesCorpus",
            "splits": {
                split: [[identify(path) for path in paths] for paths in entries]
                for split, entries in self._files.items()
            },
        }

    def prepare(self, download_dir: Path) -> None:
        """Checks that files exist, are not blank, and have as many lines as their partners.

        Args:
            download_dir: not used.

        Raises:
            UserError: a check fails.
        """
        for split, entries in self._files.items():
            for paths in entries:
                check_line_counts({str(path): count_lines(path) for path in paths})
                if not any(source.strip() and target.strip() for source, target in _read(paths)):
                    raise UserError(
                        f"{' and '.join(map(str, paths))}: no line has text on both sides, "
                        f"expected sentence pairs in TextFilesCorpus.{split}: check the files."
                    )

    def read(self, split: str, download_dir: Path) -> Iterator[Pair]:
        """Yields the pairs of a split, entry after entry.

        Args:
            split: one of `splits`.
            download_dir: not used.
        """
        return chain.from_iterable(map(_read, self._files[split]))


def _parse_entries(split: str, value: Entry | Sequence[Entry]) -> list[tuple[Path, ...]]:
    """Returns for each entry one path (columns) or two (aligned)."""
    parsed = []
    for entry in value if isinstance(value, list) else [value]:
        names = (entry,) if isinstance(entry, str) else entry
        if len(names) > 2:
            raise UserError(
                f"TextFilesCorpus.{split} is {entry!r}, expected a pair of files "
                "('a.en', 'a.de'), a file of two columns 'a.tsv', or a list of these"
            )
        parsed.append(tuple(Path(expanduser(str(name))) for name in names))
    return parsed


def _read(paths: tuple[Path, ...]) -> Iterator[Pair]:
    if len(paths) == 1:
        return _read_columns(paths[0])
    return zip(read_lines(paths[0]), read_lines(paths[1]), strict=True)


def _read_columns(path: Path) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise UserError(
                f"{path}, line {number}: {len(columns)} tab-separated columns, expected 2 (source, "
                "target); write two aligned files as a tuple, ('a.en', 'a.de')"
            )
        yield columns[0], columns[1]
