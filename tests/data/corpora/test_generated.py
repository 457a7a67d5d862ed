"""The generated corpus of the quick start, a module beside its gin file."""

import re
from collections import Counter
from pathlib import Path

import pytest

from generated_corpus import GeneratedCorpus
from t2t_repro.data.corpora.corpus import Pair

NOWHERE = Path("/nonexistent")


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
