import math

import keras
import numpy as np
import pytest

from t2t_repro.evaluation.perplexity import HeldOutLoss
from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.transformer import Transformer
from tests.layer_test import randomize
from tests.reference import log_softmax
from tests.token_stores import random_pairs, read_pair, write_token_store

VOCAB = 17


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    config = LayerConfig(d_model=8, d_ff=12, num_heads=2, dropout=0.5)
    return randomize(Transformer(VOCAB, 1, config))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    pairs = random_pairs(15, VOCAB, (0, 9))
    directory = tmp_path_factory.mktemp("store") / "dev"
    return write_token_store(directory, pairs, vocab_size=VOCAB)


def slow_nll(model, store):
    """One sentence at a time, one token at a time."""
    total, tokens = 0.0, 0
    for index in range(len(store)):
        source, target = read_pair(store, index)
        logits = model((np.array([source]), np.array([target])), training=False)
        for token, scores in zip(target, log_softmax(logits)[0], strict=True):
            total -= scores[token]
            tokens += 1
    return total / tokens


@pytest.fixture(scope="module")
def expected(model, store):
    return slow_nll(model, store)


# A sentence at a time; several, and one longer than a batch may be; all at once.
@pytest.mark.parametrize("tokens_per_batch", [1, 20, 4096])
def test_nll_is_the_slow_loops_whatever_the_batches(model, store, expected, tokens_per_batch):
    held_out = HeldOutLoss(model, store, tokens_per_batch)
    assert held_out.nll() == pytest.approx(expected, rel=1e-5)
    assert held_out.perplexity() == pytest.approx(math.exp(expected), rel=1e-4)


def test_sentences_within_a_range_are_scored_by_themselves(model, store):
    held_out = HeldOutLoss(model, store, 20)
    parts = [held_out.sums(within=range(*ends)) for ends in ((0, 4), (4, 15))]
    for (nll, tokens), own in zip(parts, (range(4), range(4, 15)), strict=True):
        assert tokens == store.target_lengths[own.start : own.stop].sum()
        assert nll / tokens == pytest.approx(slow_nll(model, store.part(own)), rel=1e-5)
    np.testing.assert_allclose(np.sum(parts, axis=0), held_out.sums(), rtol=1e-5)


def test_nll_follows_the_weights(model, store):
    held_out = HeldOutLoss(model, store)
    before, weights = held_out.nll(), model.get_weights()
    try:
        model.embedding.table.assign(0.5 * model.embedding.table)
        assert held_out.nll() == pytest.approx(slow_nll(model, store), rel=1e-5)
        assert abs(held_out.nll() - before) > 0.01
        # Scores that are all alike: as many choices as there are entries.
        model.embedding.table.assign(0.0 * model.embedding.table)
        assert held_out.perplexity() == pytest.approx(VOCAB, rel=1e-5)
    finally:
        model.set_weights(weights)


def test_a_model_that_has_diverged_has_a_perplexity(model, store, monkeypatch):
    held_out = HeldOutLoss(model, store)
    monkeypatch.setattr(held_out, "nll", lambda: 1000.0)
    assert held_out.perplexity() == math.inf
