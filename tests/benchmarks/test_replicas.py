"""All layouts of a model get the same work, and overheads are of the right pairs."""

import numpy as np

from replicas import MANY, ONE, WHOLE, Cost, random_batches, table
from work import SIZES


def test_batches_are_the_same_however_they_are_cut():
    size = SIZES["smoke"]
    for whole, cut in zip(*(random_batches(size, 512, n) for n in (1, 8)), strict=True):
        for side, its_slices in zip(whole, cut, strict=True):
            assert its_slices.shape[0] == 8
            np.testing.assert_array_equal(its_slices.reshape(side.shape), side)


def test_overheads_are_of_the_strategy_over_slices_and_of_slices_over_none():
    costs = {WHOLE: Cost(1.0, 2.0), ONE: Cost(2.0, 3.0), MANY: Cost(2.2, 4.5)}
    row = table({"tiny": costs}).splitlines()[-1]
    assert row == "| tiny | 1.00 | 0.50 | 0.45 | +10% | +50% | +100% | +50% |"
