"""Noise as Edunov et al. (2018) have it, the same whenever a pair is read."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_repro.data.corpora.noise import NoisedSource
from t2t_repro.errors import UserError


class Pairs:
    """A corpus in memory."""

    splits: tuple[str, ...] = ("train", "dev")

    def __init__(self, *pairs):
        self.pairs = pairs

    def describe(self):
        return {"corpus": "Pairs", "pairs": len(self.pairs)}

    def prepare(self, download_dir):
        self.prepared = download_dir

    def read(self, split, download_dir):
        return iter(self.pairs)


def words(count):
    return " ".join(map(str, range(count)))


@given(
    count=st.integers(0, 12),
    deletion=st.floats(0, 1),
    filling=st.floats(0, 1),
    distance=st.integers(0, 5),
    seed=st.integers(0, 9),
    number=st.integers(0, 99),
)
def test_what_is_left_is_in_reach_of_its_place(count, deletion, filling, distance, seed, number):
    noised = NoisedSource(Pairs(), deletion, 0.0, distance, seed=seed).noised(words(count), number)
    left = list(map(int, noised.split()))
    assert len(set(left)) == len(left)
    assert set(left) <= set(range(count))
    assert bool(left) == bool(count)
    in_order = sorted(left)
    for place, word in enumerate(left):
        # Words apart, of those that are left.
        passed = [other for other in left[:place] if other > word]
        for other in passed:
            assert in_order.index(other) - in_order.index(word) <= distance
    filled = NoisedSource(Pairs(), deletion, filling, distance, seed=seed)
    again = filled.noised(words(count), number).split()
    assert len(again) == len(left)
    assert set(again) - {"<BLANK>"} <= set(map(str, left))


def test_the_shares_are_those_of_the_paper():
    corpus, length, sentences = NoisedSource(Pairs()), 10, 20_000
    found = [corpus.noised(words(length), number).split() for number in range(sentences)]
    left = sum(map(len, found))
    assert left / (length * sentences) == pytest.approx(0.9, abs=0.003)
    blanks = sum(line.count("<BLANK>") for line in found)
    assert blanks / left == pytest.approx(0.1, abs=0.003)


def test_permutations_are_drawn_from_all_that_are_near():
    corpus = NoisedSource(Pairs(), 0.0, 0.0, distance=1)
    found = Counter(corpus.noised("a b c", number) for number in range(4000))
    # Neighbours alone change places: "c a b" has c and a two places apart.
    assert set(found) == {"a b c", "b a c", "a c b"}
    # P(i + q_i > j + q_j) of neighbours, q uniform in [0, 2): 1/8.
    assert found["b a c"] / 4000 == pytest.approx(1 / 8, abs=0.02)


def test_it_is_a_function_of_the_seed_and_the_number_of_the_pair():
    line = words(20)
    one, same = (NoisedSource(Pairs(), seed=3) for _ in range(2))
    assert [one.noised(line, n) for n in range(9)] == [same.noised(line, n) for n in range(9)]
    assert one.noised(line, 1) != one.noised(line, 2)
    assert one.noised(line, 1) != NoisedSource(Pairs(), seed=4).noised(line, 1)
    # Written down: prepared data are to be the same tomorrow.
    assert one.noised("the red bird sees a blue house", 5) == "the red sees bird a <BLANK> house"


def test_targets_and_what_is_held_out_stay(tmp_path):
    pairs = [(words(20), "eins"), ("", "zwei"), ("  ", "drei")]
    inner = Pairs(*pairs)
    corpus = NoisedSource(inner)
    assert corpus.splits == inner.splits
    corpus.prepare(tmp_path)
    assert inner.prepared == tmp_path
    assert list(corpus.read("dev", tmp_path)) == pairs
    noised = list(corpus.read("train", tmp_path))
    assert [target for _, target in noised] == ["eins", "zwei", "drei"]
    assert [source for source, _ in noised] == [corpus.noised(words(20), 0), "", "  "]
    assert noised[0][0] != words(20)


def test_other_noise_is_other_data():
    given: dict[str, Any] = {
        "deletion": 0.2,
        "filling": 0.2,
        "distance": 2,
        "filler": "_",
        "seed": 2,
    }
    plain = NoisedSource(Pairs()).describe()
    assert plain["of"] == {"corpus": "Pairs", "pairs": 0}
    for name, value in given.items():
        other = NoisedSource(Pairs(), **{name: value}).describe()
        assert {key for key in plain if other[key] != plain[key]} == {name}


@pytest.mark.parametrize(
    "arguments", [{"deletion": 1.5}, {"filling": -0.1}, {"distance": -1}, {"filler": "two words"}]
)
def test_what_cannot_be_noise(arguments):
    with pytest.raises(UserError, match=f"{next(iter(arguments))} is .*, expected"):
        NoisedSource(Pairs(), **arguments)
