"""Token stores: what is written is read, in batches as well."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.data.token_store import TokenStore
from tests.token_stores import random_pairs, read_pair, write_token_store


def slow_batch(sentences, indices, length):
    """The obvious way to pad: one sentence, one id at a time."""
    batch = [[0] * length for _ in indices]
    for row, index in enumerate(indices):
        if index != -1:
            for column, token in enumerate(sentences[index]):
                batch[row][column] = token
    return batch


@pytest.mark.parametrize(("source_size", "bytes_per_id"), [(65_536, 2), (65_537, 4)])
def test_what_is_written_is_read(tmp_path, source_size, bytes_per_id):
    """Each side has ids below its own size."""
    pairs = [*random_pairs(50, 65_536, (0, 9)), ([source_size - 1, 1], [1])]
    sizes = {"vocab_size": 65_536, "source_vocab_size": source_size}
    write_token_store(tmp_path / "train", pairs, **sizes)
    store = TokenStore(tmp_path / "train")
    assert len(store) == len(pairs)
    assert store.vocab_sizes == (source_size, 65_536)
    assert [read_pair(store, i) for i in range(len(store))] == pairs
    assert store.source_lengths.tolist() == [len(s) for s, _ in pairs]
    assert store.target_lengths.tolist() == [len(t) for _, t in pairs]
    assert store.source_lengths.dtype == store.target_lengths.dtype == np.int32
    size = (tmp_path / "train" / "source.tokens").stat().st_size
    assert size == bytes_per_id * store.source_lengths.sum()


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    pairs = random_pairs(40, 1000, (0, 9))
    return pairs, write_token_store(tmp_path_factory.mktemp("s") / "x", pairs, vocab_size=1000)


@settings(max_examples=150)
@given(data=st.data())
def test_padded_batch_equals_the_slow_one(stored, data):
    pairs, store = stored
    indices = data.draw(st.lists(st.integers(-1, 39), min_size=1, max_size=12))
    source_length = data.draw(st.integers(9, 14))
    target_length = data.draw(st.integers(9, 14))
    source, target = store.padded_batch(np.array(indices, int), (source_length, target_length))
    assert source.dtype == target.dtype == np.int32
    assert source.tolist() == slow_batch([s for s, _ in pairs], indices, source_length)
    assert target.tolist() == slow_batch([t for _, t in pairs], indices, target_length)
