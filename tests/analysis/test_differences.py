"""A difference counts where it is larger than seeds alone explain."""

import random

import pytest

from t2t_repro.analysis.differences import Difference, Spread, t_quantile
from t2t_repro.analysis.seeds import Sample


@pytest.mark.parametrize(
    ("degrees", "expected"), [(1, 12.706), (2, 4.303), (4, 2.776), (40, 2.021), (10**6, 1.960)]
)
def test_student_s_distribution_is_that_of_the_tables(degrees, expected):
    assert t_quantile(degrees) == pytest.approx(expected, abs=6e-4)


def test_variances_are_pooled_by_their_degrees_of_freedom():
    # Variances 1 (of two degrees) and 8 (of one); a single run adds nothing.
    samples = [Sample((1.0, 2.0, 3.0)), Sample((0.0, 4.0)), Sample((50.0,))]
    spread = Spread.pooled(samples)
    assert spread.deviation == pytest.approx(((2 * 1 + 8) / 3) ** 0.5)
    assert (spread.degrees, spread.largest) == (3, pytest.approx(8**0.5))
    found = spread.difference(samples[1], samples[2])
    assert found.value == -48.0
    # t with 3 degrees is 3.182; means of two runs and of one.
    assert found.half_width == pytest.approx(3.1824 * (10 / 3 * 1.5) ** 0.5, rel=1e-4)


def test_one_in_twenty_differences_that_are_none_is_taken_for_one():
    rng = random.Random(1)
    wrong = total = 0
    for _ in range(150):
        rows = [Sample(tuple(rng.gauss(0, 1) for _ in range(3))) for _ in range(6)]
        spread = Spread.pooled(rows)
        for one, other in zip(rows[::2], rows[1::2], strict=True):
            total += 1
            wrong += spread.difference(one, other).verdict(1.0) != "cannot be told apart"
    assert 0.025 < wrong / total < 0.085


def test_without_a_second_run_nothing_is_said():
    spread = Spread.pooled([Sample((1.0,)), Sample((9.0,))])
    difference = spread.difference(Sample((9.0,)), Sample((1.0,)))
    assert difference == Difference(8.0, None)
    assert difference.verdict(1.0) == difference.verdict(1.0, 0.5) == "spread unknown"
    assert (difference.show(2), Difference(-8.0, 0.25).show(1)) == ("+8.00", "-8.0 ± 0.2")


@pytest.mark.parametrize(
    ("value", "published", "tolerance", "verdict"),
    [
        (1.1, 0.5, None, "agrees"),
        (0.9, 0.5, None, "cannot be told apart"),
        (-0.9, 0.5, None, "cannot be told apart"),
        (-1.1, 0.5, None, "disagrees"),
        (-1.1, -0.5, None, "agrees"),
        (1.1, -0.5, None, "disagrees"),
        (-0.4, 0.1, 1.5, "agrees"),
        (-0.6, 0.1, 1.5, "cannot be told apart"),
        (2.4, 0.1, 1.5, "cannot be told apart"),
        (-2.6, 0.1, 1.5, "disagrees"),
    ],
)
def test_the_whole_interval_decides(value, published, tolerance, verdict):
    assert Difference(value, 1.0).verdict(published, tolerance) == verdict
