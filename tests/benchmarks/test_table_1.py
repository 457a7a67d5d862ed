"""Table 1's formulas against what small layers really do, counted step by step."""

import itertools
import math

import numpy as np
import pytest

import table_1 as table
from tests import reference


def layers_until_all_see_all(sees):
    """How many layers it takes until every position has had word of every other.

    Args:
        sees: for each layer, boolean [n, n]: whether output i reads input j. The last is repeated.
    """
    reached = np.eye(len(sees[0]), dtype=bool)
    for count in itertools.count(1):
        reached = sees[min(count, len(sees)) - 1] @ reached
        if reached.all():
            return count


@pytest.mark.parametrize(("n", "r"), [(16, 4), (33, 8), (64, 16), (12, 40)])
def test_the_path_through_a_neighbourhood_grows_as_n_over_r(n, r):
    steps = layers_until_all_see_all([reference.neighbourhood(n, r)])
    path = table.restricted_self_attention(n, 8, r).path_length
    # A position sees r / 2 others on either side.
    assert path <= steps <= 2 * path


@pytest.mark.parametrize(("n", "k"), [(27, 3), (64, 2), (64, 4), (81, 3)])
def test_the_path_through_dilated_convolutions_grows_as_log_k_n(n, k):
    """A causal stack whose dilation is k^layer, and its last position."""
    depth = math.ceil(table.convolutional(n, 8, k).path_length - 1e-9)
    reached = {n - 1}
    for layer in range(depth):
        assert len(reached) < n
        reached |= {i - tap * k**layer for i in reached for tap in range(k) if i >= tap * k**layer}
    assert len(reached) == n


def test_self_attention_sees_all_at_once_and_recurrence_last():
    n = 9
    everything, one_step = (
        np.ones((n, n), bool),
        np.eye(n, dtype=bool) | np.eye(n, k=-1, dtype=bool),
    )
    assert layers_until_all_see_all([everything]) == table.self_attention(n, 4).path_length
    steps = next(t for t in itertools.count(1) if np.linalg.matrix_power(one_step, t)[-1, 0])
    assert steps == table.recurrent(n, 4).path_length - 1
    assert table.recurrent(n, 4).sequential == n


def test_self_attention_is_cheaper_than_recurrence_while_n_is_below_d():
    """Section 4."""
    d = 512
    for n in (16, 511, 512, 513, 2048):
        cheaper = table.self_attention(n, d).operations < table.recurrent(n, d).operations
        assert cheaper == (n < d)


def test_a_separable_convolution_with_k_n_costs_what_attention_and_feed_forward_do():
    """Section 4: even with k = n, as much as a self-attention and a feed-forward layer."""
    n, d = 70, 512
    both = table.self_attention(n, d).operations + n * d**2
    assert table.separable_convolutional(n, d, k=n).operations == both
    assert table.convolutional(n, d, 3).operations == 3 * table.recurrent(n, d).operations


def test_a_neighbourhood_as_wide_as_the_sentence_is_self_attention():
    assert table.restricted_self_attention(50, 8, 50) == table.self_attention(50, 8)
    assert table.restricted_self_attention(50, 8, 500) == table.self_attention(50, 8)
    ratio = (
        table.self_attention(1000, 8).operations
        / table.restricted_self_attention(1000, 8, 20).operations
    )
    assert ratio == 50


def test_the_table_in_markdown():
    lines = table.as_markdown(70, 512, 3, 16).splitlines()
    assert len(lines) == 2 + 5
    assert lines[2] == "| Self-Attention | O(n² · d) | O(1) | O(1) | 2.5e+06, 1, 1 |"
    assert lines[3] == "| Recurrent | O(n · d²) | O(n) | O(n) | 1.8e+07, 70, 70 |"


def test_a_kernel_of_one_position_sees_nothing_else():
    with pytest.raises(ValueError, match="k is 1, expected"):
        table.convolutional(9, 4, 1)
