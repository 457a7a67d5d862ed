"""The generated corpus of the quick start, a module beside its gin file."""

import itertools
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generated_corpus import GeneratedCorpus
from t2t_repro.data.corpora.corpus import Pair

NOWHERE = Path("/nonexistent")


def small(**sizes: int) -> GeneratedCorpus:
    return GeneratedCorpus(**{"train_size": 300, "dev_size": 40, "test_size": 50} | sizes)


def read(corpus: GeneratedCorpus, split: str) -> list[Pair]:
    return list(corpus.read(split, NOWHERE))


@pytest.fixture(scope="module")
def full() -> dict[str, list[Pair]]:
    corpus = GeneratedCorpus()
    corpus.prepare(NOWHERE)
    return {split: read(corpus, split) for split in corpus.splits}


def test_default_train_has_100_000_pairs_and_no_side_occurs_twice_in_all_splits(full):
    assert len(full["train"]) >= 100_000
    assert len(full["dev"]) == len(full["test"]) == 1000
    everything = [pair for split in full.values() for pair in split]
    for side in zip(*everything, strict=True):
        assert len(set(side)) == len(everything)


def test_every_held_out_word_is_common_in_train(full):
    def words(pairs: list[Pair], side: int) -> Counter[str]:
        return Counter(word for pair in pairs for word in re.findall(r"[^\W\d]+", pair[side]))

    for side in (0, 1):
        trained = words(full["train"], side)
        rare = [word for word in words(full["test"], side) if trained[word] < 100]
        assert rare == []


def test_the_corpus_stays_the_same(full):
    assert full["dev"][0] == (
        "Anna will visit Indonesia and Vietnam in 18 minutes.",
        "Anna wird in 18 Minuten Indonesien und Vietnam besuchen.",
    )
    assert full["train"][-1] == (
        "On November 11, 2015, there was £90.25 in the account.",
        "Am 11. November 2015 waren 90,25 £ auf dem Konto.",
    )


@settings(max_examples=15)
@given(
    sizes=st.fixed_dictionaries(
        {name: st.integers(1, 300) for name in ("train_size", "dev_size", "test_size")}
    ),
    seed=st.integers(),
)
def test_splits_have_the_sizes_asked_for_and_share_no_sentence(sizes, seed):
    corpus = GeneratedCorpus(seed=seed, **sizes)
    splits = {split: read(corpus, split) for split in corpus.splits}
    assert {f"{split}_size": len(pairs) for split, pairs in splits.items()} == sizes
    for one, other in itertools.combinations(splits.values(), 2):
        for side in (0, 1):
            assert not {pair[side] for pair in one} & {pair[side] for pair in other}
