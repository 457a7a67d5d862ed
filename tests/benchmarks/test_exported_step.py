import json

import numpy as np
import pytest
import tensorflow as tf

import exported_step
from t2t_repro.data.batch_shapes import BatchShape
from work import ModelSize

TINY = ModelSize(50, 1, 16, 32, 2, 0.1)
SHAPE = BatchShape(8, 6, 5, 40, 40)


@pytest.fixture(scope="module")
def step():
    return exported_step.train_step(TINY, "float32")


def batch(number):
    rng = np.random.default_rng(number)
    ids = [rng.integers(3, 50, (SHAPE.rows, length)).astype(np.int32) for length in SHAPE.lengths]
    for of_side in ids:
        of_side[::2, -2:] = 0
    return ids


def test_a_folder_says_what_its_programs_read_and_return(step, tmp_path):
    exported_step.write_programs(tmp_path, step, SHAPE, TINY, "float32")
    description = json.loads((tmp_path / "description.json").read_text(encoding="utf-8"))
    assert description["size"] == TINY._asdict()
    assert description["shape"] == SHAPE._asdict()
    weights = description["weights"]
    assert weights == len(step.updated)
    gradients, update = (description["programs"][name] for name in ("gradients", "update"))
    assert [name for name, *_ in gradients["inputs"][weights:]] == ["seeds", "source", "target"]
    assert gradients["outputs"][3:][0][1:] == gradients["inputs"][0][1:]
    # What an update replaces stands first on either side.
    assert update["inputs"][: 3 * weights] == update["outputs"][: 3 * weights]
    for name in ("gradients", "update"):
        assert (tmp_path / f"{name}.mlirbc").read_bytes().startswith(b"ML\xefR")


def test_the_exported_update_is_the_trainers(step):
    state = [tf.constant(variable.value) for variable in step.updated]
    state += [tf.zeros_like(tensor) for tensor in state * 2]
    update = tf.function(exported_step._update(step, SHAPE))
    for number in range(2):
        ids = batch(number)
        seeds = exported_step.dropout_seeds(step, number)
        *state, loss, nll, tokens, norm, rate = update(
            *state, tf.constant(number, tf.int64), seeds, *ids
        )
        expected = step(number, *(of_side[None] for of_side in ids), SHAPE.capacity)
        found = [float(value) for value in (loss, nll, tokens, norm, rate)]
        np.testing.assert_allclose(found, [float(value) for value in expected[:5]], rtol=1e-5)
    for tensor, variable in zip(state, step.updated, strict=False):
        np.testing.assert_allclose(tensor, variable.numpy(), atol=1e-6)


def test_a_gradient_that_cannot_be_used_changes_nothing(step):
    state = [tf.constant(variable.value) for variable in step.updated]
    state += [tf.zeros_like(tensor) for tensor in state * 2]
    state[0] += np.inf
    seeds = exported_step.dropout_seeds(step, 0)
    new = exported_step._update(step, SHAPE)(*state, tf.constant(0, tf.int64), seeds, *batch(0))
    for after, before in zip(new, state, strict=False):
        np.testing.assert_array_equal(after, before)
