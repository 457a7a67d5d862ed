"""A corpus of a treebank: sentences, and their trees as symbols."""

import glob
from collections.abc import Iterator, Sequence
from os.path import expanduser
from pathlib import Path
from typing import Any

from t2t_repro.config.values import configurable
from t2t_repro.data.corpora.corpus import Pair, given_splits
from t2t_repro.data.line_files import identify
from t2t_repro.errors import UserError
from t2t_repro.parsing.trees import linearise, read_trees

# An entry, or a list of entries.
Files = str | Sequence[str]

_SUFFIXES = (".mrg", ".parse", ".ptb", ".tree", ".trees")


@configurable()
class TreebankCorpus:
    """Sentences and trees of Penn-style files, e.g. the Wall Street Journal (paper, section 6.3).

    A source is a sentence's words, separated by spaces; a target is its tree, cleaned by
    `read_trees` and written by `linearise`. A split is one entry or a list of entries: files,
    folders, or patterns of either. In gin, with the sections of the Penn Treebank::

        TreebankCorpus.folder = '/path/to/treebank_3/parsed/mrg/wsj'
        TreebankCorpus.train = ['0[2-9]', '1?', '20/*.mrg', '21/wsj_2100.mrg']
        TreebankCorpus.dev = '22'
        TreebankCorpus.test = '23'

    Of a folder, all files in it and below it that end in .mrg, .parse, .ptb, .tree or .trees (or
    these with .gz) are read, sorted by name.

    Args:
        train: entries to train on.
        dev: entries for model selection.
        test: entries to evaluate on.
        folder: the folder in which relative names are looked up.
    """

    def __init__(
        self, train: Files, dev: Files | None = None, test: Files | None = None, folder: str = "."
    ) -> None:
        given = given_splits(train, dev, test).items()
        # Not Path.expanduser, which raises an error if there is no user ~name.
        self._folder = Path(expanduser(folder))
        self._entries = {key: [entry] if isinstance(entry, str) else entry for key, entry in given}
        self.splits = tuple(self._entries)

    def describe(self) -> dict[str, Any]:
        """Returns the kind of corpus, and name, size and SHA-256 of every file of each split.

        Raises:
            UserError: an entry has no files.
        """
        splits = {split: [identify(path) for path in self._files(split)] for split in self.splits}
        return {"corpus": "TreebankCorpus", "splits": splits}

    def prepare(self, download_dir: Path) -> None:
        """Checks that every entry has files; none are downloaded.

        Raises:
            UserError: an entry has no files.
        """
        for split in self.splits:
            self._files(split)

    def read(self, split: str, download_dir: Path) -> Iterator[Pair]:
        """Yields sentences with their trees, file after file; `download_dir` is not used.

        Raises:
            UserError: an entry has no files; or a file cannot be read, or has something else than
                trees, or a tree that `linearise` cannot write.
        """
        for path in self._files(split):
            for line, (words, tree) in read_trees(path):
                try:
                    symbols = linearise(tree)
                except ValueError as error:
                    raise UserError(f"{path}, line {line}: {error}") from error
                yield " ".join(words), symbols

    def _files(self, split: str) -> list[Path]:
        """Returns the files of a split, entry after entry.

        Raises:
            UserError: an entry has no files.
        """
        return [path for entry in self._entries[split] for path in self._entry_files(split, entry)]

    def _entry_files(self, split: str, entry: str) -> list[Path]:
        """Returns the files of an entry, at least one.

        Of a folder, files with the suffixes of treebanks; any other file may have any suffix.

        Args:
            split: its name, for the error.
            entry: the name of a file or a folder, or a pattern of names.

        Raises:
            UserError: the entry has no files.
        """
        pattern = expanduser(entry)
        # What exists is a name, also with brackets, which are special in patterns. An empty entry
        # would be the name of the folder itself.
        is_name = bool(entry) and (self._folder / pattern).exists()
        names = [pattern] if is_name else glob.glob(pattern, root_dir=self._folder, recursive=True)
        files: list[Path] = []
        for path in map(self._folder.joinpath, sorted(names)):
            files += sorted(filter(_is_treebank, path.rglob("*"))) if path.is_dir() else [path]
        if not files:
            problem = f"TreebankCorpus.{split}: no file of trees at {self._folder / pattern}"
            expected = f"a file, a pattern, or a folder with files named {', '.join(_SUFFIXES)}"
            raise UserError(f"{problem}; expected {expected}.")
        return files


def _is_treebank(path: Path) -> bool:
    """Returns whether a path is a file with one of `_SUFFIXES`, compressed by gzip or not."""
    return path.name.removesuffix(".gz").endswith(_SUFFIXES) and path.is_file()
