"""From a corpus to what training reads: clean text, a subword model, token stores.

    data_dir/
      downloads/            what a corpus fetched
      prepared/
        manifest.json       what it was made from, what cleaning dropped and why, all files
                            with sizes and checksums
        verified.json       which of them have been compared with these, see `file_manifest`
        subwords.model
        train.source.txt    cleaned text, a sentence a line; train.target.txt likewise
        train.tokens/       token store
        dev.source.txt ...  and so on for every split the corpus has

`prepared` appears whole or not at all.
"""

import dataclasses
import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import gin
import numpy as np
from absl import logging
from numpy.typing import NDArray

from t2t_repro.configuration import differing_values
from t2t_repro.data.cleaning import Cleaning, CleaningReport, clean
from t2t_repro.data.corpora import Corpus, Pair, check_split, held_out_pairs
from t2t_repro.data.file_manifest import FileEntry, check_files, describe_files
from t2t_repro.data.subwords import Subwords, SubwordTraining
from t2t_repro.data.token_store import TokenStore, write_token_store
from t2t_repro.errors import UserError

SUBWORDS = "subwords.model"
_MANIFEST = "manifest.json"
_FORMAT = 1
_FOLDER = "prepared"
_MOST_NAMED = 5


class PreparedData:
    """What `prepare` wrote, open for reading.

    Attributes:
        directory: where it lies.
        splits: names of the splits, "train" and "dev" among them.
        max_length: most ids of a sentence in a token store, EOS included.
        subwords: the subword model.

    Raises:
        UserError: a file is missing or damaged.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        mend = f"copy {directory} again, or delete it and run datagen."
        try:
            manifest = json.loads((directory / _MANIFEST).read_text(encoding="utf-8"))
            self.splits: tuple[str, ...] = tuple(manifest["splits"])
            self.max_length: int = manifest["identity"]["max_length"]
            self.identity: dict[str, Any] = manifest["identity"]
            # Data that are older than this entry have none.
            entries = {name: FileEntry(*entry) for name, entry in manifest.get("files", {}).items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"{directory / _MANIFEST} is missing or damaged ({type(error).__name__}): {mend}"
            ) from error
        check_files(directory, entries, mend)
        self.subwords = Subwords(directory / SUBWORDS)

    def store(self, split: str) -> TokenStore:
        """Opens the token store of a split.

        Raises:
            UserError: there is no such split, or its ids are not those of the subword model.
        """
        check_split(split, self.splits)
        store = TokenStore(self.directory / f"{split}.tokens")
        if store.vocab_size != self.subwords.size:
            raise UserError(
                f"{store.directory} was written with {store.vocab_size} subwords, but "
                f"{self.subwords.model_path} has {self.subwords.size}: put back the model that "
                f"belongs to it, or delete {self.directory} and run datagen."
            )
        return store

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """Reads the source and target sentences of a split; they are as many.

        Raises:
            UserError: there is no such split.
        """
        check_split(split, self.splits)
        source, target = zip(*_read_pairs(self.directory, split), strict=True)
        return list(source), list(target)


@gin.configurable(denylist=["data_dir"])
def prepare(
    data_dir: Path,
    corpus: Corpus = gin.REQUIRED,
    cleaning: Cleaning | None = None,
    subwords: SubwordTraining | None = None,
    max_length: int = 256,
) -> PreparedData:
    """Makes whatever is missing of `data_dir`, and opens it.

    Args:
        data_dir: see the module.
        corpus: where sentence pairs come from.
        cleaning: which training pairs to drop.
        subwords: how to learn the subword model.
        max_length: most ids of a sentence on either side, EOS included; training pairs beyond
            it are dropped, and counted as over-long subwords.

    Returns:
        The data, ready for training.

    Raises:
        UserError: the corpus cannot be used, or `data_dir` holds data made in another way.
    """
    cleaning, subwords = cleaning or Cleaning(), subwords or SubwordTraining()
    downloads = data_dir / "downloads"
    corpus.prepare(downloads)
    identity = {
        "format": _FORMAT,
        "corpus": corpus.describe(),
        "cleaning": dataclasses.asdict(cleaning),
        "subwords": dataclasses.asdict(subwords),
        "max_length": max_length,
    }
    directory = data_dir / _FOLDER
    if directory.exists():
        there = PreparedData(directory)
        _check_identity(there, json.loads(json.dumps(identity)))
        logging.info("data: %s is there", directory)
        return there
    aside = data_dir / ".prepared.partial"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        reports = _write_text(aside, corpus, cleaning, downloads)
        model = _train_subwords(aside, subwords)
        for split in corpus.splits:
            reports[split] += _write_store(aside, split, model, max_length)
            logging.info("data: %s: %s", split, reports[split].describe())
        manifest = {
            "identity": identity,
            "splits": corpus.splits,
            "cleaning": reports,
            "files": describe_files(aside),
        }
        (aside / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        aside.rename(directory)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return PreparedData(directory)


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


def _write_text(
    directory: Path, corpus: Corpus, cleaning: Cleaning, downloads: Path
) -> dict[str, CleaningReport]:
    """Writes the text of all splits; only training pairs are ever dropped."""
    reports = {}
    for split in corpus.splits:
        reports[split] = report = CleaningReport()
        pairs = corpus.read(split, downloads)
        if split == "train":
            pairs = clean(pairs, cleaning, held_out_pairs(corpus, downloads), report)
        written = _write_pairs(directory, split, pairs)
        if not written:
            raise UserError(
                f"the split {split!r} has no sentence pairs left ({report.describe()}), "
                "expected at least one: check the corpus, or loosen Cleaning."
            )
        report["kept"] = written
    return reports


def _train_subwords(directory: Path, subwords: SubwordTraining) -> Subwords:
    logging.info("data: learning %d subwords", subwords.vocab_size)
    sentences = (sentence for pair in _read_pairs(directory, "train") for sentence in pair)
    return subwords.train(sentences, directory / SUBWORDS)


def _write_store(
    directory: Path, split: str, subwords: Subwords, max_length: int
) -> CleaningReport:
    """Encodes one split; returns what its length limit changes in the split's report."""
    change = CleaningReport()

    def within_limit() -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        shortest = max_length + 1
        for source, target in subwords.encode_pairs(_read_pairs(directory, split)):
            longer = max(len(source), len(target))
            shortest = min(shortest, longer)
            if longer <= max_length:
                yield source, target
            else:
                change["over_long_subwords"] += 1
                change["kept"] -= 1
        if shortest > max_length:
            raise UserError(
                f"all sentence pairs of the split {split!r} have more than prepare.max_length = "
                f"{max_length} subwords on one side: raise it."
            )

    write_token_store(directory / f"{split}.tokens", within_limit(), vocab_size=subwords.size)
    return change


def _text_path(directory: Path, split: str, side: str) -> Path:
    return directory / f"{split}.{side}.txt"


def _write_pairs(directory: Path, split: str, pairs: Iterable[Pair]) -> int:
    count = 0
    with (
        _text_path(directory, split, "source").open("w", encoding="utf-8", newline="\n") as source,
        _text_path(directory, split, "target").open("w", encoding="utf-8", newline="\n") as target,
    ):
        for source_line, target_line in pairs:
            source.write(source_line + "\n")
            target.write(target_line + "\n")
            count += 1
    return count


def _read_pairs(directory: Path, split: str) -> Iterator[Pair]:
    # newline="\n": a sentence may hold a carriage return.
    with (
        _text_path(directory, split, "source").open(encoding="utf-8", newline="\n") as source,
        _text_path(directory, split, "target").open(encoding="utf-8", newline="\n") as target,
    ):
        for source_line, target_line in zip(source, target, strict=True):
            yield source_line[:-1], target_line[:-1]


def _check_identity(data: PreparedData, identity: dict[str, Any]) -> None:
    there = dict(data.identity)
    # Data that are older than this setting were made with its default.
    there["subwords"] = {"split_scripts": True} | there["subwords"]
    differing = differing_values(there, identity)
    if differing:
        more = f"; and {len(differing) - _MOST_NAMED} more" * (len(differing) > _MOST_NAMED)
        raise UserError(
            f"{data.directory} was made with {'; '.join(differing[:_MOST_NAMED])}{more}: give "
            "another --data_dir, or delete that directory."
        )
