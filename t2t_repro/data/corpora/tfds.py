"""Translation data sets of TensorFlow Datasets, in either direction."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from t2t_repro.config.values import configurable
from t2t_repro.data.corpora.corpus import Pair, given_splits
from t2t_repro.errors import UserError, reason_of

# Examples parsed at once; TFDS parses one at a time, with sixteen times the processor time a pair.
_READ_BATCH = 1024


@configurable()
@dataclass(frozen=True)
class TfdsCorpus:
    """A translation data set of TensorFlow Datasets (TFDS), e.g. WMT 2014.

    In gin::

        prepare.corpus = @TfdsCorpus()
        TfdsCorpus.name = 'wmt14_translate/de-en'

    TFDS looks for the data in `data_dir`, in the folder of the environment variable TFDS_DATA_DIR,
    or in its default folder, and downloads and prepares them if they are missing. They may be
    stored as TFRecords or as ArrayRecords.

    Attributes:
        name: TFDS's name, with configuration and optional version: "wmt14_translate/de-en:1.0.0".
        source_language: key of the source sentence, e.g. "en".
        target_language: key of the target sentence.
        data_dir: folder of prepared data sets, on this machine or in a bucket (gs://...).
        train_split: TFDS's name of the split to train on; may be a slice, "train[:10%]".
        dev_split: likewise, for model selection; or None.
        test_split: likewise, for evaluation; or None.
    """

    name: str = "wmt14_translate/de-en"
    source_language: str = "en"
    target_language: str = "de"
    data_dir: str | None = None
    train_split: str = "train"
    dev_split: str | None = "validation"
    test_split: str | None = "test"

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits that are not None."""
        return tuple(self._tfds_splits)

    @property
    def _tfds_splits(self) -> dict[str, str]:
        """TFDS's names of the splits, such as {"train": "train", "dev": "validation"}."""
        return given_splits(self.train_split, self.dev_split, self.test_split)

    def describe(self) -> dict[str, Any]:
        """Returns data set, version, languages, and each split's TFDS name and number of pairs.

        Raises:
            UserError: the data set is not prepared, or lacks a language or a split.
        """
        info = self._prepared_builder().info
        return {
            "corpus": "TfdsCorpus",
            "name": info.full_name,
            "source_language": self.source_language,
            "target_language": self.target_language,
            "splits": {
                split: {"tfds_split": tfds, "pairs": info.splits[tfds].num_examples}
                for split, tfds in self._tfds_splits.items()
            },
        }

    def prepare(self, download_dir: Path) -> None:
        """Downloads and prepares the data set, unless it is prepared.

        Args:
            download_dir: its folder `tfds` takes the downloaded archives.

        Raises:
            UserError: TFDS has no such data set, cannot fetch it, or it lacks a language or a
                split.
        """
        builder = self._builder()
        if not builder.is_prepared():
            try:
                builder.download_and_prepare(download_dir=str(download_dir / "tfds"))
            except Exception as error:  # TFDS downloads with many libraries.
                reason = f"{type(error).__name__}: {reason_of(error)}"
                problem = f"TFDS cannot fetch {self.name!r} ({reason}), not in {builder.data_dir}"
                fix = "elsewhere, and set TfdsCorpus.data_dir or TFDS_DATA_DIR"
                raise UserError(f"{problem}: run tfds build {self.name} {fix}.") from error
        self._prepared_builder()  # Checks the languages and the splits.

    def read(self, split: str, download_dir: Path) -> Iterator[Pair]:
        """Yields the pairs of a split in the order of its files; newlines become spaces.

        `download_dir` is not used, since `prepare` has downloaded the data.

        Raises:
            UserError: a file of the data set is missing or damaged.
        """
        import tensorflow as tf  # Takes seconds, as TFDS does: only where data are read.

        keys = self.source_language, self.target_language
        features = {key: tf.io.FixedLenFeature([], tf.string) for key in keys}
        try:
            for batch in _records(self._prepared_builder(), self._tfds_splits[split]):
                examples = tf.io.parse_example(batch, features)
                sources, targets = (map(_one_line, examples[key].numpy()) for key in keys)
                yield from zip(sources, targets, strict=True)
        except (RuntimeError, tf.errors.OpError) as error:
            problem = f"TFDS's {self.name!r} cannot be read ({reason_of(error)})"
            raise UserError(f"{problem}: copy it again, or run tfds build {self.name}.") from error

    def _builder(self) -> Any:
        """Opens the data set, prepared or not.

        Raises:
            UserError: TFDS has none of this name.
        """
        import tensorflow_datasets as tfds

        # TFDS reads the variable only when it is imported.
        data_dir = self.data_dir or os.environ.get("TFDS_DATA_DIR") or None
        try:
            return tfds.builder(self.name, data_dir=data_dir)
        except (tfds.core.DatasetNotFoundError, ValueError, AssertionError, OSError) as error:
            problem = f"TFDS has no data set {self.name!r} ({reason_of(error)})"
            expected = "a name such as 'wmt14_translate/de-en' from tensorflow.org/datasets/catalog"
            raise UserError(f"{problem}, expected {expected}.") from error

    def _prepared_builder(self) -> Any:
        """Opens the data set.

        Raises:
            UserError: it is unknown or not prepared, or lacks a language or a split.
        """
        builder = self._builder()
        if not builder.is_prepared():
            problem = f"TFDS's {self.name!r} is not prepared in {builder.data_dir}"
            advice = "set TfdsCorpus.data_dir or TFDS_DATA_DIR to its folder"
            raise UserError(f"{problem}: {advice} (after datagen, its two JSON files are enough).")
        languages, splits = builder.info.features, builder.info.splits
        # Both look-ups fail for an unknown name.
        try:
            _ = languages[self.source_language], languages[self.target_language]
            _ = [splits[name] for name in self._tfds_splits.values()]
        except (KeyError, ValueError) as error:
            problem = f"TFDS's {self.name!r} lacks a language or a split ({reason_of(error)})"
            existing = ", ".join([*languages, *splits])
            raise UserError(f"{problem}, expected some of: {existing}.") from error
        return builder


def _records(builder: Any, split: str) -> Iterator[Any]:
    """Yields the serialised examples of a split in batches: a list of bytes, or a tensor [batch].

    Args:
        builder: a prepared data set.
        split: TFDS's name of the split, e.g. "train[:10%]".
    """
    import tensorflow as tf
    import tensorflow_datasets as tfds

    # The oldest data have no format: they are TFRecords.
    if getattr(builder.info.file_format, "value", None) == "array_record":
        raw = tfds.decode.DeserializeMethod.RAW_BYTES
        records = builder.as_data_source(split, deserialize_method=raw)
        for first in range(0, len(records), _READ_BATCH):
            # Many records at once; a plain index would read one.
            yield records.__getitems__(range(first, min(first + _READ_BATCH, len(records))))
        return
    for part in builder.info.splits[split].file_instructions:
        records = tf.data.TFRecordDataset(part.filename).skip(part.skip).take(part.take)
        yield from records.batch(_READ_BATCH)


def _one_line(sentence: bytes) -> str:
    """Decodes a sentence in UTF-8; line breaks and white space around them become one space."""
    text = sentence.decode("utf-8")
    if "\n" not in text:
        return text
    return " ".join(part.strip() for part in text.split("\n") if part.strip())
