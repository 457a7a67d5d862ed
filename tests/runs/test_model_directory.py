import dataclasses
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tensorflow as tf

import t2t_repro
from t2t_repro.data.batches import CorpusReport, EpochReport
from t2t_repro.errors import UserError
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs import checkpoint_choice
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.subword_model import SubwordPair, shared
from t2t_repro.text.training import SubwordTraining
from t2t_repro.training.checkpoints import Checkpoints, CheckpointSettings
from t2t_repro.training.optimizer import adam
from t2t_repro.training.run_state import RunState
from tests.layer_test import randomize
from tests.training.tiny import assert_same, copies, tiny_model


@pytest.fixture(scope="module")
def subwords(tmp_path_factory):
    """Two vocabularies, each shared by source and target."""
    folder = tmp_path_factory.mktemp("subwords")
    for name, sentence in (("one", "a man on a bench"), ("two", "zwei Frauen mit Hut")):
        SubwordTraining(vocab_size=275).train([sentence] * 20, folder / name)
    return shared(SentencePieceModel(folder / "one")), shared(SentencePieceModel(folder / "two"))


@pytest.fixture(scope="module")
def run(tmp_path_factory, subwords):
    """A model directory with checkpoints 1, 2, 3 and the best one, 2; and their weights."""
    path = tmp_path_factory.mktemp("run") / "model"
    model = tiny_model(dropout=0.1)
    ModelDirectory(path).describe(model, subwords[0], "a = 1\n", "a = 1\nb = 2\n")
    optimizer = adam(learning_rate=0.1)
    optimizer.build(model.trainable_variables)
    checkpoints = Checkpoints(ModelDirectory(path), model, optimizer, CheckpointSettings())
    weights = {}
    for step in (1, 2, 3):
        randomize(model, step)
        weights[step] = copies(model)
        checkpoints.save(RunState(step=step))
        if step == 2:
            checkpoints.save_best(RunState(step=step))
    return path, weights


@pytest.fixture
def copy(run, tmp_path):
    """A model directory to spoil, in another place than where it was written."""
    shutil.copytree(run[0], tmp_path / "copy")
    return ModelDirectory(tmp_path / "copy")


def test_an_average_is_old_where_the_run_has_gone_on(copy):
    for step, newer in ((3, None), (2, "step-3")):
        shutil.rmtree(copy.averaged, ignore_errors=True)
        write_averaged(copy, step)
        found = copy.choice.newer_than_average(copy.checkpoint())
        assert found and Path(found).name == newer if newer else found is None
        for name in ("best", "latest"):
            assert copy.choice.newer_than_average(copy.checkpoint(name)) is None


def write_averaged(directory, seed):
    model = tiny_model(dropout=0.1)
    randomize(model, seed)
    directory.choice.write_averaged(model, seed)
    return copies(model)


# Its contents


def test_a_directory_is_complete_in_itself(run, subwords):
    directory, weights = ModelDirectory(run[0]), run[1]
    assert directory.subwords().contents() == subwords[0].contents()
    assert (directory.path / "config.gin").read_text() == "a = 1\n"
    assert (directory.path / "operative_config.gin").read_text() == "a = 1\nb = 2\n"
    versions = json.loads((directory.path / "versions.json").read_text())
    assert versions["t2t_repro"] == t2t_repro.__version__
    assert versions["tensorflow"] == tf.__version__
    assert directory.subwords().target.size == 275
    assert_same(copies(directory.load_model("checkpoints/step-3")), weights[3])
    assert not list(directory.path.glob(".*"))


def test_describing_again_a_run_that_goes_on(copy, subwords):
    """With another model object, whose automatic name is another."""
    copy.describe(tiny_model(dropout=0.1), subwords[0], "a = 2\n", "")
    assert (copy.path / "config.gin").read_text() == "a = 2\n"
    assert copy.new_model().num_layers == 1


@pytest.mark.parametrize("rates", [{"dropout": 0.3}, {"relu_dropout": 0.1}])
def test_a_run_may_go_on_with_another_dropout(copy, subwords, rates):
    model = tiny_model(dropout=0.1)
    config = dataclasses.replace(model.config, **rates)
    model = Transformer.from_config(model.get_config() | {"config": config.to_dict()})
    copy.describe(model, subwords[0], "", "")
    assert copy.new_model().config == config


def test_a_swapped_subword_model_is_an_error(copy, subwords):
    shutil.copy(subwords[1].target.model_path, copy.path / "subwords.model")
    with pytest.raises(UserError, match="has other subwords than the model was trained with"):
        copy.subwords()
    # What was written before there was a hash can be used.
    versions = json.loads(copy.versions_json.read_text())
    del versions["subwords_sha256"]
    copy.versions_json.write_text(json.dumps(versions))
    assert copy.subwords().target.size == 275


@pytest.mark.parametrize("before", [False, None], ids=["kept", "saved before the option"])
def test_a_run_may_go_on_in_less_memory(copy, subwords, before):
    path = copy.path / "model.json"
    saved = json.loads(path.read_text())
    assert saved["config"].pop("recompute") is False
    if before is not None:
        saved["config"]["recompute"] = before
    path.write_text(json.dumps(saved))
    assert not copy.new_model().config.recompute
    model = tiny_model(dropout=0.1)
    config = dataclasses.replace(model.config, recompute=True)
    model = Transformer.from_config(model.get_config() | {"config": config.to_dict()})
    copy.describe(model, subwords[0], "", "")
    assert copy.new_model().config.recompute


@pytest.mark.parametrize("sizes", [{"d_model": 32}, {"num_layers": 2}])
def test_a_directory_of_another_model(copy, subwords, sizes):
    before = (copy.path / "model.json").read_bytes()
    (name,) = sizes
    with pytest.raises(
        UserError, match=rf"other sizes \(.*{name} .* there, .* now\): .*--model_dir"
    ):
        copy.describe(tiny_model(**{"dropout": 0.1, **sizes}), subwords[0], "", "")
    assert (copy.path / "model.json").read_bytes() == before
    assert (copy.path / "config.gin").read_text() == "a = 1\n"


def test_a_directory_of_another_vocabulary(copy, subwords):
    with pytest.raises(UserError, match="has other subwords than the data"):
        copy.describe(tiny_model(dropout=0.1), subwords[1], "", "")
    assert copy.subwords().contents() == subwords[0].contents()


def test_a_start_that_was_killed_between_two_vocabularies_goes_on(tmp_path, subwords):
    directory = ModelDirectory(tmp_path)
    pair = SubwordPair(subwords[0].source, subwords[1].target)
    shutil.copy(subwords[0].source.model_path, tmp_path / "source_subwords.model")
    with pytest.raises(UserError, match="has other subwords than the data"):
        directory.describe(
            tiny_model(), SubwordPair(subwords[1].source, subwords[0].target), "", ""
        )
    with pytest.raises(UserError, match="has other subwords than the data"):
        directory.describe(tiny_model(), subwords[0], "", "")
    directory.describe(tiny_model(), pair, "", "")
    assert directory.subwords().contents() == pair.contents()


# Which checkpoint


def test_averaged_comes_before_best_before_latest(copy, run):
    averaged = write_averaged(copy, 9)
    assert copy.checkpoint() == str(copy.path / "averaged" / "step-9")
    assert_same(copies(copy.load_model()), averaged)
    shutil.rmtree(copy.path / "averaged")
    assert copy.checkpoint() == str(copy.path / "best" / "step-2")
    assert_same(copies(copy.load_model()), run[1][2])
    shutil.rmtree(copy.path / "best")
    assert copy.checkpoint() == str(copy.path / "checkpoints" / "step-3")
    assert_same(copies(copy.load_model()), run[1][3])
    shutil.rmtree(copy.path / "checkpoints")
    with pytest.raises(UserError, match=r"no checkpoint of any kind in .*: train first"):
        copy.checkpoint()


def test_a_checkpoint_by_its_name(copy, run):
    write_averaged(copy, 9)
    assert copy.checkpoint("averaged").endswith("step-9")
    assert copy.checkpoint("best").endswith("step-2")
    assert copy.checkpoint("latest").endswith("step-3")
    assert_same(copies(copy.load_model("checkpoints/step-1")), run[1][1])
    for name in ("checkpoints/step-7", "newest"):
        with pytest.raises(UserError, match=f"no checkpoint {name} in .*checkpoints/step-<n>"):
            copy.checkpoint(name)


def test_the_last_checkpoints(copy):
    expected = {step: str(copy.path / "checkpoints" / f"step-{step}") for step in (1, 2, 3)}
    assert copy.last_checkpoints(3) == expected
    assert copy.last_checkpoints(1) == {3: expected[3]}
    assert list(copy.last_checkpoints(2)) == [2, 3]


def test_what_a_run_began_with_is_none_of_its_last_checkpoints(copy):
    for path in (copy.path / "checkpoints").glob("step-1.*"):
        shutil.copy(path, path.with_name(path.name.replace("step-1", "step-0")))
    assert list(copy.last_checkpoints(3)) == [1, 2, 3]
    with pytest.raises(UserError, match=r"cannot average 4 .*which holds 3"):
        copy.last_checkpoints(4)


@pytest.mark.parametrize("count", [4, 0, -1])
def test_fewer_checkpoints_than_asked_for(copy, count):
    with pytest.raises(UserError, match=f"cannot average {count} .*which holds 3: give --last"):
        copy.last_checkpoints(count)
    shutil.rmtree(copy.path / "checkpoints")
    with pytest.raises(UserError, match="which holds 0"):
        copy.last_checkpoints(1)


# Half copied


def lose(copy, name):
    """Deletes a file of an averaged, a best or one of several checkpoints."""
    write_averaged(copy, 9)
    (file,) = copy.path.glob(name)
    file.unlink()


@pytest.mark.parametrize(
    ("name", "asked", "message"),
    [
        (
            "averaged/*.index",
            (None, "averaged"),
            r"^{}/averaged/step-9\.index is missing: average ag",
        ),
        ("best/*.index", ("best",), r"^{}/best/step-2\.index is missing: copy {}/best again"),
        ("checkpoints/step-3.index", ("latest",), r"^{}/checkpoints/step-3\.index is missing"),
        ("averaged/*.data*", (None, "averaged"), "averaged/step-9 has 0: put back"),
        ("best/*.data*", ("best", "best/step-2"), "best/step-2 has 0: put back"),
        ("checkpoints/step-3.data*", ("latest",), "checkpoints/step-3 has 0: put back"),
    ],
)
def test_no_other_checkpoint_is_taken_for_one_half_copied(copy, name, asked, message):
    lose(copy, name)
    message = message.replace("{}", str(copy.path))
    for one in asked:
        with pytest.raises(UserError, match=message) as error:
            copy.load_model(one)
        assert "\n" not in str(error.value)
    assert copy.load_model("checkpoints/step-1")


def test_an_averaged_checkpoint_without_its_list_or_without_anything(copy):
    write_averaged(copy, 9)
    (copy.averaged / "checkpoint").unlink()
    assert copy.checkpoint().endswith("step-9")
    (copy.averaged / "step-9.index").unlink()
    with pytest.raises(UserError, match=r"averaged/step-9\.index is missing: average again"):
        copy.checkpoint()
    shutil.rmtree(copy.averaged)
    copy.averaged.mkdir()
    with pytest.raises(
        UserError, match=r"averaged has no checkpoint: average again .*--model_dir="
    ):
        copy.checkpoint()
    assert copy.checkpoint("best").endswith("step-2")


def test_an_average_that_was_ended_while_it_took_the_place_of_another(copy):
    write_averaged(copy, 9)
    copy.averaged.rename(copy.path / ".averaged.before")
    with pytest.raises(UserError, match="averaged was being replaced: average again"):
        copy.checkpoint()


def test_what_a_killed_writer_leaves_is_no_half_copy(copy):
    data = copy.checkpoints / "step-4.data-00000-of-00001"
    data.write_bytes(b"x")
    (copy.best / ".partial").mkdir()
    assert copy.checkpoint("latest").endswith("step-3")
    # One that the trainer has set aside, having said so, is not asked for again.
    index = copy.checkpoints / "step-3.index"
    index.rename(index.with_name("step-3.index.unreadable"))
    assert copy.checkpoint("latest").endswith("step-2")


def test_the_mean_of_checkpoints_is_of_all_of_them(copy):
    (copy.checkpoints / "step-2.index").unlink()
    assert list(copy.last_checkpoints(1)) == [3]
    with pytest.raises(UserError, match=r"checkpoints/step-2\.index is missing: copy"):
        copy.last_checkpoints(2)


# The averaged model


def test_the_averaged_model_replaces_the_one_before(copy):
    write_averaged(copy, 7)
    second = write_averaged(copy, 8)
    assert [path.name for path in (copy.path / "averaged").glob("*.index")] == ["step-8.index"]
    assert_same(copies(copy.load_model("averaged")), second)
    assert not list(copy.path.glob(".*"))


def test_an_averaged_model_stays_until_the_new_one_is_written(copy, monkeypatch):
    first = write_averaged(copy, 7)

    def full(*_, **__):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(tf.train.Checkpoint, "write", full)
        with pytest.raises(UserError, match="No space left"):
            write_averaged(copy, 8)
    assert_same(copies(copy.load_model("averaged")), first)

    # Deleting takes long: whatever is deleted, one of the two is there.
    delete = shutil.rmtree

    def rmtree(path, **options):
        delete(path, **options)
        assert copy.checkpoint("averaged")

    monkeypatch.setattr(checkpoint_choice.shutil, "rmtree", rmtree)
    second = write_averaged(copy, 8)
    assert_same(copies(copy.load_model("averaged")), second)


# Damage


@pytest.mark.parametrize(
    ("name", "message"),
    [("model.json", "model.json is missing"), ("subwords.model", "has no subword model, expected")],
)
def test_no_model_directory(copy, name, message):
    (copy.path / name).unlink()
    for call in (copy.subwords, copy.checkpoint, copy.new_model, copy.load_model):
        with pytest.raises(UserError, match=message):
            call()
    with pytest.raises(UserError, match=message):
        copy.last_checkpoints(1)


@pytest.mark.parametrize("text", ["", '{"vocab_size": 4', "[]", '{"no_size": 1}'])
def test_a_damaged_model_json(copy, subwords, text):
    (copy.path / "model.json").write_text(text)
    with pytest.raises(UserError, match=r"model\.json does not describe a Transformer") as error:
        copy.new_model()
    assert "\n" not in str(error.value)
    with pytest.raises(UserError, match=r"model\.json does not|holds a model of other sizes"):
        copy.describe(tiny_model(dropout=0.1), subwords[0], "", "")


@pytest.mark.parametrize("damage", ["cut", "missing", "changed"])
def test_a_damaged_checkpoint(copy, run, damage):
    file = copy.path / "checkpoints" / "step-3.data-00000-of-00001"
    content = bytearray(file.read_bytes())
    content[content.index(run[1][3][0].tobytes()) + 5] ^= 0xFF
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(content if damage == "changed" else content[: len(content) // 2])
    with pytest.raises(UserError, match=r"step-3 (has|does not fit the model beside)") as error:
        copy.load_model("latest")
    assert "\n" not in str(error.value)


def test_a_run_that_goes_on_with_other_batches_is_told(tmp_path):
    directory = ModelDirectory(tmp_path)
    report = EpochReport(100, 2, 3, 20, 900, 1200, 2400)
    assert directory.differing_epoch(report) == []
    directory.write_epoch(report)
    assert directory.differing_epoch(report) == []
    (difference,) = directory.differing_epoch(dataclasses.replace(report, micro_batches=8))
    assert difference.startswith("an epoch has 2 micro batches there, 8 now: ")
    # Of a mixture as many sentences as before may be others.
    for sentences in (60, 70):
        corpora = {"news": CorpusReport(sentences, 500, 700)}
        mixed = dataclasses.replace(report, corpora=corpora)
        found = directory.differing_epoch(mixed)
        directory.write_epoch(mixed)
    assert found[0].startswith("an epoch has 60 sentences of news there, 70 now: ")
    for spoilt in ("{", "[]", '{"corpora": {"news": {}}}'):
        directory.epoch_json.write_text(spoilt)
        assert directory.differing_epoch(report) == []


def test_the_mean_length_of_targets_is_the_epochs_or_unknown(tmp_path):
    directory = ModelDirectory(tmp_path)
    assert directory.mean_target_length() is None
    directory.write_epoch(EpochReport(100, 2, 3, 20, 900, 1250, 2400))
    assert directory.mean_target_length() == 12.5
    for damaged in ("{", "[]", "{}", '{"target_tokens": 5, "sentences": 0}'):
        directory.epoch_json.write_text(damaged)
        assert directory.mean_target_length() is None


def test_a_run_goes_on_whose_directory_is_older_than_a_choice(copy, subwords):
    saved = json.loads(copy.model_json.read_text())
    older = {**saved, "config": dict(saved["config"])}
    for name in ("tied_embeddings", "source_vocab_size"):
        del older[name]
    del older["config"]["norm"]
    copy.model_json.write_text(json.dumps(older))
    model = copy.new_model()
    copy.describe(model, subwords[0], "", "")
    assert json.loads(copy.model_json.read_text()) == saved


def test_scores_that_are_written_at_once_are_whole(tmp_path):
    def write(number):
        directory = ModelDirectory(tmp_path)
        directory.write_scores(("dev", "test")[number % 2], {"scores": [number] * 1000})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(80)))
    for number, split in enumerate(("dev", "test")):
        (found,) = set(
            json.loads(ModelDirectory(tmp_path).scores_json(split).read_text())["scores"]
        )
        assert found % 2 == number
    assert sorted(path.name for path in (tmp_path / "scores").iterdir()) == [
        "dev.json",
        "test.json",
    ]
