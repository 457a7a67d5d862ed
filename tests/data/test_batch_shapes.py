"""Shapes of micro-batches: few, every sentence fits, and their capacity is full."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.data import batch_shapes
from t2t_repro.data.batch_shapes import BatchShape, assign_shapes, capacity_needed, choose_shapes
from t2t_repro.data.epoch_plan import epoch_plan
from tests.data.test_epoch_plan import check_epoch, corpus


def slow_assignment(shapes, source, target):
    """For every sentence, look for the first shape that covers it."""
    return [
        next(k for k, (_, (s, t), _) in enumerate(shapes) if s >= one and t >= other)
        for one, other in zip(source, target, strict=True)
    ]


lengths = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=60)


@settings(max_examples=80)
@given(
    pairs=lengths,
    repeats=st.integers(1, 20),
    tokens=st.integers(40, 900),
    max_shapes=st.integers(1, 6),
    micro_batches=st.sampled_from([1, 2, 3, 8]),
    seed=st.integers(0, 100),
)
def test_any_corpus_is_planned_soundly(pairs, repeats, tokens, max_shapes, micro_batches, seed):
    source, target = np.array(pairs * repeats).T
    shapes = choose_shapes(source, target, tokens_per_micro_batch=tokens, max_shapes=max_shapes)
    assert 1 <= len(shapes) <= max_shapes
    for shape in shapes:
        assert all(number % 8 == 0 for number in (*shape.lengths, *shape.capacity))
        assert max(shape.tokens) <= max(tokens, *shape.lengths)
        assert all(
            0 < capacity - most <= 8
            for capacity, most in zip(shape.capacity, shape.tokens, strict=True)
        )
    assignment = assign_shapes(np.array([shape.lengths for shape in shapes]), source, target)
    assert assignment.tolist() == slow_assignment(shapes, source, target)
    assert set(assignment.tolist()) == set(range(len(shapes)))
    check_epoch(epoch_plan(shapes, source, target, micro_batches, seed, 0), shapes, source, target)


@given(st.integers(2**14 - 1, 2**18))
def test_a_large_capacity_has_a_divisor_between_its_root_and_half_of_it(tokens):
    capacity, fewer = BatchShape(1, (8, 8), (tokens, 8)).capacity
    assert fewer == 16
    assert tokens < capacity <= tokens * (1 + 2**-7) + 1
    root = math.isqrt(capacity)
    assert any(capacity % divisor == 0 for divisor in range(root // 2 + 1, root + 1))
    assert capacity % 8 == 0


def full_share(shapes, source, target, micro_batches):
    """Tokens over capacity of an epoch."""
    plan = epoch_plan(shapes, source, target, micro_batches, 0, 0)
    capacity = sum(sum(shapes[shape].capacity) for shape in plan.shape_of_batch) * micro_batches
    return (source.sum() + target.sum()) / capacity


@pytest.mark.parametrize(("sentences", "micro_batches"), [(70_000, 8), (70_000, 1), (8_000, 2)])
def test_a_corpus_like_the_papers_fills_its_batches(sentences, micro_batches):
    source, target = corpus(sentences)
    shapes = choose_shapes(source, target, tokens_per_micro_batch=25_000 // 8, max_shapes=6)
    assert len(shapes) <= 6
    assert full_share(shapes, source, target, micro_batches) > (
        0.97 if sentences > 10_000 else 0.95
    )


def test_a_side_with_fewer_tokens_has_less_capacity():
    source, target = corpus(20_000)
    shapes = choose_shapes(source, 2 * target, tokens_per_micro_batch=4000, max_shapes=6)
    for shape in shapes:
        assert 1.6 < shape.tokens[1] / shape.tokens[0] < 2.5
    assert full_share(shapes, source, 2 * target, 2) > 0.95


def test_the_fullest_micro_batch_determines_the_capacity():
    source = np.array([[[3, 1, 0], [0, 0, 0]], [[3, 4, 1], [1, 0, 0]]])
    target = np.array([[[3, 1], [1, 0]], [[1, 0], [0, 0]]])
    assert capacity_needed(source, target).tolist() == [5, 4]
    assert capacity_needed(source[:, :0], target[:, :0]).tolist() == [1, 1]


def test_sentences_of_similar_length_are_a_group():
    groups = batch_shapes.group_by_length([3, 0, 1, 9, 3, 1], tokens_per_batch=6)
    assert [group.tolist() for group in groups] == [[2, 5], [0, 4], [3]]
