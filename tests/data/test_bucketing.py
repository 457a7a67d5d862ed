from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.data import batch_shapes
from t2t_repro.data.batch_shapes import BatchShape, choose_shapes
from t2t_repro.data.bucketing import assign_shapes, padding_report
from t2t_repro.data.shuffling import epoch_plan
from t2t_repro.errors import UserError
from tests.data.test_shuffling import check_epoch, corpus


def slow_assignment(shapes, source, target):
    """For every sentence, look for the covering shape with the cheapest row."""
    assignment = []
    for s, t in zip(source, target, strict=True):
        covering = [
            (shape.source_length + shape.target_length, index)
            for index, shape in enumerate(shapes)
            if shape.source_length >= s and shape.target_length >= t
        ]
        assignment.append(min(covering)[1])
    return assignment


def check_shapes(shapes, source, target, tokens_per_batch, max_shapes, row_multiple):
    assert 1 <= len(shapes) <= max_shapes
    for rows, source_length, target_length in shapes:
        assert rows > 0
        assert rows % row_multiple == 0
        assert rows * max(source_length, target_length) <= tokens_per_batch
    assignment = assign_shapes(shapes, source, target)
    assert assignment.tolist() == slow_assignment(shapes, source, target)
    assert set(assignment.tolist()) == set(range(len(shapes)))
    return assignment


lengths = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=60)


@settings(max_examples=60, deadline=None)
@given(
    pairs=lengths,
    repeats=st.integers(1, 20),
    tokens_per_batch=st.integers(320, 2000),
    max_shapes=st.integers(1, 6),
    row_multiple=st.sampled_from([1, 4, 8]),
    length_multiple=st.sampled_from([1, 8]),
    seed=st.integers(0, 100),
)
def test_any_corpus_is_planned_soundly(
    pairs, repeats, tokens_per_batch, max_shapes, row_multiple, length_multiple, seed
):
    source, target = np.array(pairs * repeats).T
    shapes = choose_shapes(
        source,
        target,
        tokens_per_batch=tokens_per_batch,
        max_shapes=max_shapes,
        row_multiple=row_multiple,
        length_multiple=length_multiple,
    )
    for _, *sides in shapes:
        assert all(length % length_multiple == 0 for length in sides)
    assignment = check_shapes(shapes, source, target, tokens_per_batch, max_shapes, row_multiple)
    plan = epoch_plan(shapes, assignment, seed, 0)
    check_epoch(plan, shapes, assignment)
    report = padding_report(shapes, source, target)
    cells = sum(
        shapes[shape].rows * (shapes[shape].source_length + shapes[shape].target_length)
        for shape in plan.shape_of_batch
    )
    assert (report.cells, report.batches, report.sentences) == (cells, len(plan), len(source))
    assert report.real_share == (source.sum() + target.sum()) / cells


@pytest.mark.parametrize("max_shapes", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_the_search_finds_the_best_shapes_of_all(max_shapes, seed):
    generator = np.random.default_rng(seed)
    pairs = np.repeat(generator.integers(1, 30, (6, 2)), generator.integers(1, 20, 6) * 500, axis=0)
    source, target = pairs.T
    shapes = choose_shapes(source, target, max_shapes=max_shapes, row_multiple=1)
    assignment = assign_shapes(shapes, source, target)
    found = np.array([s + t for _, s, t in shapes])[assignment].sum()

    distinct, counts = np.unique(pairs, axis=0, return_counts=True)
    best = np.inf
    for chosen in combinations(product(set(source), set(target)), max_shapes):
        covers = (np.array(chosen)[:, None] >= distinct).all(axis=-1)
        cost = np.where(covers, np.sum(chosen, axis=1)[:, None], np.inf).min(axis=0)
        best = min(best, (cost * counts).sum())
    # The search counts batches too, this enumeration only rows, so they may differ a little.
    assert best <= found <= 1.02 * best


@pytest.mark.parametrize("seed", range(5))
def test_savings_and_their_change_equal_counting_sentence_by_sentence(seed):
    generator = np.random.default_rng(seed)
    counts = generator.integers(0, 3, (7, 6))
    costs = np.array([2, 3, 5, 6, 9, 12, 13])[:, None] + np.array([1, 3, 4, 7, 8, 11])

    def taken(rectangles):
        covering = np.full(costs.shape, 10**6)
        for cell in np.ndindex(costs.shape):
            for row, column in rectangles:
                if cell[0] <= row and cell[1] <= column:
                    covering[cell] = min(covering[cell], costs[row, column])
        return covering

    def slow_savings(before):
        saved = np.zeros(costs.shape, dtype=int)
        for corner in np.ndindex(costs.shape):
            for cell in product(range(corner[0] + 1), range(corner[1] + 1)):
                saved[corner] += counts[cell] * max(before[cell] - costs[corner], 0)
        return saved

    before, after = taken([(6, 5), (3, 4), (2, 2)]), taken([(6, 4), (3, 4), (5, 1)])
    assert batch_shapes._taken([(6, 4), (3, 4), (5, 1)], costs).tolist() == after.tolist()
    savings, change = batch_shapes._savings, batch_shapes._change
    assert savings(before, counts, costs).tolist() == slow_savings(before).tolist()
    expected = slow_savings(after) - slow_savings(before)
    assert change(before, after, counts, costs).tolist() == expected.tolist()


def test_a_corpus_like_the_papers_fills_its_batches():
    source, target = corpus(100_000)
    shapes = choose_shapes(source, target)
    check_shapes(shapes, source, target, 25_000, 12, 8)
    report = padding_report(shapes, source, target)
    assert report.real_share > 0.82
    assert report.source_tokens / report.batches > 0.70 * 25_000


def test_more_shapes_mean_less_padding():
    source, target = corpus(20_000)
    shares = [
        padding_report(choose_shapes(source, target, max_shapes=count), source, target).real_share
        for count in (1, 2, 4, 8)
    ]
    assert shares == sorted(shares)
    assert shares[-1] > shares[0] + 0.3


def test_nearly_no_row_is_empty():
    source, target = corpus(30_000)
    shapes = choose_shapes(source, target)
    plan = epoch_plan(shapes, assign_shapes(shapes, source, target), 1, 0)
    rows = sum(shapes[shape].rows for shape in plan.shape_of_batch)
    assert len(source) / rows > 0.985


def test_few_sentences_make_few_batches():
    shapes = choose_shapes(*corpus(30))
    assert padding_report(shapes, *corpus(30)).batches == len(shapes) <= 2
    assert choose_shapes([5], [3]) == (BatchShape(8, 5, 3),)


def test_a_large_corpus_of_long_sentences_is_coarsened_not_cut():
    source = np.repeat(np.arange(1, 901), 5)
    shapes = choose_shapes(source, source[::-1], max_length=900, max_shapes=4)
    check_shapes(shapes, source, source[::-1], 25_000, 4, 8)


def test_the_choice_depends_on_nothing_but_the_lengths():
    source, target = corpus(3000)
    order = np.random.default_rng(0).permutation(3000)
    shapes = choose_shapes(source, target)
    assert choose_shapes(source[order].astype(np.int32), target[order].tolist()) == shapes


def test_a_sentence_that_no_shape_covers_is_named():
    with pytest.raises(ValueError, match="no shape covers sentence 1 with 3 source and 6 target"):
        assign_shapes((BatchShape(8, 5, 5),), [5, 3], [5, 6])


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ([], [], "at least one sentence"),
        ([1, 2], [1], "expected both"),
        ([0], [1], "no ids"),
        ([300], [1], "leave longer ones out"),
        ([1], [257], "has 257 ids; expected at most max_length=256"),
    ],
)
def test_impossible_lengths_are_refused(source, target, message):
    with pytest.raises(ValueError, match=message):
        choose_shapes(source, target)


def test_a_budget_too_small_for_the_longest_sentence_is_the_users_error():
    assert choose_shapes([200], [1], tokens_per_batch=1600)[0].rows == 8
    with pytest.raises(UserError, match="8 sentences of 200 ids need 1600: raise tokens_per_batch"):
        choose_shapes([200], [1], tokens_per_batch=1599)


def test_rounded_lengths_cost_less_than_rounding_the_lengths_chosen():
    source, target = corpus(5_000)
    chosen = choose_shapes(source, target, length_multiple=8)
    rounded = [
        BatchShape(rows, *(-(-length // 8) * 8 for length in lengths))
        for rows, *lengths in choose_shapes(source, target)
    ]
    shares = [padding_report(tuple(s), source, target).real_share for s in (chosen, rounded)]
    assert shares[0] > shares[1]


def test_the_report_is_one_line():
    report = padding_report((BatchShape(8, 10, 10),), [9, 10], [5, 8])
    assert str(report) == (
        "2 sentence pairs in 1 batches of 1 shapes: 20.0% real tokens, "
        "on average 19 source and 13 target tokens a batch"
    )
