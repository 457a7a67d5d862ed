"""Shares of corpora: exact in every epoch, even over the epochs."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.data.mixing import EpochMixture, MixtureWeights, apportion

weights = st.lists(
    st.floats(0, 1e9, allow_subnormal=False) | st.integers(0, 100), min_size=1, max_size=6
).filter(any)


def named(values):
    return {f"c{number}": value for number, value in enumerate(values)}


def laid_out(sizes):
    """The ranges of corpora that lie one after the other."""
    ends = np.cumsum([0, *sizes.values()])
    pairs = zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    return {name: range(*pair) for name, pair in zip(sizes, pairs, strict=True)}


@given(st.integers(0, 10**9), weights)
def test_parts_sum_to_the_whole_and_are_less_than_one_away_from_exact(total, given_weights):
    by_name = named(given_weights)
    counts = apportion(total, by_name)
    assert sum(counts.values()) == total
    whole = sum(map(Fraction, by_name.values()))
    for name, count in counts.items():
        assert abs(count - total * Fraction(by_name[name]) / whole) < 1


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=4),
    st.integers(1, 60) | st.none(),
    st.integers(0, 2**32 - 1),
    st.integers(1, 7),
)
def test_every_epoch_has_exact_shares_and_sentences_are_taken_evenly(
    corpora, sentences, seed, epochs
):
    sizes = named(size for size, _ in corpora)
    of_weight = named(weight for _, weight in corpora)
    shares = MixtureWeights(of_weight, sentences=sentences)
    expected = apportion(sentences or sum(sizes.values()), of_weight)
    places = laid_out(sizes)
    mixing = EpochMixture(places, shares, seed)
    so_far: Counter[int] = Counter()
    for epoch in range(epochs):
        taken = mixing.sentences(epoch)
        assert (np.diff(taken) >= 0).all()
        assert taken.dtype == np.int64
        found = {name: sum(one in own for one in taken.tolist()) for name, own in places.items()}
        assert found == mixing.counts == expected
        so_far.update(taken.tolist())
        for own in places.values():
            times = [so_far[sentence] for sentence in own]
            assert max(times) - min(times) <= 1


def test_a_round_of_a_corpus_is_none_of_another_s_and_draws_from_all_of_it():
    """Corpora of one size, of which an epoch has the tenth, take other sentences."""
    corpora = {"a": range(1000), "b": range(1000, 2000)}
    mixing = EpochMixture(corpora, MixtureWeights({"a": 1, "b": 1}, sentences=200), 5)
    halves = np.split(mixing.sentences(0), 2)
    common = set(halves[0].tolist()) & set((halves[1] - 1000).tolist())
    assert len(common) < 30
    for half in halves:
        assert np.histogram(half % 1000, bins=4, range=(0, 1000))[0].min() > 10


@pytest.mark.parametrize("temperature", [1.0, 5.0, 1e9])
def test_shares_by_temperature_are_those_of_the_formula(temperature):
    sizes = {"small": 1_000, "middle": 40_000, "large": 2_000_000}
    counts = MixtureWeights(temperature=temperature).counts(sizes)
    total = sum(sizes.values())
    powers = {name: size ** (1 / temperature) for name, size in sizes.items()}
    for name, count in counts.items():
        assert abs(count - total * powers[name] / sum(powers.values())) < 1
    if temperature == 1:
        assert counts == sizes
    if temperature == 1e9:
        assert max(counts.values()) - min(counts.values()) <= 1


def test_a_corpus_of_weight_zero_has_no_sentence():
    sizes = {"small": 10, "large": 100_000}
    counts = MixtureWeights({"small": 0, "large": 1}).counts(sizes)
    assert counts == {"small": 0, "large": 100_010}
    assert 5 not in EpochMixture(
        laid_out(sizes), MixtureWeights({"small": 0, "large": 1}), 1
    ).sentences(0)
