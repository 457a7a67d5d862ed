"""How far losses are from those of another machine."""

import math

import pytest

from same_losses import difference


def test_the_largest_difference_is_relative_to_what_is_expected():
    assert difference([2.0, 4.4], [2.0, 4.0]) == pytest.approx(0.1)
    assert difference([1.5, 4.0], [2.0, 4.0]) == pytest.approx(0.25)


def test_a_loss_that_is_no_number_is_not_passed_over():
    assert math.isnan(difference([2.0, math.nan], [2.0, 4.0]))
