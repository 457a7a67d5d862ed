"""Reads pairs from translators' files: translation memories (.tmx), catalogues (.po) and XLIFF.

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

    Units that are fuzzy, obsolete, empty, a header or in other languages are skipped. Each text
    becomes a line without inline tags, control characters and the marks of shortcut keys.

    Args:
        train: a file or a list of files to train on; also patterns such as 'de/*.po'.
        dev: likewise, for model selection.
        test: likewise, to evaluate on.
        source_language: the source's code; 'en' means en-US, EN and en_GB, too.
        target_language: likewise. If a file does not name its languages, they are these two.
    """

    def __init__(
        self,
        train: str | Sequence[str],
        dev: str | Sequence[str] | None = None,
        test: str | Sequence[str] | None = None,
        source_language: str = "en",
        target_language: str = "de",
    ) -> None:
        given = given_splits(train, dev, test).items()
        self._names = {split: [name] if isinstance(name, str) else [*name] for split, name in given}
        self._languages = (source_language, target_language)
        self.splits = tuple(self._names)

    def describe(self) -> dict[str, Any]:
        """Returns the languages, and name, size and SHA-256 of every file."""
        splits = {split: [identify(path) for path in self._paths(split)] for split in self.splits}
        return {"corpus": type(self).__name__, "languages": [*self._languages], "splits": splits}

    def prepare(self, download_dir: Path) -> None:
        """Reads all files, and logs how many units are pairs or skipped.

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
        """Yields the pairs of a split, file after file.

        Raises:
            UserError: a file cannot be read.
        """
        return (pair for kind, pair in self._units(split) if kind == "pairs")

    def _paths(self, split: str) -> list[Path]:
        """Returns the files of a split, those of each pattern sorted.

        Raises:
            UserError: a name or pattern has no file.
        """
        paths: list[Path] = []
        for name in self._names[split]:
            path = expanduser(name)
            # A file may have a name that would be a pattern, such as "[1].po".
            matches = [path] if Path(path).is_file() else sorted(glob(path, recursive=True))
            if not matches:
                raise UserError(f"TranslationMemoryCorpus.{split}: there is no file {name!r}.")
            paths += map(Path, matches)
        return paths

    def _units(self, split: str) -> Iterator[tuple[str, Pair]]:
        """Yields "pairs" with each pair; for a unit that is skipped, the reason, such as "fuzzy".

        The reason, too, comes with a pair, which is not to be used.
        """
        for path in self._paths(split):
            # Compressed or not; a.po.xliff is XLIFF.
            kind = po if re.search(r"(?i)\.po(\.\w*z2?)?$", path.name) else xml
            for unit in kind.read_units(path, self._languages):
                yield (unit, ("", "")) if isinstance(unit, str) else self._pair(unit)

    def _pair(self, unit: Sides) -> tuple[str, Pair]:
        """Returns "pairs" and the pair of a unit, each side a line without a shortcut key.

        If the unit is skipped, the first is the reason, and the pair is not to be used.
        """
        indices = _language_indices(tuple(code for code, _ in unit), self._languages)
        if len(indices) < 2:
            return "in other languages", ("", "")
        source, target = (_one_line(unit[i][1]) for i in indices)
        plain = without_key(source)
        if plain != source:
            # Scripts without such letters have the key in brackets behind the text: (_F).
            target = re.sub(r"\s*\([&_~]\w\)|[&_~](?=[^\W\d_])", "", target, count=1)
        return ("pairs" if plain and target else "empty"), (plain, target)


def _one_line(text: str) -> str:
    """Returns a text without line feeds, and without white space around it."""
    # Few texts have line breaks, and split takes longer than strip.
    return " ".join(text.split()) if "\n" in text else text.strip()


# Units of a file have the same few combinations of languages.
@cache
def _language_indices(codes: tuple[str, ...], languages: tuple[str, ...]) -> list[int]:
    """Returns the index of each language among the codes; for "en" that of en, else of en-US.

    The codes (de, en-US) and the languages (en, de) give [1, 0]. Languages that no code means are
    left out.
    """
    # With "-" at the end: "en-us-" begins with "en-", but "enm-" does not.
    tags = [f"{code}-".lower().replace("_", "-") for code in codes]
    prefixes = (f"{language}-".lower().replace("_", "-") for language in languages)
    # For each language, the indices of the codes that mean it; the shortest code is chosen.
    matches = ([i for i, tag in enumerate(tags) if tag.startswith(prefix)] for prefix in prefixes)
    return [min(indices, key=lambda i: len(tags[i])) for indices in matches if indices]
