"""The table of estimates beside XLA's analysis, of a model that compiles in seconds."""

import pytest

import memory
from exported_step import train_step
from t2t_repro.data.batch_shapes import BatchShape
from work import ModelSize

SMALL = ModelSize(50, 2, 64, 256, 2, 0.1)
SHAPE = BatchShape(16, 40, 40, 500, 500)


@pytest.mark.parametrize("recompute", [False, True])
def test_xla_needs_about_what_is_estimated(recompute):
    step = train_step(SMALL, "float32", recompute)
    (row,) = memory.rows(step, [SHAPE], False, memory.of_this_device)
    lengths, estimate, found, ratio, with_gradients = row.split(" | ")
    assert lengths == "16 × 40, 40"
    assert estimate.endswith(" GB")
    assert found.endswith(" GB")
    assert 0.85 < float(ratio) < 1.15
    assert abs(float(with_gradients) - 1) <= abs(float(ratio) - 1)
