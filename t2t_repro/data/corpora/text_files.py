"""Parallel text of the user's own: aligned files, or files of two tab-separated columns."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, islice
from os.path import expanduser, realpath
from pathlib import Path
from typing import Any

from absl import logging

from t2t_repro.config.values import configurable
from t2t_repro.data.corpora.corpus import Pair, given_splits
from t2t_repro.data.line_files import check_line_counts, identify, read_lines
from t2t_repro.errors import UserError

Entry = str | Sequence[str]
"""`"train.tsv"`: source and target in two columns; `("train.en", "train.de")`: aligned files."""

# Other formats of parallel text, by regular expressions of a file's name and first line.
_FORMATS = {
    r".*\n\s*<(\?xml|!doctype|tmx|xliff|srcset|refset|tstset)\b": "TMX or other XML",
    r'.*\n\s*([\[{]\s*)+("|$)': "JSON",
    r".*\.csv(\.\w+)?\n[^\t]*$": "CSV",
}

# What files of these formats are to be converted to.
_PLAIN_TEXT = "a sentence a line, in a file for each side, or to lines of source, tab and target"


@configurable()
class TextFilesCorpus:
    """Parallel text in UTF-8 files, with a sentence on each line.

    Files are plain or compressed (`.gz`, `.xz`, `.bz2`). A split is one entry, or a list of entries
    that are read one after the other. In gin::

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

    Attributes:
        splits: the names of the splits that are given.

    Raises:
        UserError: an entry is neither one file nor two, or a name of `more_tests` cannot be used.
    """

    def __init__(
        self,
        train: Entry | Sequence[Entry],
        dev: Entry | Sequence[Entry] | None = None,
        test: Entry | Sequence[Entry] | None = None,
        more_tests: Mapping[str, Entry | Sequence[Entry]] | None = None,
    ) -> None:
        given = given_splits(train, dev, test)
        if wrong := [name for name in more_tests or {} if name in given or "/" in name]:
            problem = f"TextFilesCorpus.more_tests has {wrong[0]!r}"
            raise UserError(f"{problem}, expected a name of its own, without a slash.")
        given |= dict(more_tests or {})
        self._files = {split: _parse_entries(split, value) for split, value in given.items()}
        self.splits = tuple(self._files)

    def describe(self) -> dict[str, Any]:
        """Returns name, size and SHA-256 of every file; its folder does not matter.

        Raises:
            UserError: a file is missing.
        """
        splits = {}
        for split, entries in self._files.items():
            splits[split] = [list(map(identify, paths)) for paths in entries]
        return {"corpus": "TextFilesCorpus", "splits": splits}

    def prepare(self, download_dir: Path) -> None:
        """Checks files, columns and line counts; warns if source and target look exchanged.

        Raises:
            UserError: a file is missing, blank or in another format, or line counts differ.
        """
        for split, entries in self._files.items():
            for paths in entries:
                columns = 2 if len(paths) == 1 else 1
                check_line_counts({str(path): _count_lines(path, columns) for path in paths})
                if not any(source.strip() and target.strip() for source, target in _read(paths)):
                    problem = f"{' and '.join(map(str, paths))}: no line has text on both sides"
                    expected = f"expected sentence pairs in TextFilesCorpus.{split}"
                    raise UserError(f"{problem}, {expected}: check the files.")
                _warn_if_exchanged(self._files["train"][0], paths)

    def read(self, split: str, download_dir: Path) -> Iterator[Pair]:
        """Returns an iterator over the pairs of a split, entry after entry.

        `download_dir` is not used. `prepare` has checked the files.
        """
        return chain.from_iterable(map(_read, self._files[split]))


def _parse_entries(split: str, value: Entry | Sequence[Entry]) -> list[tuple[Path, ...]]:
    """Returns the paths of each entry of a split.

    Args:
        split: its name, for errors.
        value: one entry or a list of them, as given in gin.

    Raises:
        UserError: an entry is neither one file nor two different ones, or the list is empty.
    """
    # One entry: a name, or a tuple of names. Any other tuple is a list of entries, as lists are.
    is_entry = not isinstance(value, list) and all(isinstance(name, str) for name in value)
    # An empty list is refused like an entry without files.
    entries: Sequence[Any] = [value] if is_entry else value or [()]
    return [_parse_entry(split, entry) for entry in entries]


def _parse_entry(split: str, entry: Any) -> tuple[Path, ...]:
    """Returns the paths of an entry: of one file of two columns, or of two aligned files.

    Raises:
        UserError: it is neither one file nor two different ones.
    """
    names = (entry,) if isinstance(entry, str) else entry
    # Not `Path.expanduser`, which fails where a user has no home.
    paths = tuple(Path(expanduser(str(name))) for name in names)
    # Two names may lead to one file, e.g. by a link.
    are_different = len({*map(realpath, paths)}) == len(paths)
    if len(paths) not in (1, 2) or not are_different:
        problem = f"TextFilesCorpus.{split} is {entry!r}"
        expected = "a pair of different files ('a.en', 'a.de'), a file of two columns 'a.tsv'"
        raise UserError(f"{problem}, expected {expected}, or a list of these")
    return paths


def _read(paths: tuple[Path, ...]) -> Iterator[Pair]:
    """Returns an iterator over the pairs of an entry, whose columns `_count_lines` has checked."""
    if len(paths) == 2:
        return zip(*map(read_lines, paths), strict=True)
    return (tuple(line.split("\t")) for line in read_lines(paths[0]))  # type: ignore[misc]


def _count_lines(path: Path, columns: int) -> int:
    """Counts the lines of a file, and checks that they are text of some columns.

    Args:
        path: a file of an entry.
        columns: 2 if the file is the whole entry, 1 if it is one side.

    Raises:
        UserError: the file is not plain text, or too many lines have another number of columns.
    """
    start = f"{path.name}\n{next(read_lines(path), '')}"
    for pattern, kind in _FORMATS.items():
        if re.match(pattern, start, re.I):
            raise UserError(f"{path} is {kind}, expected text: convert it to {_PLAIN_TEXT}.")
    # The columns of each line. They are bytes, at most 255, since a corpus has millions of lines.
    counts = bytes(min(line.count("\t") + 1, 255) for line in read_lines(path))
    unfit = [number for number, count in enumerate(counts, start=1) if count != columns]
    # The text of one side has a stray tab here and there: one in the 29,000 German lines of
    # Multi30k. In two columns, a stray tab would make the pair wrong.
    tolerated = len(counts) / 1000 if columns == 1 else 0
    if len(unfit) > tolerated:
        problem = f"{path}, line {unfit[0]}: {counts[unfit[0] - 1]} tab-separated columns"
        forms = "'a.tsv' has two columns, source and target; ('a.en', 'a.de') have no tabs"
        raise UserError(f"{problem}, expected {columns}: {forms}; a list has several of them.")
    return len(counts)


@cache  # A process checks a corpus several times, but warns once.
def _warn_if_exchanged(first: tuple[Path, ...], other: tuple[Path, ...]) -> None:
    """Warns if the source of an entry looks like the target of the first entry.

    Args:
        first: the paths of the first entry of the split train.
        other: the paths of the entry, which may be the first too.
    """
    first_source, first_target = _count_four_grams(first)
    source, _ = _count_four_grams(other)
    # Twice as many is no chance: even languages that are not related share names and numbers.
    if (source & first_target).total() > 2 * (source & first_source).total():
        files, first_files = (" and ".join(map(str, paths)) for paths in (other, first))
        logging.warning(f"{files}: source and target look exchanged, compared with {first_files}")


def _count_four_grams(paths: tuple[Path, ...]) -> list[Counter[str]]:
    """Counts the groups of four characters in the first 500 sources, and targets, of an entry."""
    sources, targets = zip(*islice(_read(paths), 500), strict=True)
    texts = " ".join(sources), " ".join(targets)
    return [Counter(text[i : i + 4] for i in range(len(text) - 3)) for text in texts]
