"""Batches whose sentences are segmented again in every epoch."""

from types import SimpleNamespace

import numpy as np
import pytest

from bpe_dropout import SubwordDropout
from t2t_repro.data.batch_shapes import BatchSettings
from t2t_repro.data.batches import Batches
from t2t_repro.data.corpora.mixture import EpochMixture
from t2t_repro.errors import UserError
from t2t_repro.text.subword_model import shared
from t2t_repro.text.training import SubwordTraining
from tests.data.test_batches import arrays, assert_same, rows_of, unpadded
from tests.text.odd_text import sentences
from tests.token_stores import write_token_store

COUNT, TOKENS, MICRO_BATCHES, EPOCH = 400, 600, 2, 3


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """What was prepared, and the store of it."""
    folder = tmp_path_factory.mktemp("data")
    subwords = SubwordTraining(vocab_size=400).train(sentences(), folder / "m")
    sides = [subwords.encode(sentences(COUNT, seed)) for seed in (5, 6)]
    pairs = list(zip(*sides, strict=True))
    store = write_token_store(folder / "train", pairs, vocab_size=400)
    return SimpleNamespace(subwords=shared(subwords), max_length=64), store


@pytest.fixture
def opened(prepared):
    made = []

    def open_batches(dropout, is_static=False, tokens=TOKENS, **given):
        data, store = prepared
        settings = BatchSettings(tokens, 3, dropout)
        made.append(Batches(store, settings, 1, MICRO_BATCHES, is_static, **{"data": data} | given))
        return made[-1]

    yield open_batches
    for batches in made:
        batches.close()


def pairs_of(batches):
    found = []
    for source, target, _ in batches:
        rows = zip(rows_of(source), rows_of(target), strict=True)
        found += [tuple(map(unpadded, pair)) for pair in rows if pair[0].any()]
    return found


def read(store, segmenters, epoch):
    """All pairs of an epoch, in order: the sides segmented by themselves."""
    sides = []
    numbers = np.arange(len(store))
    for segment, plain in zip(segmenters, store.sentences(numbers), strict=True):
        tokens, lengths = segment(epoch, numbers, plain) if segment else plain
        sides.append([part.tolist() for part in np.split(tokens, np.cumsum(lengths)[:-1])])
    return list(zip(*sides, strict=True))


@pytest.mark.parametrize("is_static", [False, True])
@pytest.mark.parametrize("sides", [["source", "target"], ["target"]])
def test_an_epoch_has_every_sentence_once_in_its_subwords(prepared, opened, is_static, sides):
    data, store = prepared
    dropout = SubwordDropout(0.1, sides)
    batches = opened(dropout, is_static)
    expected = read(store, dropout.segmenters(data.subwords, seed=1), EPOCH)
    made = arrays(batches.epoch(EPOCH, 0))
    assert sorted(pairs_of(made)) == sorted(expected)
    for number, (source, target, _) in enumerate(made):
        shape = batches.shapes[batches.plan(EPOCH).shape_of_batch[number]]
        counts = [np.count_nonzero(side, axis=(1, 2)) for side in (source, target)]
        assert all((count <= most).all() for count, most in zip(counts, shape.tokens, strict=True))
        assert sum(counts[0]) + sum(counts[1]) == batches.count_tokens(EPOCH, number)
        assert not is_static or source.shape[1:] == (shape.rows, shape.lengths[0])


def test_batches_are_a_function_of_seed_and_epoch_alone(opened):
    """For any number of processes, and earlier epochs."""
    alone = opened(SubwordDropout(0.2, workers=1), True)
    whole = arrays(alone.epoch(EPOCH, 0))
    assert len(whole) > 5
    together = opened(SubwordDropout(0.2, workers=2), True)
    assert together.shapes == alone.shapes
    assert together.report() == alone.report()
    for epoch in (0, EPOCH - 1):
        assert pairs_of(arrays(together.epoch(epoch, 0))) != pairs_of(whole)
    assert_same(arrays(together.epoch(EPOCH, 0)), whole)
    assert_same(arrays(together.epoch(EPOCH, 4)), whole[4:])


def test_a_mixture_has_its_sentences_in_other_subwords(prepared, opened):
    """One corpus gives a few of its sentences, the other one every sentence several times."""
    data, store = prepared
    corpora = {"large": range(380), "small": range(380, COUNT)}
    mixture = EpochMixture(corpora, {"large": 100, "small": 100}, seed=1)
    batches = opened(SubwordDropout(0.5), mixture=mixture)
    taken = mixture.sentences(EPOCH)
    decode = data.subwords.source.decode

    def text_of(pairs):
        return sorted((decode(source), decode(target)) for source, target in pairs)

    found = pairs_of(arrays(batches.epoch(EPOCH, 0)))
    plain = read(store, (None, None), 0)
    assert text_of(found) == text_of([plain[index] for index in taken])
    # Copies of a sentence are in subwords of their own.
    assert len({tuple(source) for source, _ in found}) > 1.3 * len(set(taken.tolist()))
    assert batches.report().corpora["small"].sentences == 100


def test_a_batch_has_room_for_the_longest_sentence_and_need_not_have_more(prepared, opened):
    _, store = prepared
    longest = int(max(store.source_lengths.max(), store.target_lengths.max()))
    opened(SubwordDropout(1.0), tokens=MICRO_BATCHES * longest)
    with pytest.raises(UserError, match=f"has no room for a sentence of {longest}"):
        opened(SubwordDropout(1.0), tokens=MICRO_BATCHES * (longest - 1))
