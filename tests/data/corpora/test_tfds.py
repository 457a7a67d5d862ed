import importlib.util
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from etils.epath import gpath, register

from t2t_repro.data.cleaning import Cleaning
from t2t_repro.data.corpora import tfds as tfds_corpus
from t2t_repro.data.corpora.corpus import held_out_pairs
from t2t_repro.data.corpora.tfds import TfdsCorpus
from t2t_repro.data.preparation import Preparation
from t2t_repro.errors import UserError
from t2t_repro.text.training import SubwordTraining
from tests.real_corpora import corpus_folder

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
    """The sources of a split, in the order of the files."""
    builder = tfds.builder("tiny_translate", data_dir=data_dir)
    if builder.info.file_format == tfds.core.FileFormat.ARRAY_RECORD:
        examples = builder.as_data_source(split=split)
    else:
        in_order = tfds.ReadConfig(interleave_cycle_length=1)
        examples = tfds.as_numpy(builder.as_dataset(split=split, read_config=in_order))
    return [" ".join(example["en"].decode().split()) for example in examples]


def tiny(data_dir: str | None, **arguments) -> TfdsCorpus:
    return TfdsCorpus("tiny_translate", data_dir=data_dir, **arguments)


def test_splits_are_read_whole_in_either_direction_and_the_same_order_each_time(
    data_dir, tmp_path, monkeypatch
):
    monkeypatch.setattr(tfds_corpus, "_READ_BATCH", 7)  # the last batch is not full
    corpus, reverse = tiny(data_dir), tiny(data_dir, source_language="de", target_language="en")
    corpus.prepare(tmp_path)
    pairs = list(corpus.read("train", tmp_path))
    assert sorted(pairs) == sorted((f"train é {i}", f"train ü {i}") for i in range(TRAIN_SIZE))
    assert list(corpus.read("train", tmp_path)) == pairs
    assert list(reverse.read("train", tmp_path)) == [(b, a) for a, b in pairs]
    assert len(list(corpus.read("dev", tmp_path))) == 3
    assert len(list(held_out_pairs(corpus, tmp_path))) == 5


def test_files_are_read_one_after_the_other(data_dir, tmp_path):
    (folder,) = Path(data_dir).glob("tiny_translate/*")
    assert len(list(folder.glob("*-train.*-of-00002"))) == 2
    expected = [
        source for shard in range(2) for source in read_by_tfds(data_dir, f"train[{shard}shard]")
    ]
    assert [source for source, _ in tiny(data_dir).read("train", tmp_path)] == expected


def test_once_training_data_are_made_two_small_files_are_enough(data_dir, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(data_dir, copy)
    preparation = Preparation(
        tiny(str(copy)), Cleaning(drop_held_out=False), SubwordTraining(vocab_size=290)
    )
    made = preparation.run(tmp_path / "data").checksum
    for path in copy.rglob("*.*record*"):
        path.unlink()
    assert {path.name for path in copy.rglob("*.*")} >= {"dataset_info.json", "features.json"}
    assert preparation.run(tmp_path / "data").checksum == made
    shutil.rmtree(copy)
    with pytest.raises(UserError, match=r"not prepared in .*copy.*two files of JSON are enough"):
        preparation.run(tmp_path / "data")


def test_newlines_inside_a_sentence_become_one_space(data_dir, tmp_path):
    pairs = sorted(tiny(data_dir).read("test", tmp_path))
    assert pairs[0] == ("test in two lines é 0", "test in two lines ü 0")


def test_the_environment_variable_is_honoured_and_data_dir_goes_before_it(
    data_dir, tmp_path, monkeypatch
):
    monkeypatch.setenv("TFDS_DATA_DIR", data_dir)
    assert len(list(tiny(None).read("dev", tmp_path))) == 3
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "empty"))
    assert len(list(tiny(data_dir).read("dev", tmp_path))) == 3
    with pytest.raises(UserError, match="tiny_translate"):
        next(tiny(None).read("dev", tmp_path))


def test_split_names_and_slices_are_the_users(data_dir, tmp_path):
    corpus = tiny(data_dir, train_split="train[:10]", dev_split="train[10:14]", test_split=None)
    assert corpus.splits == ("train", "dev")
    assert len(list(corpus.read("train", tmp_path))) == 10
    described = corpus.describe()["splits"]
    assert [described[split]["pairs"] for split in ("train", "dev")] == [10, 4]
    assert tiny(data_dir, dev_split=None, test_split=None).splits == ("train",)


@pytest.mark.parametrize("split", ["train", "train[5:47]", "train[-30%:]+test[:1]"])
def test_what_is_read_is_what_tfds_reads(data_dir, tmp_path, monkeypatch, split):
    monkeypatch.setattr(tfds_corpus, "_READ_BATCH", 7)
    read = tiny(data_dir, train_split=split).read("train", tmp_path)
    assert [source for source, _ in read] == read_by_tfds(data_dir, split)


def test_files_of_another_kind_are_refused(tmp_path):
    folder = str(tmp_path / "data")
    TinyTranslate(data_dir=folder).download_and_prepare()
    (info,) = Path(folder).glob("tiny_translate/*/dataset_info.json")
    info.write_text(info.read_text().replace('"tfrecord"', '"riegeli"'))
    with pytest.raises(UserError, match="stored as riegeli; expected tfrecord or array_record"):
        next(tiny(folder).read("train", tmp_path))


def test_array_records_need_their_package(tmp_path, monkeypatch):
    folder = str(tmp_path / "data")
    TinyTranslate(data_dir=folder, file_format="array_record").download_and_prepare()
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: found(name) if name != "array_record" else None
    )
    with pytest.raises(UserError, match=r"pip install 't2t_repro\[array_record\]'"):
        tiny(folder).prepare(tmp_path)


@pytest.mark.parametrize("scheme", ["hdfs", "s3", "ftp"])
def test_file_systems_that_tensorflow_cannot_reach_are_refused(scheme, tmp_path, monkeypatch):
    for given, variable in ((f"{scheme}://host/tfds", ""), (None, f"{scheme}://host/tfds")):
        monkeypatch.setenv("TFDS_DATA_DIR", variable)
        with pytest.raises(UserError, match=rf"'{scheme}://host/tfds'.*expected .*gs://"):
            tiny(given).prepare(tmp_path)


@pytest.fixture
def in_memory(data_dir, monkeypatch):
    """The data on TensorFlow's file system in memory, for TFDS one more of its remote ones."""
    monkeypatch.setattr(gpath, "_URI_PREFIXES", (*gpath._URI_PREFIXES, "ram://"))
    monkeypatch.setattr(gpath, "_URI_SCHEMES", {*gpath._URI_SCHEMES, "ram"})
    monkeypatch.setitem(gpath._URI_MAP_ROOT, "ram://", "/ram/")
    monkeypatch.setitem(gpath._PREFIX_TO_BACKEND, "ram", gpath.backend_lib.tf_backend)
    monkeypatch.setitem(register._URI_PREFIXES_TO_CLS, "ram://", gpath.PosixGPath)
    for path in Path(data_dir).rglob("*"):
        copy = f"ram://bucket/{path.relative_to(data_dir)}"
        if path.is_file():
            tf.io.gfile.makedirs(copy.rsplit("/", 1)[0])
            tf.io.gfile.copy(path, copy, overwrite=True)
    return "ram://bucket"


@pytest.mark.parametrize("data_dir", ["tfrecord"], indirect=True)
def test_remote_data_are_read_where_they_lie(data_dir, in_memory, tmp_path, monkeypatch):
    monkeypatch.setattr(TinyTranslate, "download_and_prepare", pytest.fail)
    corpus = tiny(in_memory)
    corpus.prepare(tmp_path)
    expected = list(tiny(data_dir).read("train", tmp_path))
    assert list(corpus.read("train", tmp_path)) == expected
    assert list(tmp_path.iterdir()) == []


def test_a_bucket_that_refuses_is_said(tmp_path, monkeypatch):
    def refuse(path):
        raise tf.errors.PermissionDeniedError(None, None, "403 Forbidden\n when reading")

    monkeypatch.setattr(tf.io.gfile, "exists", refuse)
    with pytest.raises(UserError, match=r"'gs://bucket/x' cannot be reached \(403 Forbidden\): m"):
        tiny("gs://bucket/x").prepare(tmp_path)


def test_description_is_json_and_tells_directions_and_splits_apart(data_dir):
    description = tiny(data_dir).describe()
    assert json.loads(json.dumps(description)) == description
    assert description["name"] == "tiny_translate/1.0.0"
    others = [
        tiny(data_dir, source_language="de", target_language="en"),
        tiny(data_dir, train_split="train[:10]"),
    ]
    assert all(other.describe() != description for other in others)


def test_a_language_the_data_lack_names_those_there_are(data_dir, tmp_path):
    corpus = tiny(data_dir, target_language="fr")
    for ask in (lambda: corpus.prepare(tmp_path), corpus.describe):
        with pytest.raises(UserError, match=r"no text 'fr'; it has: (de, en|en, de)"):
            ask()


def test_a_split_the_data_lack_names_those_there_are(data_dir, tmp_path):
    with pytest.raises(UserError, match=r"'dev'; it has: .*validation.*dev_split"):
        tiny(data_dir, dev_split="dev").prepare(tmp_path)
    with pytest.raises(UserError, match=r"'validation'.*train, dev, test"):
        next(tiny(data_dir).read("validation", tmp_path))


def test_unknown_names_and_equal_languages_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"no data set 'no_such_thing'") as caught:
        TfdsCorpus("no_such_thing", data_dir=str(tmp_path)).prepare(tmp_path)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="both 'de'"):
        TfdsCorpus(source_language="de")


def test_what_cannot_be_fetched_says_where_it_may_be_put(tmp_path, monkeypatch):
    def fail(self, **_):
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(TinyTranslate, "download_and_prepare", fail)
    with pytest.raises(UserError, match=r"no route\).*data_dir.*TFDS_DATA_DIR") as caught:
        tiny(str(tmp_path)).prepare(tmp_path)
    assert "\n" not in str(caught.value)


def test_what_is_missing_is_prepared_once(tmp_path, monkeypatch):
    corpus = tiny(str(tmp_path / "data"))
    with pytest.raises(UserError, match="is not prepared in"):
        corpus.describe()
    corpus.prepare(tmp_path)
    assert corpus.describe()["splits"]["dev"]["pairs"] == 3
    monkeypatch.setattr(TinyTranslate, "download_and_prepare", pytest.fail)
    corpus.prepare(tmp_path)


def test_wmt14_where_it_is_at_hand(tmp_path):
    corpus = TfdsCorpus(data_dir=str(corpus_folder("tfds/wmt14_translate").parent))
    corpus.prepare(tmp_path)
    pairs = list(corpus.read("test", tmp_path))
    assert len(pairs) == corpus.describe()["splits"]["test"]["pairs"] == 3003
    assert any(source.startswith("Gutach: Increased safety") for source, _ in pairs)
