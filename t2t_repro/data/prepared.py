"""From a corpus to what training reads: clean text, subword models, token stores.

    data_dir/
      downloads/            what a corpus fetched
      prepared/
        manifest.json       what it was made from, what cleaning dropped and why, of a mixture
                            corpus by corpus too; all files with sizes and checksums
        verified.json       which of them have been compared with these, see `file_manifest`
        subwords.model      or one for each side, see `subword_model`
        train.source.txt    cleaned text, a sentence a line; train.target.txt likewise
                            a mixture's corpora one after the other
        train.tokens/       token store, likewise
        dev.source.txt ...  and so on for every split the corpus has

`prepared` appears whole or not at all. Until then, its parts lie in `.prepared.partial`, with
journals of the blocks that are whole: a preparation that was killed goes on from there.
"""

import dataclasses
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import gin
from absl import logging

from t2t_repro.config.checks import differing_values
from t2t_repro.config.values import Count, Range, validated
from t2t_repro.data.clean_text import CleanedCorpus, CleanText, Reports
from t2t_repro.data.cleaning import Cleaning, CleaningReport
from t2t_repro.data.corpora.corpus import Corpus, Mixed, check_split, parts_of
from t2t_repro.data.encoding import BlockEncoder, encode_text
from t2t_repro.data.file_manifest import check_files, describe_files, read_entries
from t2t_repro.data.mixing import EpochMixture
from t2t_repro.data.parallel import default_workers
from t2t_repro.data.token_store import TokenStore, VocabSizes
from t2t_repro.errors import Unfinished, UserError
from t2t_repro.files import lock, read_json
from t2t_repro.text.given import CONTENT, content_hash
from t2t_repro.text.subword_model import (
    SHARED_SUBWORDS,
    SOURCE_SUBWORDS,
    TARGET_SUBWORDS,
    SubwordPair,
    SubwordRecipe,
    open_pair,
)
from t2t_repro.text.training import SubwordTraining

_MANIFEST = "manifest.json"
_SPLIT = re.compile(r"[\w-][\w.-]*")
_FORMAT = 1
_FOLDER = "prepared"
_MOST_NAMED = 5
_MOST_WORKERS = 1024


class PreparedData:
    """What `Preparation` wrote, open for reading.

    Attributes:
        directory: where it lies.
        splits: names of the splits, "train" and "dev" among them.
        max_length: most ids of a sentence in a token store, EOS included.
        subwords: the subword models of source and target.
        checksum: of the manifest, and so of all files.

    Raises:
        UserError: a file is missing or damaged.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        mend = f"copy {directory} again, or delete it and run datagen."
        try:
            manifest = read_json(directory / _MANIFEST)
            self.checksum = hashlib.sha256((directory / _MANIFEST).read_bytes()).hexdigest()
            self.splits = _read_splits(manifest["splits"])
            self.max_length: int = manifest["identity"]["max_length"]
            self.identity: dict[str, Any] = manifest["identity"]
            self._corpora = _read_corpora(manifest.get("corpora", {}))
            if not isinstance(self.max_length, int) or not isinstance(
                self.identity["subwords"], dict
            ):
                raise ValueError("the identity is no identity")
            # Data that are older than this entry have none.
            entries = read_entries(manifest.get("files", {}))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"{directory / _MANIFEST} is missing or damaged ({type(error).__name__}): {mend}"
            ) from error
        check_files(directory, entries, mend)
        self.subwords = open_pair(directory)

    def corpora_in_store(self, split: str) -> dict[str, range]:
        """Returns which sentences of a split's token store are each corpus's of a mixture.

        Returns:
            them by the names of the corpora that have the split; none where there is no mixture.
        """
        return {name: place.in_store for name, place in self._corpora.get(split, {}).items()}

    def store(self, split: str) -> TokenStore:
        """Opens the token store of a split, or of what one corpus of a mixture has of it.

        Args:
            split: its name, such as "dev", or "dev.news" for the dev split of the corpus "news".

        Raises:
            UserError: there is no such split, or its ids are not those of the subword model.
        """
        split, place = self._find(split)
        store = TokenStore(self.directory / f"{split}.tokens")
        for size, subwords in zip(store.vocab_sizes, self.subwords, strict=True):
            if size != subwords.size:
                raise UserError(
                    f"{store.directory} was written with {size} subwords, but "
                    f"{subwords.model_path} has {subwords.size}: put back the model that "
                    f"belongs to it, or delete {self.directory} and run datagen."
                )
        longest = max(store.source_lengths.max(), store.target_lengths.max())
        if split == "train" and longest > self.max_length:
            raise UserError(
                f"{store.directory} has a sentence of {longest} subwords, expected at most "
                f"{self.max_length}: delete {self.directory} and run datagen."
            )
        ends = [own.in_store.stop for own in self._corpora.get(split, {}).values()]
        if ends and ends[-1] != len(store):
            raise UserError(
                f"{store.directory} has {len(store)} sentences, expected {ends[-1]}: delete "
                f"{self.directory} and run datagen."
            )
        return store.part(place.in_store) if place else store

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """Reads the source and target sentences of a split, as in `store`; they are as many.

        Raises:
            UserError: there is no such split, or its text is damaged.
        """
        split, place = self._find(split)
        try:
            source, target = zip(*CleanText(self.directory, split), strict=True)
        except (OSError, ValueError) as error:
            raise UserError(
                f"the text of {split} in {self.directory} is damaged ({error}): copy that "
                "directory again, or delete it and run datagen."
            ) from error
        wanted = slice(place.in_text.start, place.in_text.stop) if place else slice(None)
        return list(source[wanted]), list(target[wanted])

    def _find(self, name: str) -> "tuple[str, _Place | None]":
        """The split that a name is of, and where in it; None where that is the whole."""
        parts = {
            _named(split, corpus): (split, place)
            for split, places in self._corpora.items()
            for corpus, place in places.items()
        }
        check_split(name, [*self.splits, *parts])
        return (name, None) if name in self.splits else parts[name]


class _Place(NamedTuple):
    """Where a corpus of a mixture lies in a split.

    Attributes:
        in_text: its lines.
        in_store: its sentences in the token store, which lacks those that are too long.
    """

    in_text: range
    in_store: range


def _read_corpora(reports: dict[str, dict[str, dict[str, int]]]) -> dict[str, dict[str, _Place]]:
    """Takes the places from the manifest: corpora lie one after the other."""
    places: dict[str, dict[str, _Place]] = {}
    for split, of_corpora in reports.items():
        line = sentence = 0
        for name, report in of_corpora.items():
            kept, dropped = report["kept"], report.get("over_long_subwords", 0)
            if not all(isinstance(count, int) and count >= 0 for count in (kept, dropped)):
                raise ValueError(f"{name!r} has no such numbers")
            ends = line + kept + dropped, sentence + kept
            place = _Place(range(line, ends[0]), range(sentence, ends[1]))
            places.setdefault(split, {})[name] = place
            line, sentence = ends
    return places


def _read_splits(names: object) -> tuple[str, ...]:
    """The names of the splits, which are also names of files."""
    if not isinstance(names, list) or not all(
        isinstance(name, str) and _SPLIT.fullmatch(name) for name in names
    ):
        raise ValueError(f"splits are {names!r}")
    return tuple(names)


@gin.configurable("prepare")
@validated
@dataclasses.dataclass(frozen=True)
class Preparation:
    """How data are prepared; what is wrong with it is said before any are.

    Attributes:
        corpus: where sentence pairs come from.
        cleaning: which training pairs to drop.
        subwords: how to learn the subword model, which source and target share; or which one to
            take, see `GivenSubwords`.
        max_length: most ids of a sentence on either side, EOS included; pairs beyond it, of any
            split, are in no token store, and counted as over-long subwords. (What is translated to
            be scored is text, of all pairs.)
        workers: processes that clean and encode a large corpus; by default one a core, eight at
            most. The result does not depend on it.
        source_subwords: how to learn a subword model of the source's own; `subwords` is then the
            target's. Each is learned from its side of the training pairs alone. (Those of a Marian
            model are two with the same ids.)

    Raises:
        UserError: an argument cannot be used.
    """

    corpus: Corpus = gin.REQUIRED
    cleaning: Cleaning = dataclasses.field(default_factory=Cleaning)
    subwords: SubwordRecipe = dataclasses.field(default_factory=SubwordTraining)
    max_length: Count = 256
    workers: Annotated[int, Range(least=1, most=_MOST_WORKERS)] | None = None
    source_subwords: SubwordRecipe | None = None

    def __post_init__(self) -> None:
        if missing := {"train", "dev"}.difference(self.corpus.splits):
            raise UserError(
                f"prepare.corpus has no split {' and no split '.join(sorted(missing))}, expected "
                "train and dev: give it such sentences, as in TextFilesCorpus.dev."
            )
        # A mixture's tags are symbols of the subwords too: the user binds them once.
        name = "source_subwords" if self.source_subwords else "subwords"
        tags = [symbol for part in parts_of(self.corpus) for symbol in part.tag]
        if tags:
            object.__setattr__(self, name, getattr(self, name).with_symbols(tags))

    @property
    def has_own_source_ids(self) -> bool:
        """Whether an id may mean one piece in the source and another in the target."""
        if self.source_subwords is None:
            return False
        pieces = self.subwords.pieces()
        return pieces is None or self.source_subwords.pieces() != pieces

    def run(self, data_dir: Path) -> PreparedData:
        """Makes whatever is missing of `data_dir`, and opens it.

        Killed and called again, it goes on from the last whole block, and ends with the same bytes.

        Args:
            data_dir: see the module.

        Returns:
            The data, ready for training.

        Raises:
            UserError: the corpus cannot be used, or `data_dir` holds data made in another way.
        """
        downloads, directory = data_dir / "downloads", data_dir / _FOLDER
        if not directory.exists():
            self.corpus.prepare(downloads)
        identity = {
            "format": _FORMAT,
            "corpus": self.corpus.describe(),
            "cleaning": dataclasses.asdict(self.cleaning),
            "subwords": self.subwords.describe(),
            "max_length": self.max_length,
        }
        if self.source_subwords:
            identity["source_subwords"] = self.source_subwords.describe()
        identity = json.loads(json.dumps(identity))
        aside = data_dir / ".prepared.partial"
        if directory.exists():
            logging.info("data: %s is there", directory)
        else:
            workers = self.workers or default_workers()
            cleaned = CleanedCorpus(self.corpus, downloads, self.cleaning, workers)
            # Workers of one training that start together would write to the same files otherwise.
            with lock(data_dir / ".prepared.lock"):
                if not directory.exists():
                    _clear_unless_made_alike(aside, identity)
                    _make(directory, aside, identity, cleaned, self)
        shutil.rmtree(aside, ignore_errors=True)
        there = PreparedData(directory)
        _check_identity(there, identity)
        return there


def _make(
    directory: Path,
    aside: Path,
    identity: dict[str, Any],
    cleaned: CleanedCorpus,
    preparation: Preparation,
) -> None:
    """Makes what is missing in `aside`, and from it `directory`."""
    result, work = aside / "result", aside / "work"
    splits, max_length = cleaned.corpus.splits, identity["max_length"]
    try:
        reports = _write_text(result, work, cleaned)
        pairs = _together(reports["train"])["kept"]
        subwords = _train_subwords(result, pairs, preparation)
        sizes = VocabSizes(*(model.size for model in subwords))
        for split in splits:
            text, store = CleanText(result, split), result / f"{split}.tokens"
            encoder = BlockEncoder(text, result, sizes, max_length)
            changes = encode_text(text, store, work, encoder, cleaned.workers)
            for corpus, report in reports[split].items():
                report += changes[corpus]
                logging.info("data: %s: %s", _named(split, corpus), report.describe())
    except Unfinished:
        raise
    except UserError:
        # Mending this changes the data, so what was prepared so far is useless.
        shutil.rmtree(aside)
        raise
    # Killed just before the last line, it would describe its own manifest.
    (result / _MANIFEST).unlink(missing_ok=True)
    manifest = {
        "identity": identity,
        "splits": splits,
        "cleaning": {split: _together(of_corpora) for split, of_corpora in reports.items()},
        **({"corpora": reports} if "" not in reports["train"] else {}),
        "files": describe_files(result),
    }
    (result / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    result.rename(directory)


def open_data(data_dir: Path) -> PreparedData:
    """Opens data that were prepared before.

    Raises:
        UserError: there are none.
    """
    directory = data_dir / _FOLDER
    if not directory.is_dir():
        raise UserError(
            f"{directory} is not there: give the --data_dir of the training run, or make it with "
            "python -m t2t_repro.datagen."
        )
    return PreparedData(directory)


def mixing_of(corpus: Corpus, data: PreparedData, seed: int) -> EpochMixture | None:
    """Returns how the training sentences of prepared data are mixed; None where they are not.

    Args:
        corpus: that the data were prepared from: its shares may have changed since.
        data: the data.
        seed: of the run.

    Raises:
        UserError: a corpus would have no sentence in an epoch.
    """
    if not isinstance(corpus, Mixed):
        return None
    return EpochMixture(data.corpora_in_store("train"), corpus.shares, seed)


def _write_text(result: Path, work: Path, cleaned: CleanedCorpus) -> dict[str, Reports]:
    """Writes the text of all splits."""
    reports = {}
    for split in cleaned.corpus.splits:
        reports[split] = found = CleanText(result, split).write(work, cleaned)
        for part in parts_of(cleaned.corpus):
            report = found.get(part.name, CleaningReport())
            if split in part.corpus.splits and not report["kept"]:
                raise UserError(
                    f"the split {_named(split, part.name)!r} has no sentence pairs left "
                    f"({report.describe()}), expected at least one: check the corpus, or loosen "
                    "Cleaning."
                )
    return reports


def _together(reports: Reports) -> CleaningReport:
    """The report on all corpora of a split."""
    together = CleaningReport()
    for report in reports.values():
        together.update(report)
    return together


def _named(split: str, corpus: str) -> str:
    """What a corpus of a mixture has of a split is called so; see `PreparedData.store`."""
    return f"{split}.{corpus}" if corpus else split


class _Sentences:
    """All sentences of a text: of one side, or of both in turn.

    Args:
        text: a split's.
        pairs: how many it has.
        sides: 0 for the source, 1 for the target.
    """

    def __init__(self, text: CleanText, pairs: int, sides: tuple[int, ...]) -> None:
        self._text, self._pairs, self._sides = text, pairs, sides

    def __len__(self) -> int:
        return len(self._sides) * self._pairs

    def __iter__(self) -> Iterator[str]:
        return (pair[side] for pair in self._text for side in self._sides)


def _train_subwords(result: Path, pairs: int, preparation: Preparation) -> SubwordPair:
    """Makes the subword models that are not there yet."""

    def learn(name: str, parameter: str, recipe: SubwordRecipe, *sides: int) -> None:
        if (result / name).exists():
            return
        try:
            recipe.train(_Sentences(CleanText(result, "train"), pairs, sides), result / name)
        except UserError as error:
            raise UserError(f"prepare.{parameter}: {error}") from error

    if preparation.source_subwords:
        learn(SOURCE_SUBWORDS, "source_subwords", preparation.source_subwords, 0)
        learn(TARGET_SUBWORDS, "subwords", preparation.subwords, 1)
    else:
        learn(SHARED_SUBWORDS, "subwords", preparation.subwords, 0, 1)
    return open_pair(result)


def _clear_unless_made_alike(aside: Path, identity: dict[str, Any]) -> None:
    """Deletes what a killed process left, if it is part of something else."""
    path, content = aside / "identity.json", json.dumps(identity).encode()
    if path.is_file() and path.read_bytes() == content:
        logging.info("data: going on with what is in %s", aside)
        return
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    path.write_bytes(content)


def _check_identity(data: PreparedData, identity: dict[str, Any]) -> None:
    there = dict(data.identity)
    for name, model in zip(("source_subwords", "subwords"), data.subwords, strict=True):
        if name in there and CONTENT in identity.get(name, {}):
            # The subwords that are asked for may have been learned for these data.
            there[name] = {CONTENT: content_hash(model.model_path.read_bytes())}
    if "split_scripts" in identity["subwords"]:
        # Data that are older than this setting were made with its default.
        there["subwords"] = {"split_scripts": True} | there["subwords"]
    differing = differing_values(there, identity)
    if differing:
        more = f"; and {len(differing) - _MOST_NAMED} more" * (len(differing) > _MOST_NAMED)
        raise UserError(
            f"{data.directory} was made with {'; '.join(differing[:_MOST_NAMED])}{more}: give "
            "another --data_dir, or delete that directory."
        )
