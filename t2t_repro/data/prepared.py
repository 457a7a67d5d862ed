"""Prepared data, open for reading: clean text, subword models and token stores of all splits.

    data_dir/
      downloads/            files that a corpus fetched
      prepared/
        manifest.json       the settings, counts of kept and dropped pairs, sizes of all files
        subwords.model      or one model a side, see `subword_model`
        train.source.txt    clean text, a sentence a line; train.target.txt likewise. The corpora of
                            a mixture follow one after the other
        train.tokens/       token store, likewise
        dev.source.txt ...  and so on for every split of the corpus

`preparation` writes these files.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from t2t_repro.data.clean_text import CleanText
from t2t_repro.data.token_store import TokenStore
from t2t_repro.errors import UserError
from t2t_repro.files import read_json
from t2t_repro.text.subword_model import open_pair

DIRECTORY = "prepared"
MANIFEST = "manifest.json"


class PreparedData:
    """Data that `Preparation` wrote.

    Args:
        directory: `prepared` of the module's text.

    Attributes:
        directory: as given.
        identity: the settings and the corpus that it was made from, as JSON values.
        splits: names of the splits, "train" and "dev" among them.
        max_length: most ids of a sentence in a token store, EOS included.
        subwords: the subword models of source and target.
        cleaning: the counts of pairs of each split; see `CleaningReport`.
        checksum: of the manifest; several workers compare it.

    Raises:
        UserError: a file is missing or has another size.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            manifest = read_json(directory / MANIFEST)
            self.identity: dict[str, Any] = dict(manifest["identity"])
            self.max_length = int(self.identity["max_length"])
            self.splits = tuple(manifest["splits"])
            self._corpora = {
                split: _parts(reports) for split, reports in manifest.get("corpora", {}).items()
            }
            self.cleaning: dict[str, dict[str, int]] = dict(manifest.get("cleaning", {}))
            files = dict(manifest.get("files", {}))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._damaged(MANIFEST, "is missing or damaged") from error
        self.checksum = hashlib.sha256((directory / MANIFEST).read_bytes()).hexdigest()
        sizes = file_sizes(directory)
        for name, size in files.items():
            if (received := sizes.get(name, "no")) != size:
                raise self._damaged(name, f"has {received} bytes, expected {size}")
        self.subwords = open_pair(directory)

    def store(self, split: str) -> TokenStore:
        """Opens the token store of a split.

        Args:
            split: its name. "dev.news" is the part of the dev split that the corpus "news" of a
                mixture has.

        Raises:
            UserError: there is no such split, or its store is damaged.
        """
        split, part = self._find(split)
        store = TokenStore(self.directory / f"{split}.tokens")
        return store.part(part.in_store) if part else store

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """Reads the source and the target sentences of a split.

        Sentences that are too long for the token store are part of the text.

        Args:
            split: as in `store`.

        Raises:
            UserError: there is no such split.
        """
        split, part = self._find(split)
        source, target = zip(*CleanText(self.directory, split), strict=True)
        wanted = slice(part.in_text.start, part.in_text.stop) if part else slice(None)
        return list(source[wanted]), list(target[wanted])

    def corpora(self, split: str) -> dict[str, range]:
        """Returns the sentences of the token store that each corpus of a mixture has, by name.

        Empty for a single corpus.
        """
        return {name: part.in_store for name, part in self._corpora.get(split, {}).items()}

    def _find(self, name: str) -> "tuple[str, _Part | None]":
        """Returns the split of a name, and the part of it; None for the whole split."""
        known: dict[str, tuple[str, _Part | None]] = {split: (split, None) for split in self.splits}
        known |= {
            part_name(split, corpus): (split, part)
            for split, of_split in self._corpora.items()
            for corpus, part in of_split.items()
        }
        if name not in known:
            raise UserError(f"no split {name!r} in these data; they have: {', '.join(known)}")
        return known[name]

    def _damaged(self, name: str, problem: str) -> UserError:
        return UserError(
            f"{self.directory / name} {problem}: give the --data_dir of the training run, copy "
            f"{self.directory} again, or delete it and run python -m t2t_repro.datagen."
        )


class _Part(NamedTuple):
    """The part of a split that a corpus of a mixture has.

    Attributes:
        in_text: its lines.
        in_store: its sentences in the token store, which lacks those that are too long.
    """

    in_text: range
    in_store: range


def _parts(reports: Mapping[str, Mapping[str, int]]) -> dict[str, _Part]:
    """Returns the parts of a split, which follow one after the other, from cleaning reports."""
    parts: dict[str, _Part] = {}
    line = sentence = 0
    for name, report in reports.items():
        kept, dropped = report["kept"], report.get("over_long_subwords", 0)
        ends = line + kept + dropped, sentence + kept
        parts[name] = _Part(range(line, ends[0]), range(sentence, ends[1]))
        line, sentence = ends
    return parts


def part_name(split: str, corpus: str) -> str:
    """Returns the name of the part of a split that a corpus has; "" is a single corpus."""
    return f"{split}.{corpus}" if corpus else split


def file_sizes(directory: Path) -> dict[str, int]:
    """Returns the bytes of every file of a directory, by relative path."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.stat().st_size for path in paths}


def open_data(data_dir: Path) -> PreparedData:
    """Opens the prepared data of a data directory.

    Raises:
        UserError: there are none, or a file is missing or has another size.
    """
    return PreparedData(data_dir / DIRECTORY)
