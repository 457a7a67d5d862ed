"""Corpora made of others: tags, shares that are exact in every epoch, exchanged sides."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.data.corpora import Mixture, Reversed, TextFilesCorpus
from t2t_repro.data.corpora.corpus import Corpus
from t2t_repro.data.corpora.mixture import EpochMixture, apportion, held_out_pairs
from t2t_repro.data.preparation import Preparation
from t2t_repro.errors import UserError


def files(folder, name, splits=("train", "dev")):
    paths: dict[str, str] = {}
    for split in splits:
        path = folder / f"{name}.{split}.tsv"
        path.write_text("".join(f"{name} {split} {n}\tziel {n}\n" for n in range(3)))
        paths[split] = str(path)
    return TextFilesCorpus(paths["train"], paths.get("dev"), paths.get("test"))


def test_pairs_come_corpus_after_corpus_with_their_tags(tmp_path):
    mixture = Mixture(
        {"b": files(tmp_path, "news"), "a": Reversed(files(tmp_path, "talks", ("train", "test")))},
        tags={"a": "<2en>  <talk>"},
    )
    assert isinstance(mixture, Corpus)
    assert sorted(mixture.splits) == ["dev", "test", "train"]
    mixture.prepare(tmp_path)
    train = list(mixture.read("train", tmp_path))
    assert train[0] == ("<2en> <talk> ziel 0", "talks train 0")
    assert train[3] == ("news train 0", "ziel 0")
    assert len(list(mixture.read("dev", tmp_path))) == 3
    talks = mixture.parts[0].corpus
    assert talks.describe() != Reversed(talks).describe()
    # What is held out is compared without tags.
    assert ("ziel 2", "talks test 2") in list(held_out_pairs(mixture, tmp_path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": {"a": 1}}, r"Mixture.weights is of 'a', expected 'a', 'b'"),
        ({"weights": {"a": -1, "b": 1}}, r"Mixture.weights is .* each value a number at least 0"),
        ({"weights": {"a": 0, "b": 0}}, "Mixture.weights are all 0"),
        ({"weights": {"a": 1, "b": 1}, "temperature": 2.0}, "both bound"),
    ],
)
def test_what_cannot_be_meant_is_said(tmp_path, arguments, message):
    corpora = {"a": files(tmp_path, "a"), "b": files(tmp_path, "b")}
    with pytest.raises(UserError, match=message):
        Mixture(corpora, **arguments)


def test_corpora_that_cannot_be_mixed_are_refused(tmp_path):
    mixture = Mixture({"a": files(tmp_path, "one")})
    for make in (Reversed, lambda corpus: Mixture({"b": corpus})):
        with pytest.raises(UserError, match=r"is a mixture, expected a single corpus"):
            make(mixture)


def test_a_mixture_without_dev_sentences_is_refused_before_anything(tmp_path):
    part = files(tmp_path, "a", ("train",))
    with pytest.raises(UserError, match="no split dev, expected train and dev"):
        Preparation(Mixture({"a": part}))
    with pytest.raises(UserError, match="no split dev, expected train and dev"):
        Preparation(part)
    Preparation(Mixture({"a": part, "b": files(tmp_path, "b")}))


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
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 9)), min_size=1, max_size=4).filter(
        lambda corpora: any(weight for _, weight in corpora)
    ),
    st.integers(1, 60) | st.none(),
    st.integers(0, 2**32 - 1),
    st.integers(1, 7),
)
def test_every_epoch_has_exact_shares_and_sentences_are_taken_evenly(
    corpora, sentences, seed, epochs
):
    sizes = named(size for size, _ in corpora)
    of_weight = named(weight for _, weight in corpora)
    expected = apportion(sentences or sum(sizes.values()), of_weight)
    places = laid_out(sizes)
    mixing = EpochMixture(places, expected, seed)
    so_far: Counter[int] = Counter()
    for epoch in range(epochs):
        taken = mixing.sentences(epoch)
        assert (np.diff(taken) >= 0).all()
        assert taken.dtype == np.int64
        found = {name: sum(one in own for one in taken.tolist()) for name, own in places.items()}
        assert found == expected
        so_far.update(taken.tolist())
        for own in places.values():
            times = [so_far[sentence] for sentence in own]
            assert max(times) - min(times) <= 1


def test_a_round_of_a_corpus_is_none_of_another_s_and_draws_from_all_of_it():
    """Corpora of one size, of which an epoch has the tenth, take other sentences."""
    corpora = {"a": range(1000), "b": range(1000, 2000)}
    mixing = EpochMixture(corpora, {"a": 100, "b": 100}, 5)
    halves = np.split(mixing.sentences(0), 2)
    common = set(halves[0].tolist()) & set((halves[1] - 1000).tolist())
    assert len(common) < 30
    for half in halves:
        assert np.histogram(half % 1000, bins=4, range=(0, 1000))[0].min() > 10


@pytest.mark.parametrize("temperature", [1.0, 5.0, 1e9])
def test_shares_by_temperature_are_those_of_the_formula(tmp_path, temperature):
    sizes = {"small": 1_000, "middle": 40_000, "large": 2_000_000}
    corpora = dict.fromkeys(sizes, files(tmp_path, "a"))
    counts = Mixture(corpora, temperature=temperature).counts(sizes)
    total = sum(sizes.values())
    powers = {name: size ** (1 / temperature) for name, size in sizes.items()}
    for name, count in counts.items():
        assert abs(count - total * powers[name] / sum(powers.values())) < 1
    if temperature == 1:
        assert counts == sizes
    if temperature == 1e9:
        assert max(counts.values()) - min(counts.values()) <= 1
