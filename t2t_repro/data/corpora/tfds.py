"""Any translation data set of TensorFlow Datasets, in either direction."""

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gin

from t2t_repro.config.values import Text, validated
from t2t_repro.data.corpora.corpus import Pair, check_languages, check_split, given_splits
from t2t_repro.errors import Unfinished, UserError, reason_of

# Examples parsed at once. TFDS parses them one by one, at sixteen times the processor time a pair.
_READ_BATCH = 1024

# Of TFDS's file formats, those that can be read.
_TFRECORD, _ARRAY_RECORD = "tfrecord", "array_record"


@gin.configurable
@validated
class TfdsCorpus:
    """A translation data set of TensorFlow Datasets (TFDS), e.g. WMT 2014.

    Data are looked for in `data_dir`, else in the folder that the environment variable
    TFDS_DATA_DIR names, else in TFDS's default; what is not there is downloaded and prepared. They
    may be stored as TFRecords or as ArrayRecords.

    Args:
        name: TFDS's name, with configuration and, if wanted, version:
            "wmt14_translate/de-en:1.0.0".
        source_language: key of the source sentence, e.g. "en".
        target_language: key of the target sentence.
        data_dir: folder of prepared data sets, on this machine or in a bucket (gs://...).
        train_split: TFDS's name of the split to train on; may be a slice, "train[:10%]".
        dev_split: likewise, for model selection; None if there is none.
        test_split: likewise, for evaluation; None if there is none.

    Raises:
        UserError: source and target language are the same.
    """

    splits: tuple[str, ...]

    def __init__(
        self,
        name: Text = "wmt14_translate/de-en",
        source_language: Text = "en",
        target_language: Text = "de",
        data_dir: Text | None = None,
        train_split: Text = "train",
        dev_split: Text | None = "validation",
        test_split: Text | None = "test",
    ) -> None:
        check_languages("TfdsCorpus", source_language, target_language)
        self._name = name
        self._languages = (source_language, target_language)
        self._data_dir = data_dir
        self._tfds_splits = given_splits(train_split, dev_split, test_split)
        self.splits = tuple(self._tfds_splits)

    def describe(self) -> dict[str, Any]:
        """Returns data set, version, languages, and each split's TFDS name and number of pairs.

        Raises:
            UserError: the data set is not prepared, or lacks a language or a split.
        """
        builder = self._prepared_builder()
        return {
            "corpus": "TfdsCorpus",
            "name": builder.info.full_name,
            "source_language": self._languages[0],
            "target_language": self._languages[1],
            "splits": {
                split: {"tfds_split": tfds, "pairs": builder.info.splits[tfds].num_examples}
                for split, tfds in self._tfds_splits.items()
            },
        }

    def prepare(self, download_dir: Path) -> None:
        """Downloads and prepares the data set unless it is prepared; checks languages and splits.

        Args:
            download_dir: its folder `tfds` takes the downloaded archives; what is prepared from
                them goes where TFDS looks for it (see the class).

        Raises:
            UserError: TFDS has no such data set, or it cannot be fetched, or lacks a language or a
                split.
        """
        builder = self._builder()
        if not _is_prepared(builder):
            try:
                builder.download_and_prepare(download_dir=str(download_dir / "tfds"))
            # Download, extraction and Beam raise errors of a dozen libraries here.
            except Exception as error:
                raise UserError(
                    f"TFDS cannot fetch {self._name!r} ({_first_line(error)}); prepare it on a "
                    f"machine with a network (tfds build {self._name}) and set TfdsCorpus.data_dir "
                    "or TFDS_DATA_DIR to the folder that then holds it; looked in "
                    f"{builder.data_dir}"
                ) from error
        self._check(builder)

    def read(self, split: str, download_dir: Path) -> Iterator[Pair]:
        """Yields the pairs of a split in the order of its files, newlines replaced by spaces.

        Args:
            split: one of `splits`.
            download_dir: not used.

        Raises:
            UserError: there is no such split, or the data set is not prepared, lacks a language or
                is stored in a form that cannot be read.
        """
        check_split(split, self.splits)
        builder = self._prepared_builder()
        import tensorflow as tf

        languages = {key: tf.io.FixedLenFeature([], tf.string) for key in self._languages}
        for records in _FORMATS[_stored_as(builder)](builder, self._tfds_splits[split]):
            examples = tf.io.parse_example(records, languages)
            sides = (map(_one_line, examples[key].numpy()) for key in self._languages)
            yield from zip(*sides, strict=True)

    def _builder(self) -> Any:
        import tensorflow_datasets as tfds

        # TFDS reads the variable once, when it is imported; reading it here is reliable.
        data_dir = self._data_dir or os.environ.get("TFDS_DATA_DIR") or None
        _check_reachable(data_dir or "")
        try:
            return tfds.builder(self._name, data_dir=data_dir)
        except (tfds.core.DatasetNotFoundError, ValueError, AssertionError, OSError) as error:
            raise UserError(
                f"TFDS has no data set {self._name!r} ({_first_line(error)}); expected a name such "
                "as 'wmt14_translate/de-en' from tensorflow.org/datasets/catalog"
            ) from error

    def _prepared_builder(self) -> Any:
        builder = self._builder()
        if not _is_prepared(builder):
            raise UserError(
                f"TFDS's {self._name!r} is not prepared in {builder.data_dir}; set "
                "TfdsCorpus.data_dir or TFDS_DATA_DIR to the folder that holds it. Where "
                "training data have been made of it (datagen), its two files of JSON are enough"
            )
        self._check(builder)
        return builder

    def _check(self, builder: Any) -> None:
        """Raises a `UserError` unless the data set can be read, and has languages and splits."""
        import tensorflow_datasets as tfds

        stored_as = _stored_as(builder)
        if stored_as not in _FORMATS:
            raise UserError(
                f"TFDS's {self._name!r} is stored as {stored_as}; expected "
                f"{' or '.join(_FORMATS)}: prepare it anew in another TfdsCorpus.data_dir (tfds "
                f"build {self._name})"
            )
        if stored_as == _ARRAY_RECORD and importlib.util.find_spec("array_record") is None:
            raise UserError(
                f"TFDS's {self._name!r} is stored as array_record, but the package array_record is "
                "not installed: pip install 't2t_repro[array_record]', or prepare the data anew in "
                f"another TfdsCorpus.data_dir (tfds build {self._name})"
            )
        features = builder.info.features
        keys = [key for key in features if isinstance(features[key], tfds.features.Text)]
        for language in self._languages:
            if language not in keys:
                raise UserError(
                    f"TFDS's {self._name!r} has no text {language!r}; it has: "
                    f"{', '.join(keys) or 'none'}; set TfdsCorpus.source_language and "
                    "target_language to two of these"
                )
        for split, name in self._tfds_splits.items():
            try:
                builder.info.splits[name]
            except (KeyError, ValueError) as error:
                raise UserError(
                    f"TFDS's {self._name!r} has no split {name!r}; it has: "
                    f"{', '.join(builder.info.splits)}; set TfdsCorpus.{split}_split to one"
                ) from error


def _check_reachable(data_dir: str) -> None:
    """Raises a `UserError` for a remote folder that cannot be reached."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    scheme, separator, _ = data_dir.partition("://")
    if not separator:
        return
    try:
        tfds.core.Path(data_dir)
        is_known = scheme in tf.io.gfile.get_registered_schemes()
    except KeyError:  # of TFDS
        is_known = False
    if not is_known:
        raise UserError(
            f"TFDS's data_dir {data_dir!r}: TensorFlow cannot read {scheme}://; expected a folder "
            "of this machine or gs://<bucket>/...: mount it, or copy it, and set "
            "TfdsCorpus.data_dir or TFDS_DATA_DIR to that"
        )
    try:
        tf.io.gfile.exists(data_dir)
    except tf.errors.OpError as error:
        raise Unfinished(
            f"TFDS's data_dir {data_dir!r} cannot be reached ({reason_of(error)}): mend network or "
            "credentials, or set TfdsCorpus.data_dir or TFDS_DATA_DIR to a copy on this machine"
        ) from error


def _is_prepared(builder: Any) -> bool:
    # A pathlib.Path would make one slash of the two in gs://.
    return builder.data_path.joinpath("dataset_info.json").exists()


def _stored_as(builder: Any) -> str:
    """The form of the files; TFDS does not name the oldest, which is TFRecord."""
    file_format = builder.info.file_format
    return _TFRECORD if file_format is None else file_format.value


def _tf_records(builder: Any, split: str) -> Iterator[Any]:
    """Yields batches of serialised examples, in the order of the files."""
    import tensorflow as tf

    from t2t_repro.data.untuned import untuned

    for part in builder.info.splits[split].file_instructions:
        records = tf.data.TFRecordDataset(part.filename).skip(part.skip).take(part.take)
        yield from untuned(records.batch(_READ_BATCH))


def _array_records(builder: Any, split: str) -> Iterator[Any]:
    """Yields batches of serialised examples, in the order of the files."""
    import tensorflow_datasets as tfds

    records = builder.as_data_source(
        split, deserialize_method=tfds.decode.DeserializeMethod.RAW_BYTES
    )
    for first in range(0, len(records), _READ_BATCH):
        yield records.__getitems__(range(first, min(first + _READ_BATCH, len(records))))


_FORMATS = {_TFRECORD: _tf_records, _ARRAY_RECORD: _array_records}


def _one_line(sentence: bytes) -> str:
    """Decodes a sentence; line breaks and white space around them become one space."""
    text = sentence.decode("utf-8")
    if "\n" not in text:
        return text
    return " ".join(part.strip() for part in text.split("\n") if part.strip())


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0]
