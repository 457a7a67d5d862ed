"""The input pipeline as training sees it: every sentence once an epoch, wherever it begins."""

import numpy as np
import pytest

from t2t_repro.data.batches import Batches
from t2t_repro.errors import UserError
from tests.token_stores import read_pair, write_token_store

SENTENCES, MAX_LENGTH, TOKENS_PER_BATCH, ROW_MULTIPLE = 203, 14, 200, 8


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Pairs whose first source id, and first target id, is the pair's number + 2."""
    generator = np.random.default_rng(0)

    def sentence(number):
        return [number + 2, *generator.integers(2, 300, generator.integers(0, 13)).tolist(), 1]

    pairs = [(sentence(number), sentence(number)) for number in range(SENTENCES)]
    return write_token_store(tmp_path_factory.mktemp("store") / "x", pairs, vocab_size=300)


@pytest.fixture(scope="module")
def batches(store):
    return Batches(store, MAX_LENGTH, 1, False, TOKENS_PER_BATCH, 4, ROW_MULTIPLE)


def arrays(dataset):
    return [(source.numpy(), target.numpy()) for source, target in dataset]


def rows_of(sliced):
    """[slices, rows, length] back to the rows of the batch, row i from slice i mod slices."""
    return sliced.transpose(1, 0, 2).reshape(-1, sliced.shape[2])


def numbers_of(sliced):
    return [int(row[0]) - 2 for row in rows_of(sliced) if row[0]]


def unpadded(row):
    return row[row != 0].tolist()


@pytest.mark.parametrize("slices", [1, 3, 8])
def test_an_epoch_has_every_sentence_once_whole_and_beside_its_partner(store, batches, slices):
    seen = []
    for source, target in arrays(batches.epoch(2, 0, slices)):
        assert source.dtype == target.dtype == np.int32
        assert source.shape[:2] == target.shape[:2]
        assert source.shape[0] == slices
        for source_row, target_row in zip(rows_of(source), rows_of(target), strict=True):
            if not source_row.any():
                assert not target_row.any()
                continue
            number = int(source_row[0]) - 2
            seen.append(number)
            assert (unpadded(source_row), unpadded(target_row)) == read_pair(store, number)
    assert sorted(seen) == list(range(SENTENCES))


@pytest.mark.parametrize("slices", [1, 3, 8])
def test_row_i_of_the_plan_s_batch_is_in_slice_i_mod_slices(batches, slices):
    plan = batches.plan(0)
    for index, (source, _) in enumerate(arrays(batches.epoch(0, 0, slices))):
        for row, number in enumerate(plan.batch(index)):
            assert source[row % slices, row // slices, 0] == number + 2
        # So that the slices of a batch are as full as each other, but for one sentence.
        full = np.count_nonzero(source[:, :, 0], axis=1)
        assert full.max() - full.min() <= 1


def test_batches_have_the_shapes_that_were_promised_and_stay_within_the_budget(batches):
    promised = {(s.rows, s.source_length, s.target_length) for s in batches.shapes}
    assert len(promised) <= 4
    made = set()
    for source, target in arrays(batches.epoch(1, 0, ROW_MULTIPLE)):
        rows = source.shape[0] * source.shape[1]
        made.add((rows, source.shape[2], target.shape[2]))
        assert rows % ROW_MULTIPLE == 0
        assert rows * max(source.shape[2], target.shape[2]) <= TOKENS_PER_BATCH
        assert max(source.shape[2], target.shape[2]) <= MAX_LENGTH
    assert made == promised


@pytest.mark.parametrize("slices", [1, 3])
def test_an_epoch_from_batch_k_on_is_the_tail_of_the_epoch(batches, slices):
    whole = arrays(batches.epoch(1, 0, slices))
    assert len(whole) == len(batches.plan(1))
    for first in (1, 5, len(whole) - 1):
        tail = arrays(batches.epoch(1, first, slices))
        assert len(tail) == len(whole) - first
        for (source, target), (same_source, same_target) in zip(tail, whole[first:], strict=True):
            np.testing.assert_array_equal(source, same_source)
            np.testing.assert_array_equal(target, same_target)
    # A run that was stopped after the last batch begins there.
    assert arrays(batches.epoch(1, len(whole), slices)) == []


def order(batches, epoch):
    return [numbers_of(source) for source, _ in arrays(batches.epoch(epoch, 0, 1))]


def test_the_order_is_a_function_of_seed_and_epoch_alone(store, batches):
    again = Batches(store, MAX_LENGTH, 1, False, TOKENS_PER_BATCH, 4, ROW_MULTIPLE)
    other_seed = Batches(store, MAX_LENGTH, 2, False, TOKENS_PER_BATCH, 4, ROW_MULTIPLE)
    first = order(batches, 0)
    assert order(again, 0) == first
    assert order(batches, 1) != first
    assert order(other_seed, 0) != first
    # Not only the batches' order: who shares a batch with whom changes too.
    assert {frozenset(batch) for batch in order(batches, 1)} != {frozenset(b) for b in first}


def test_the_report_counts_what_an_epoch_holds(store, batches):
    report = batches.report()
    made = arrays(batches.epoch(0, 0, 1))
    assert report.batches == len(made)
    assert report.cells == sum(source.size + target.size for source, target in made)
    assert report.source_tokens == sum(np.count_nonzero(source) for source, _ in made)
    assert report.target_tokens == sum(np.count_nonzero(target) for _, target in made)


@pytest.mark.parametrize(
    ("compiled", "asked", "multiple"), [(False, None, 1), (True, None, 8), (True, 2, 2)]
)
def test_lengths_are_multiples_of_eight_where_xla_compiles(store, compiled, asked, multiple):
    batches = Batches(store, MAX_LENGTH, 1, compiled, 400, length_multiple=asked)
    lengths = {length for _, *sides in batches.shapes for length in sides}
    assert all(length % multiple == 0 for length in lengths)
    assert any(length % (2 * multiple) for length in lengths)
    assert max(lengths) >= max(store.source_lengths.max(), store.target_lengths.max())


def test_sentences_beyond_the_limit_and_hopeless_budgets_are_refused(store):
    longest = int(max(store.source_lengths.max(), store.target_lengths.max()))
    with pytest.raises(ValueError, match=f"expected at most max_length={longest - 1}"):
        Batches(store, longest - 1, 1)
    with pytest.raises(UserError, match="raise tokens_per_batch"):
        Batches(store, MAX_LENGTH, 1, tokens_per_batch=8 * longest - 1)


@pytest.mark.parametrize("value", [0, -8])
@pytest.mark.parametrize(
    "name", ["tokens_per_batch", "max_shapes", "row_multiple", "length_multiple"]
)
def test_numbers_that_are_none_are_refused(store, name, value):
    with pytest.raises(UserError, match=f"Batches.{name} = {value!r}: expected at least 1"):
        Batches(store, MAX_LENGTH, 1, **{name: value})


@pytest.mark.parametrize("slices", [3, 8])
def test_the_slices_of_several_workers_are_those_of_one(batches, slices):
    for number, whole in enumerate(arrays(batches.epoch(2, 0, slices))):
        real = sum(np.count_nonzero(side) for side in whole)
        assert batches.count_tokens(2, number, slices) == (real, sum(x.size for x in whole))
    middle = slices // 2
    parts = [
        arrays(batches.epoch(2, 3, slices, range(*own))) for own in ((0, middle), (middle, slices))
    ]
    for first, second, whole in zip(*parts, arrays(batches.epoch(2, 3, slices)), strict=True):
        for side in range(2):
            together = np.concatenate([first[side], second[side]])
            np.testing.assert_array_equal(together, whole[side])
