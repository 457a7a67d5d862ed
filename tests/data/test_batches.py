"""The input pipeline of training: every sentence once an epoch, from any batch on."""

import gc

import numpy as np
import pytest

from t2t_repro.data.batch_shapes import BatchSettings, capacity_needed
from t2t_repro.data.batches import Batches
from tests.token_stores import read_pair, write_token_store

SENTENCES, TOKENS_PER_BATCH, MOST_SHAPES = 203, 200, 4
MICRO_BATCHES = [1, 3]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Pairs whose first source id, and first target id, is the pair's number + 2."""
    generator = np.random.default_rng(0)

    def sentence(number):
        return [number + 2, *generator.integers(2, 300, generator.integers(0, 13)).tolist(), 1]

    pairs = [(sentence(number), sentence(number)) for number in range(SENTENCES)]
    return write_token_store(tmp_path_factory.mktemp("store") / "x", pairs, vocab_size=300)


def batches_of(store, micro_batches, is_static=False):
    settings = BatchSettings(TOKENS_PER_BATCH, MOST_SHAPES)
    return Batches(store, settings, 1, micro_batches, is_static)


def arrays(dataset):
    return [tuple(part.numpy() for part in batch) for batch in dataset]


def assert_same(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        for part, same in zip(one, other, strict=True):
            np.testing.assert_array_equal(part, same)


def rows_of(ids):
    return ids.reshape(-1, ids.shape[2])


def unpadded(row):
    return row[row != 0].tolist()


@pytest.mark.parametrize("is_static", [False, True])
@pytest.mark.parametrize("micro_batches", MICRO_BATCHES)
def test_an_epoch_has_every_sentence_once_whole_and_beside_its_partner(
    store, micro_batches, is_static
):
    seen = []
    for source, target, capacity in arrays(batches_of(store, micro_batches, is_static).epoch(2, 0)):
        assert source.dtype == target.dtype == capacity.dtype == np.int32
        assert source.shape[:2] == target.shape[:2]
        assert source.shape[0] == micro_batches
        for source_row, target_row in zip(rows_of(source), rows_of(target), strict=True):
            if not source_row.any():
                assert not target_row.any()
                continue
            number = int(source_row[0]) - 2
            seen.append(number)
            assert (unpadded(source_row), unpadded(target_row)) == read_pair(store, number)
    assert sorted(seen) == list(range(SENTENCES))


@pytest.mark.parametrize("micro_batches", MICRO_BATCHES)
def test_static_batches_are_the_others_with_padding(store, micro_batches):
    """The same sentences in the same micro-batches; the static ones have the shapes of the plan."""
    static, tight = (batches_of(store, micro_batches, is_static) for is_static in (True, False))
    pairs = zip(arrays(static.epoch(1, 0)), arrays(tight.epoch(1, 0)), strict=True)
    for number, ((*wide, room), (*narrow, needed)) in enumerate(pairs):
        shape = static.shapes[static.plan(1).shape_of_batch[number]]
        assert [ids.shape for ids in wide] == [
            (micro_batches, shape.rows, length) for length in shape.lengths
        ]
        assert tuple(room) == shape.capacity
        assert (needed <= room).all()
        assert needed.tolist() == capacity_needed(*wide).tolist()
        for ids, tight_ids in zip(wide, narrow, strict=True):
            _, rows, length = tight_ids.shape
            np.testing.assert_array_equal(ids[:, :rows, :length], tight_ids)
            assert np.count_nonzero(ids) == np.count_nonzero(tight_ids)
            assert tight_ids.any(axis=(0, 2)).all()
            assert tight_ids.any(axis=(0, 1)).all()


@pytest.mark.parametrize("micro_batches", MICRO_BATCHES)
def test_an_epoch_from_batch_k_on_is_the_tail_of_the_epoch(store, micro_batches):
    batches = batches_of(store, micro_batches)
    whole = arrays(batches.epoch(1, 0))
    assert len(whole) == len(batches.plan(1))
    for first in (1, 5, len(whole) - 1):
        assert_same(arrays(batches.epoch(1, first)), whole[first:])
    # A run that was stopped after the last batch begins there.
    assert arrays(batches.epoch(1, len(whole))) == []


def test_the_report_counts_what_the_first_epoch_holds(store):
    batches = batches_of(store, 3, is_static=True)
    report, made = batches.report(), arrays(batches.epoch(0, 0))
    received = report.batches, report.sentences, report.micro_batches
    assert received == (len(made), SENTENCES, 3)
    assert report.source_tokens == sum(np.count_nonzero(source) for source, *_ in made)
    assert report.target_tokens == sum(np.count_nonzero(target) for _, target, _ in made)
    assert report.capacity == sum(3 * capacity.sum() for *_, capacity in made)
    assert f"{report.real_share:.1%} real tokens" in str(report)


def test_the_micro_batches_of_several_workers_are_those_of_one(store):
    batches = batches_of(store, 3, is_static=True)
    for number, (*whole, _) in enumerate(arrays(batches.epoch(2, 0))):
        assert batches.count_tokens(2, number) == sum(map(np.count_nonzero, whole))
    parts = [arrays(batches.epoch(2, 3, own)) for own in (range(1), range(1, 3))]
    for first, second, whole in zip(*parts, arrays(batches.epoch(2, 3)), strict=True):
        for side in range(2):
            together = np.concatenate([first[side], second[side]])
            np.testing.assert_array_equal(together, whole[side])


def test_an_iterator_keeps_its_epoch(store):
    batches = batches_of(store, 1)
    expected = arrays(batches.epoch(0, 0))
    begun = iter(batches.epoch(0, 0))
    found = [tuple(part.numpy() for part in next(begun))]
    assert arrays(batches.epoch(1, 0))
    gc.collect()
    found += arrays(begun)
    assert len(expected) > 5
    assert_same(found, expected)
