"""The stores of epochs: what they hold, whoever makes them, and what they leave behind."""

import time

import numpy as np
import pytest

from bpe_dropout import EpochStores
from tests.token_stores import random_pairs, read_pair, write_token_store

COUNT, LONGEST = 2500, 30


class Doubling:
    """Some sentences come out twice as long; the epoch and the sentence's number are in them."""

    def __call__(self, epoch, numbers, sentences):
        tokens, lengths = sentences
        parts = np.split(tokens, np.cumsum(lengths)[:-1])
        made = [
            np.concatenate([ids[:-1], [2 + (epoch + number) % 30], ids]) if number % 3 == 0 else ids
            for ids, number in zip(parts, numbers.tolist(), strict=True)
        ]
        return np.concatenate(made).astype(np.int32), np.array([len(ids) for ids in made], np.int32)


@pytest.fixture(scope="module")
def pairs():
    return random_pairs(COUNT, 90, (0, 20))


@pytest.fixture(scope="module")
def store(pairs, tmp_path_factory):
    return write_token_store(tmp_path_factory.mktemp("s") / "train", pairs, vocab_size=95)


@pytest.fixture
def opened(store):
    made = []

    def open_one(segmenters, sentences=lambda epoch: np.arange(COUNT), **given):
        made.append(EpochStores(store, segmenters, sentences, **{"longest": LONGEST, **given}))
        return made[-1]

    yield open_one
    for one in made:
        one.close()


def doubled(ids, epoch, number, longest):
    longer = [*ids[:-1], 2 + (epoch + number) % 30, *ids]
    return longer if number % 3 == 0 and len(longer) <= longest else ids


@pytest.mark.parametrize("workers", [1, 2])
def test_an_epoch_has_its_sentences_segmented_if_there_is_room(opened, pairs, workers):
    stores = opened((Doubling(), None), workers=workers)
    source = int(stores.expected_lengths[0].max())
    assert max(len(ids) for ids, _ in pairs) < source <= LONGEST
    for epoch in (3, 4, 0):
        made = stores(epoch)
        found = [read_pair(made, index) for index in range(len(made))]
        assert found == [
            (doubled(one, epoch, number, source), other)
            for number, (one, other) in enumerate(pairs)
        ]
        assert made.source_lengths.tolist() == [len(one) for one, _ in found]
        assert max(len(one) for one, _ in found) <= source
    assert (
        sum(len(one) > len(plain) for (one, _), (plain, _) in zip(found, pairs, strict=True)) > 50
    )


def test_the_next_epoch_is_made_while_this_one_is_used(opened):
    stores = opened((Doubling(), Doubling()))
    stores(0)
    deadline = time.monotonic() + 60
    while not stores._made[1].done():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert stores(1) is stores._made[1].result()
    assert stores._made.keys() == {1, 2}


def test_nothing_lies_anywhere_and_no_process_runs_after_the_end(opened, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    stores = opened((Doubling(), None))
    made = stores(0)
    assert list(tmp_path.iterdir()) == []
    processes = list(stores._pool._pool._processes.values())
    assert processes
    stores.close()
    assert not any(process.is_alive() for process in processes)
    # What was made is still there.
    assert read_pair(made, COUNT - 1)[0][-1] == 1
