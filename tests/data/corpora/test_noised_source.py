"""A corpus with the noise of Edunov et al. (2018)."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noised_source import NoisedSource


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
    distance=st.integers(0, 5),
    seed=st.integers(0, 9),
    number=st.integers(0, 99),
)
def test_remaining_words_move_by_the_distance_at_most(count, deletion, distance, seed, number):
    noised = NoisedSource(Pairs(), deletion, 0.0, distance, seed=seed).noised(words(count), number)
    left = list(map(int, noised.split()))
    assert len(set(left)) == len(left)
    assert set(left) <= set(range(count))
    assert bool(left) == bool(count)
    in_order = sorted(left)
    for position, word in enumerate(left):
        passed = [other for other in left[:position] if other > word]
        for other in passed:
            assert in_order.index(other) - in_order.index(word) <= distance


def test_the_shares_are_those_of_the_paper():
    corpus, length, sentences = NoisedSource(Pairs()), 10, 5000
    found = [corpus.noised(words(length), number).split() for number in range(sentences)]
    left = sum(map(len, found))
    assert left / (length * sentences) == pytest.approx(0.9, abs=0.006)
    blanks = sum(line.count("<BLANK>") for line in found)
    assert blanks / left == pytest.approx(0.1, abs=0.006)


def test_neighbours_change_places_as_often_as_in_the_paper():
    corpus = NoisedSource(Pairs(), 0.0, 0.0, distance=1)
    found = Counter(corpus.noised("a b c", number) for number in range(4000))
    # Neighbours alone change places: "c a b" has c and a two places apart.
    assert set(found) == {"a b c", "b a c", "a c b"}
    # P(i + q_i > j + q_j) of neighbours, q uniform in [0, 2): 1/8.
    assert found["b a c"] / 4000 == pytest.approx(1 / 8, abs=0.02)
    # Without blanks between words, characters are words.
    assert {corpus.noised("我有书", n) for n in range(99)} == {"我有书", "有我书", "我书有"}


def test_noise_is_a_function_of_the_seed_and_the_number_of_the_pair():
    line = words(20)
    one, same = (NoisedSource(Pairs(), seed=3) for _ in range(2))
    assert [one.noised(line, n) for n in range(9)] == [same.noised(line, n) for n in range(9)]
    assert one.noised(line, 1) != one.noised(line, 2)
    assert one.noised(line, 1) != NoisedSource(Pairs(), seed=4).noised(line, 1)
    # Prepared data must stay the same in later versions.
    assert one.noised("the red bird sees a blue house", 5) == "the red sees bird a <BLANK> house"


def test_only_training_sources_have_noise(tmp_path):
    pairs = [(words(20), "eins"), ("", "zwei"), ("  ", "drei")]
    inner = Pairs(*pairs)
    corpus = NoisedSource(inner)
    assert corpus.splits == inner.splits
    corpus.prepare(tmp_path)
    assert inner.prepared == tmp_path
    assert list(corpus.read("dev", tmp_path)) == pairs
    noised = list(corpus.read("train", tmp_path))
    assert noised == [(corpus.noised(words(20), 0), "eins"), *pairs[1:]]
    assert noised[0][0] != words(20)
