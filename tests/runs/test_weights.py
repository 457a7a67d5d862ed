"""Weights out of checkpoints, and their mean."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.runs.weights import average_weights
from tests.layer_test import randomize
from tests.training.tiny import assert_same, copies, tiny_model


def write(model, path):
    return tf.train.Checkpoint(model=model).save(str(path))


def test_the_average_of_copies_is_the_copy_bit_for_bit(tmp_path):
    model = tiny_model()
    randomize(model)
    other = tiny_model(seed=1)
    average_weights(other, [write(model, tmp_path / "step")] * 3)
    assert_same(copies(other), copies(model))


def test_the_average_is_the_mean(tmp_path):
    model, paths, values = tiny_model(), [], []
    for seed in range(3):
        randomize(model, seed)
        paths.append(write(model, tmp_path / f"step-{seed}"))
        values.append([weight.astype(np.float64) for weight in copies(model)])
    average_weights(model, paths)
    means = [(sum(of_weight) / 3).astype(np.float32) for of_weight in zip(*values, strict=True)]
    assert_same(copies(model), means)


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    good = write(tiny_model(num_layers=2), tmp_path / "step-1")
    narrow, deep = {"num_layers": 2, "d_model": 8}, {"num_layers": 2, "num_decoder_layers": 3}
    for name, sizes in (("narrow", narrow), ("shallow", {}), ("deep", deep)):
        bad = write(tiny_model(**sizes), tmp_path / name)
        with pytest.raises(UserError, match=f"{name}-1 does not fit"):
            average_weights(tiny_model(num_layers=2), [good, bad])
