"""Pairs from translators' files: translation memories (.tmx), catalogues (.po) and XLIFF.

In gin::

    import translation_memory
    prepare.corpus = @TranslationMemoryCorpus()
    TranslationMemoryCorpus.train = ['memory.tmx', 'de/*.po', 'x.xliff']
    TranslationMemoryCorpus.dev = 'dev.tmx'
    TranslationMemoryCorpus.source_language = 'en'
    TranslationMemoryCorpus.target_language = 'de'
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from glob import glob
from os.path import expanduser
from pathlib import Path
from typing import Any

from absl import logging

from t2t_repro.config.values import configurable
from t2t_repro.data.corpora.corpus import Pair, given_splits
from t2t_repro.data.line_files import identify
from t2t_repro.documents import po, xml
from t2t_repro.documents.edits import Sides, without_key
from t2t_repro.errors import UserError


@configurable()
class TranslationMemoryCorpus:
    """Parallel text in .tmx, .po, .xliff and .xlf files.

    What is fuzzy, obsolete, empty or a header is skipped. Each text becomes a line without inline
    tags, control characters and the marks of shortcut keys.

    Args:
        train: a file or a list of files, also patterns such as 'de/*.po'.
        dev: likewise, for model selection.
        test: likewise, to evaluate on.
        source_language: a code; 'en' takes en-US, EN and en_GB, too.
        target_language: likewise. A file that does not name its languages has these two.
    """

    def __init__(
        self,
        train: str | Sequence[str],
        dev: str | Sequence[str] | None = None,
        test: str | Sequence[str] | None = None,
        source_language: str = "en",
        target_language: str = "de",
    ) -> None:
        given = given_splits(train, dev, test)
        self._names = {k: [v] if isinstance(v, str) else [*v] for k, v in given.items()}
        self._languages = (source_language, target_language)
        self.splits = tuple(given)

    def describe(self) -> dict[str, Any]:
        """Returns the languages, and name, size and SHA-256 of every file."""
        splits = {split: [*map(identify, self._paths(split))] for split in self.splits}
        languages = [*self._languages]
        return {"corpus": type(self).__name__, "languages": languages, "splits": splits}

    def prepare(self, download_dir: Path) -> None:
        """Reads all files, and logs what is skipped.

        Raises:
            UserError: a file cannot be read, or a split has no pairs.
        """
        for split in self.splits:
            counts = Counter(kind for kind, _ in self._units(split))
            numbers = (f"{count:,} {kind}" for kind, count in counts.most_common())
            report = ", ".join(numbers) or "no units"
            logging.info("%s of %s files: %s", split, len(self._paths(split)), report)
            if not counts["pairs"]:
                expected = f"expected pairs of {' and '.join(self._languages)}"
                raise UserError(f"TranslationMemoryCorpus.{split} has {report}; {expected}.")

    def read(self, split: str, download_dir: Path) -> Iterator[Pair]:
        """Yields the pairs of a split, file after file."""
        return (pair for kind, pair in self._units(split) if kind == "pairs")

    def _paths(self, split: str) -> list[Path]:
        found = [
            [name] if Path(name).is_file() else sorted(glob(name, recursive=True))
            for name in map(expanduser, self._names[split])
        ]
        if [] in found:
            name = self._names[split][found.index([])]
            raise UserError(f"TranslationMemoryCorpus.{split}: there is no file {name!r}.")
        return [Path(path) for paths in found for path in paths]

    def _units(self, split: str) -> Iterator[tuple[str, Pair]]:
        """Yields "pairs" with a pair, or the reason for skipping a unit."""
        for path in self._paths(split):
            read_units = po.read_units if ".po" in map(str.lower, path.suffixes) else xml.read_units
            for unit in read_units(path, self._languages):
                yield (unit, ("", "")) if isinstance(unit, str) else self._pair(unit)

    def _pair(self, unit: Sides) -> tuple[str, Pair]:
        places = _places(tuple([code for code, _ in unit]), self._languages)
        if len(places) < 2:
            return "in other languages", ("", "")
        source, target = _line(unit[places[0]][1]), _line(unit[places[1]][1])
        if (plain := without_key(source)) != source:
            # Where there are no such letters: (_F).
            target = re.sub(r"\s*\([&_~]\w\)|[&_~](?=[^\W\d_])", "", target, count=1)
        return ("pairs" if plain and target else "empty"), (plain, target)


def _line(text: str) -> str:
    # Few texts have line breaks.
    return " ".join(text.split()) if "\n" in text else text.strip()


@cache
def _places(codes: Sequence[str], languages: Sequence[str]) -> list[int]:
    """Returns the places of languages among codes: for "en" that of en, else that of en-US."""
    tags = [f"{code}-".lower().replace("_", "-") for code in (*codes, *languages)]
    own = [[i for i in range(len(codes)) if tags[i].startswith(tag)] for tag in tags[len(codes) :]]
    return [min(some, key=lambda place: len(tags[place])) for some in own if some]
