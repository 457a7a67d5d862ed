"""Prepared data on disk: the manifest, clean text, subword models and token stores.

    data_dir/
      downloads/            files that a corpus fetched
      prepared/
        manifest.json       the settings, counts of kept and dropped pairs, sizes of all files
        subwords.model      or one model a side, see `subword_model`
        train.source.txt    clean text, a sentence a line; train.target.txt likewise. The corpora of
                            a mixture follow one after the other
        train.tokens/       token store, likewise
        dev.source.txt ...  and so on for every split of the corpus

`stages` makes these files.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from t2t_repro.config.checks import differing_values
from t2t_repro.data.cleaning import CleaningReport
from t2t_repro.data.corpora.corpus import Pair
from t2t_repro.data.token_store import TokenStore
from t2t_repro.errors import UserError
from t2t_repro.files import read_json, write_json
from t2t_repro.text.subword_model import open_pair
from t2t_repro.text.training import CONTENT

DIRECTORY = "prepared"
DOWNLOADS = "downloads"
_MANIFEST = "manifest.json"

# A sentence may contain a carriage return.
_TEXT = {"encoding": "utf-8", "newline": "\n"}

PAIRS_IN_BLOCK = 10_000
"""Some 3 megabytes of text, a third of a second's work of one core."""

Reports = dict[str, CleaningReport]
"""A report for each corpus of a mixture, by name; for a single corpus, one with the name ""."""

TextBlock = tuple[str, bytes, bytes]
"""Some pairs of a split: the name of their corpus in a mixture, "" for a single corpus; and the
source and the target lines in UTF-8, each with a newline."""


def write_manifest(directory: Path, identity: dict[str, Any], reports: dict[str, Reports]) -> None:
    """Writes the manifest of a directory that is otherwise complete.

    Args:
        directory: the folder of the files. The manifest is written beside it and moved, since a
            killed process may leave half a file.
        identity: `Preparation.identity` of the data.
        reports: cleaning reports of every split.
    """
    # A manifest does not list itself, so one of a killed process goes before the files are listed.
    (directory / _MANIFEST).unlink(missing_ok=True)
    manifest: dict[str, Any] = {"identity": identity, "splits": list(reports)}
    manifest["cleaning"] = {split: total_report(parts) for split, parts in reports.items()}
    # Only of a mixture: the report of a single corpus has the name "".
    if "" not in reports["train"]:
        manifest["corpora"] = reports
    manifest["files"] = _file_sizes(directory)
    write_json(directory.parent / _MANIFEST, manifest)
    (directory.parent / _MANIFEST).rename(directory / _MANIFEST)


class PreparedData:
    """Prepared data, open for reading.

    Args:
        directory: the folder `prepared`; the module's docstring lists its files.

    Attributes:
        directory: as given.
        identity: the settings and the corpus that it was made from, as JSON values.
        splits: names of the splits, "train" and "dev" among them.
        max_length: most ids of a sentence in a token store, EOS included.
        subwords: the subword models of source and target.
        cleaning: the counts of pairs of each split; see `CleaningReport`.
        checksum: of the manifest; several workers compare it.

    Raises:
        UserError: a file is missing, damaged, or has another size.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            manifest = read_json(directory / _MANIFEST)
        except (OSError, ValueError) as error:
            raise self._damaged(_MANIFEST, "is missing or damaged") from error
        self.identity: dict[str, Any] = manifest["identity"]
        self.max_length: int = self.identity["max_length"]
        self.splits = tuple(manifest["splits"])
        # Only a mixture has them.
        corpora = manifest.get("corpora", {})
        self._corpora = {split: _corpus_parts(reports) for split, reports in corpora.items()}
        # Old data have neither "cleaning" nor "files".
        self.cleaning: dict[str, dict[str, int]] = manifest.get("cleaning", {})
        self.checksum = hashlib.sha256((directory / _MANIFEST).read_bytes()).hexdigest()
        self._check_files(manifest.get("files", {}))
        self.subwords = open_pair(directory)

    def store(self, split: str) -> TokenStore:
        """Opens the token store of a split.

        Args:
            split: its name. "dev.news" is the part of the dev split that the corpus "news" of a
                mixture has.

        Raises:
            UserError: no split or part has the name.
        """
        whole_split, part = self._split_and_part(split)
        store = TokenStore(self.directory / f"{whole_split}.tokens")
        return store.part(part.in_store) if part else store

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """Reads the source and the target sentences of a split.

        Sentences that are too long for the token store are part of the text.

        Args:
            split: as in `store`.

        Raises:
            UserError: no split or part has the name.
        """
        whole_split, part = self._split_and_part(split)
        source, target = zip(*CleanText(self.directory, whole_split), strict=True)
        lines = part.in_text if part else range(len(source))
        return list(source[lines.start : lines.stop]), list(target[lines.start : lines.stop])

    def corpora(self, split: str) -> dict[str, range]:
        """Returns the range of each corpus of a mixture in the token store of a split, by name.

        Empty for a single corpus.
        """
        return {name: part.in_store for name, part in self._corpora.get(split, {}).items()}

    def check_made_with(self, identity: dict[str, Any]) -> None:
        """Checks that settings would make these data.

        Args:
            identity: `Preparation.identity` of the settings.

        Raises:
            UserError: a setting differs; the message has both values.
        """
        existing = dict(self.identity)
        for name, model in zip(("source_subwords", "subwords"), self.subwords, strict=True):
            if name in existing and CONTENT in identity.get(name, {}):
                # A model trained for these data may be given as ExistingSubwords: compare contents.
                content = model.model_path.read_bytes()
                existing[name] = {CONTENT: hashlib.sha256(content).hexdigest()}
        if differing := differing_values(_files_as_text(existing), _files_as_text(identity)):
            data_dir = self.directory.parent
            # The trainer's default: model_NAME beside data_NAME.
            model_dir = data_dir.parent / ("model" + data_dir.name.partition("data")[2])
            raise UserError(
                f"{self.directory} was made with {'; '.join(differing)}: give "
                f"--data_dir={data_dir}_2 --model_dir={model_dir}_2, and, to train the model of "
                f"{model_dir} further, --gin_param=\"train.init_from = '{model_dir}'\" (see "
                f"docs/fine_tuning.md); or, without a model yet, delete {self.directory}."
            )

    def _split_and_part(self, name: str) -> "tuple[str, _CorpusPart | None]":
        """Returns ("dev", None) for "dev", and ("dev", its part "news") for "dev.news".

        Raises:
            UserError: no split or part has the name.
        """
        named: dict[str, tuple[str, _CorpusPart | None]]
        named = {split: (split, None) for split in self.splits}
        for split, parts in self._corpora.items():
            for corpus, part in parts.items():
                named[part_name(split, corpus)] = split, part
        if name not in named:
            raise UserError(f"no split {name!r} in these data, expected one of {', '.join(named)}")
        return named[name]

    def _check_files(self, expected: Mapping[str, int]) -> None:
        """Checks the files of the data.

        Args:
            expected: the size in bytes of each file, by its name.

        Raises:
            UserError: a file is missing or has another size.
        """
        sizes = _file_sizes(self.directory)
        for name, size in expected.items():
            if sizes.get(name) != size:
                received = f"has {sizes[name]} bytes" if name in sizes else "is missing"
                raise self._damaged(name, f"{received}, expected {size} bytes")

    def _damaged(self, name: str, problem: str) -> UserError:
        """Returns an error that names a file, what is wrong ("is missing") and how to mend it."""
        return UserError(
            f"{self.directory / name} {problem}: give the --data_dir of the training run, copy "
            f"{self.directory} again, or delete it and run python -m t2t_repro.datagen."
        )


def _files_as_text(described: Any) -> Any:
    """Returns JSON values with a text in place of each result of `identify`, however deep."""
    # The decoder of JSON calls the hook for every object.
    return json.loads(json.dumps(described), object_hook=_file_as_text)


def _file_as_text(value: dict[str, Any]) -> Any:
    """Returns "train.de, 1,234 bytes, 5e1f0a" for a result of `identify`; another object stays."""
    if set(value) != {"name", "bytes", "sha256"}:
        return value
    return f"{value['name']}, {value['bytes']:,} bytes, {value['sha256']:.6}"


class _CorpusPart(NamedTuple):
    """The sentences of a corpus of a mixture in a split.

    Attributes:
        in_text: the range of its lines.
        in_store: its range in the token store, which lacks the sentences that are too long.
    """

    in_text: range
    in_store: range


def _corpus_parts(reports: Mapping[str, Mapping[str, int]]) -> dict[str, _CorpusPart]:
    """Returns the part of a split that each corpus of a mixture has, by the corpus's name.

    Args:
        reports: the cleaning report of each corpus, in the order of the parts.
    """
    parts: dict[str, _CorpusPart] = {}
    line = sentence = 0
    for name, report in reports.items():
        line_end = line + report["kept"] + report.get("over_long_subwords", 0)
        sentence_end = sentence + report["kept"]
        parts[name] = _CorpusPart(range(line, line_end), range(sentence, sentence_end))
        line, sentence = line_end, sentence_end
    return parts


def part_name(split: str, corpus: str) -> str:
    """Returns the name of a corpus's part, such as "dev.news"; the split if the corpus is ""."""
    return f"{split}.{corpus}" if corpus else split


def _file_sizes(directory: Path) -> dict[str, int]:
    """Returns the size in bytes of every file in a directory, by relative path."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.stat().st_size for path in paths}


def total_report(reports: Reports) -> Counter[str]:
    """Adds up the reports on all corpora of a split; counts of 0 are left out."""
    return sum(reports.values(), Counter())


def open_data(data_dir: Path) -> PreparedData:
    """Opens the folder `prepared` of a data directory (see `PreparedData`)."""
    return PreparedData(data_dir / DIRECTORY)


class CleanText:
    """The text of one split: its source and its target file.

    Args:
        directory: the folder of both files.
        split: its name.
    """

    def __init__(self, directory: Path, split: str) -> None:
        self._paths = tuple(directory / f"{split}.{side}.txt" for side in ("source", "target"))

    @contextmanager
    def _opened(self, mode: str, **kwargs: Any) -> Iterator[tuple[IO, IO]]:
        """Opens the files of source and target.

        Args:
            mode: of both files; see `open`.
            **kwargs: further arguments of `open`, such as `_TEXT`.

        Yields:
            the source file and the target file.
        """
        source_path, target_path = self._paths
        with source_path.open(mode, **kwargs) as source, target_path.open(mode, **kwargs) as target:
            yield source, target

    def write(self, blocks: Iterable[Sequence[Pair]]) -> None:
        """Writes the pairs of all blocks, a line each; replaces files of an interrupted run."""
        with self._opened("w", **_TEXT) as files:
            for pairs in blocks:
                for side, file in enumerate(files):
                    file.writelines(f"{pair[side]}\n" for pair in pairs)

    def __iter__(self) -> Iterator[Pair]:
        """Yields all pairs, without the newlines at their ends."""
        with self._opened("r", **_TEXT) as files:
            for source, target in zip(*files, strict=True):
                yield source.removesuffix("\n"), target.removesuffix("\n")

    def blocks(self, counts: Mapping[str, int]) -> Iterator[TextBlock]:
        """Yields all pairs in blocks of one corpus, as bytes, which are fast to send to processes.

        Args:
            counts: number of pairs of each corpus, in the order of the text. That they sum to all
                lines is not checked.
        """
        with self._opened("rb") as (source, target):
            for corpus, count in counts.items():
                for start in range(0, count, PAIRS_IN_BLOCK):
                    size = min(PAIRS_IN_BLOCK, count - start)
                    yield corpus, b"".join(islice(source, size)), b"".join(islice(target, size))
