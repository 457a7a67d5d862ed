"""Which of a directory's checkpoints is used; none in the place of one that was copied in part."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.average import average_weights
from t2t_repro.errors import UserError
from t2t_repro.runs.checkpoint_folder import newer_than_average
from t2t_repro.runs.weights import save_weights
from tests.layer_test import randomize
from tests.training.tiny import assert_same, copies, tiny_model


def write_averaged(directory, seed):
    model = tiny_model(dropout=0.1)
    randomize(model, seed)
    save_weights(model, directory.averaged, seed)
    return copies(model)


def test_averaged_comes_before_best_before_latest(copy, run):
    averaged = write_averaged(copy, 9)
    for folder, step, weights in (
        (copy.averaged, 9, averaged),
        (copy.best, 2, run[1][2]),
        (copy.checkpoints, 3, run[1][3]),
    ):
        assert copy.checkpoint() == str(folder / f"step-{step}")
        assert_same(copies(copy.load_model()), weights)
        shutil.rmtree(folder)
    with pytest.raises(UserError, match="no checkpoint of any kind"):
        copy.checkpoint()


def test_a_checkpoint_is_found_by_its_name(copy, run):
    write_averaged(copy, 9)
    for name, step in (("averaged", 9), ("best", 2), ("latest", 3), ("checkpoints/step-1", 1)):
        assert copy.checkpoint(name).endswith(f"step-{step}")
    for name in ("checkpoints/step-7", "newest"):
        with pytest.raises(UserError, match=f"no checkpoint {name}"):
            copy.checkpoint(name)


def test_the_last_checkpoints_are_those_that_updates_have_led_to(copy):
    for path in copy.checkpoints.glob("step-1.*"):
        shutil.copy(path, path.with_name(path.name.replace("step-1", "step-0")))
    expected = {step: str(copy.checkpoints / f"step-{step}") for step in (1, 2, 3)}
    assert copy.last_checkpoints(3) == expected
    assert copy.last_checkpoints(1) == {3: expected[3]}
    # A run that ends early has fewer than the last five.
    assert copy.last_checkpoints(5) == expected
    for count in (0, -1):
        with pytest.raises(UserError, match=f"cannot average {count} .*which holds 3"):
            copy.last_checkpoints(count)


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("averaged/step-9.index", (None, "averaged")),
        ("best/step-2.index", ("best",)),
        ("checkpoints/step-3.index", ("latest",)),
    ],
)
def test_no_other_checkpoint_takes_the_place_of_one_copied_in_part(copy, name, asked):
    write_averaged(copy, 9)
    (copy.path / name).unlink()
    for one in asked:
        with pytest.raises(UserError, match=f"{name} is missing"):
            copy.load_model(one)
    assert copy.load_model("checkpoints/step-1")


def test_the_mean_is_of_all_checkpoints(copy):
    (copy.checkpoints / "step-2.index").unlink()
    assert list(copy.last_checkpoints(1)) == [3]
    for count in (2, 5):
        with pytest.raises(UserError, match=r"checkpoints/step-2\.index is missing"):
            copy.last_checkpoints(count)


def test_leftovers_of_a_killed_writer_are_not_checkpoints(copy):
    (copy.checkpoints / "step-4.data-00000-of-00001").write_bytes(b"x")
    (copy.best / ".partial").mkdir()
    assert copy.checkpoint("latest").endswith("step-3")
    # The trainer has set one aside that it could not read.
    index = copy.checkpoints / "step-3.index"
    index.rename(index.with_name("step-3.index.unreadable"))
    assert copy.checkpoint("latest").endswith("step-2")


def test_an_average_is_old_if_the_run_has_gone_on(copy):
    for step, newer in ((3, None), (2, str(copy.checkpoints / "step-3"))):
        write_averaged(copy, step)
        assert newer_than_average(copy.path, copy.checkpoint()) == newer
        for name in ("best", "latest"):
            assert newer_than_average(copy.path, copy.checkpoint(name)) is None


def test_an_average_replaces_the_one_before_also_of_a_later_step(copy):
    for step in (8, 7):
        averaged = write_averaged(copy, step)
        assert [path.name for path in copy.averaged.glob("*.index")] == [f"step-{step}.index"]
        assert_same(copies(copy.load_model("averaged")), averaged)


# Averages


def test_the_average_is_the_mean(tmp_path):
    model, paths, values = tiny_model(), [], []
    for seed in range(3):
        randomize(model, seed)
        paths.append(tf.train.Checkpoint(model=model).save(str(tmp_path / f"step-{seed}")))
        values.append([weight.astype(np.float64) for weight in copies(model)])
    average_weights(model, paths)
    means = [(sum(of_weight) / 3).astype(np.float32) for of_weight in zip(*values, strict=True)]
    assert_same(copies(model), means)
