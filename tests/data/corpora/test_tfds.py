"""TensorFlow Datasets: the pairs that TFDS itself reads, in the order of the files."""

import json
import shutil
from collections.abc import Iterator

import pytest
import tensorflow_datasets as tfds

from t2t_repro.data.corpora import tfds as tfds_corpus
from t2t_repro.data.corpora.mixture import held_out_pairs
from t2t_repro.data.corpora.tfds import TfdsCorpus
from t2t_repro.errors import UserError

TRAIN_SIZE = 50


class TinyTranslate(tfds.core.GeneratorBasedBuilder):
    """A data set that is written to disk as any other, from sentences that need no network."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = tfds.features.Translation(languages=("en", "de"))
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager):
        return {
            "train": self._generate_examples(TRAIN_SIZE, "train"),
            "validation": self._generate_examples(3, "dev"),
            "test": self._generate_examples(2, "test\r\nin two\n\nlines\n"),
        }

    def _generate_examples(self, number: int, stem: str) -> Iterator[tuple[int, dict[str, str]]]:
        for key in range(number):
            yield key, {"en": f"{stem} é {key}", "de": f"{stem} ü {key}"}


@pytest.fixture(scope="module", params=["tfrecord", "array_record"])
def data_dir(tmp_path_factory, request) -> str:
    folder = str(tmp_path_factory.mktemp(request.param))
    config = tfds.download.DownloadConfig(num_shards=2)
    builder = TinyTranslate(data_dir=folder, file_format=request.param)
    builder.download_and_prepare(download_config=config)
    return folder


def read_by_tfds(data_dir: str, split: str) -> list[str]:
    """Returns the sources of a split, in the order of the files."""
    builder = tfds.builder("tiny_translate", data_dir=data_dir)
    if builder.info.file_format == tfds.core.FileFormat.ARRAY_RECORD:
        examples = builder.as_data_source(split=split)
    else:
        in_order = tfds.ReadConfig(interleave_cycle_length=1)
        examples = tfds.as_numpy(builder.as_dataset(split=split, read_config=in_order))
    return [" ".join(example["en"].decode().split()) for example in examples]


def tiny(data_dir: str | None, **arguments) -> TfdsCorpus:
    return TfdsCorpus("tiny_translate", data_dir=data_dir, **arguments)


def test_splits_are_read_whole_in_either_direction_and_in_the_order_of_the_files(
    data_dir, tmp_path, monkeypatch
):
    monkeypatch.setattr(tfds_corpus, "_READ_BATCH", 7)  # The last batch is not full.
    corpus, reverse = tiny(data_dir), tiny(data_dir, source_language="de", target_language="en")
    corpus.prepare(tmp_path)
    pairs = list(corpus.read("train", tmp_path))
    assert sorted(pairs) == sorted((f"train é {i}", f"train ü {i}") for i in range(TRAIN_SIZE))
    assert list(reverse.read("train", tmp_path)) == [(b, a) for a, b in pairs]
    assert len(list(held_out_pairs(corpus, tmp_path))) == 5
    assert [source for source, _ in pairs] == [
        source for shard in range(2) for source in read_by_tfds(data_dir, f"train[{shard}shard]")
    ]


def test_a_record_file_that_is_missing_is_one_line(data_dir, tmp_path):
    copy = shutil.copytree(data_dir, tmp_path / "copy")
    for path in copy.rglob("*train*-of-*"):
        path.unlink()
    with pytest.raises(UserError, match="cannot be read"):
        list(tiny(str(copy)).read("train", tmp_path))


@pytest.mark.parametrize("split", ["train[5:47]", "train[-30%:]+test[:1]"])
def test_slices_are_read_as_tfds_reads_them(data_dir, tmp_path, monkeypatch, split):
    monkeypatch.setattr(tfds_corpus, "_READ_BATCH", 7)
    read = tiny(data_dir, train_split=split).read("train", tmp_path)
    assert [source for source, _ in read] == read_by_tfds(data_dir, split)


def test_newlines_inside_a_sentence_become_one_space(data_dir, tmp_path):
    pairs = sorted(tiny(data_dir).read("test", tmp_path))
    assert pairs[0] == ("test in two lines é 0", "test in two lines ü 0")


def test_the_description_is_json_and_names_splits_and_directions(data_dir):
    description = tiny(data_dir).describe()
    assert json.loads(json.dumps(description)) == description
    assert description["name"] == "tiny_translate/1.0.0"
    assert {split: one["pairs"] for split, one in description["splits"].items()} == {
        "train": TRAIN_SIZE,
        "dev": 3,
        "test": 2,
    }
    fewer = tiny(data_dir, train_split="train[:10]", test_split=None)
    assert fewer.splits == ("train", "dev")
    for other in (fewer, tiny(data_dir, source_language="de", target_language="en")):
        assert other.describe() != description


def test_languages_splits_and_names_that_do_not_exist_are_named(data_dir, tmp_path):
    for corpus, message in (
        (tiny(data_dir, target_language="fr"), r"'fr'.*(de, en|en, de)"),
        (tiny(data_dir, dev_split="dev"), r"'dev'.*validation"),
        (TfdsCorpus("no_such_thing", data_dir=data_dir), "'no_such_thing'"),
    ):
        with pytest.raises(UserError, match=message):
            corpus.prepare(tmp_path)


def test_missing_data_are_prepared_once(tmp_path, monkeypatch):
    corpus = tiny(str(tmp_path / "data"))
    with pytest.raises(UserError, match="not prepared"):
        corpus.describe()
    corpus.prepare(tmp_path)
    assert corpus.describe()["splits"]["dev"]["pairs"] == 3
    monkeypatch.setattr(TinyTranslate, "download_and_prepare", pytest.fail)
    corpus.prepare(tmp_path)
