from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.runs.averaging import average_weights
from tests.layer_test import randomize
from tests.training.tiny import assert_same, copies, tiny_model


def write(model, path):
    return tf.train.Checkpoint(model=model).save(str(path))


@pytest.mark.parametrize("count", [1, 3, 20])
def test_average_of_copies_is_the_copy_bit_for_bit(tmp_path, count):
    model = tiny_model(dropout=0.1)
    randomize(model)
    expected = copies(model)
    paths = [write(model, tmp_path / f"step-{i}") for i in range(min(count, 3))]
    other = tiny_model(dropout=0.1, seed=1)
    average_weights(other, (paths * count)[:count])
    assert_same(copies(other), expected)


def test_average_is_the_mean(tmp_path):
    model, paths = tiny_model(), []
    sums = [np.zeros(weight.shape) for weight in copies(model)]
    for seed in range(3):
        randomize(model, seed)
        paths.append(write(model, tmp_path / f"step-{seed}"))
        sums = [total + weight for total, weight in zip(sums, copies(model), strict=True)]
    average_weights(model, paths)
    assert_same(copies(model), [(total / 3).astype(np.float32) for total in sums])
    randomize(model, 0)
    first = copies(model)
    average_weights(model, [paths[0], paths[1], paths[0], paths[1]])
    randomize(other := tiny_model(), 1)
    means = [(a + b) / 2 for a, b in zip(first, copies(other), strict=True)]
    for ours, mean in zip(copies(model), means, strict=True):
        np.testing.assert_allclose(ours, mean, rtol=1e-6, atol=1e-7)


def test_a_checkpoint_of_another_model_among_them(tmp_path):
    good = write(tiny_model(num_layers=2), tmp_path / "step-1")
    for name, options in (("narrow", {"num_layers": 2, "d_model": 8}), ("shallow", {})):
        bad = write(tiny_model(**options), tmp_path / name)
        with pytest.raises(UserError, match=f"{name}-1 does not fit the model beside it"):
            average_weights(tiny_model(num_layers=2), [good, bad])


def test_a_checkpoint_that_a_run_has_deleted_meanwhile(tmp_path):
    path = write(tiny_model(), tmp_path / "step")
    Path(f"{path}.index").unlink()
    with pytest.raises(UserError, match=r"step-1 is gone, as a run at work deletes its old ones: "):
        average_weights(tiny_model(), [path])
