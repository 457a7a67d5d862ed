"""The generated corpus of the quick start, a module beside its gin file."""

import itertools
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import generated_corpus
import generated_pieces
from generated_corpus import FRAMES, GeneratedCorpus
from t2t_repro.data.corpora.corpus import Pair
from t2t_repro.errors import UserError

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


def test_sentences_are_short_lines_with_plain_spaces(full):
    sides = [side for pair in full["train"] for side in pair]
    assert all(re.fullmatch(r"\S+( \S+)+[.]", side) for side in sides)
    assert not any(re.search(r"[\s{}]", side.replace(" ", "")) for side in sides)
    assert 8 < sum(len(side.split()) for side in sides) / len(sides) < 16


def test_the_corpus_stays_the_same(full):
    assert full["dev"][0] == (
        "Anna will visit Indonesia and Vietnam in 18 minutes.",
        "Anna wird in 18 Minuten Indonesien und Vietnam besuchen.",
    )
    assert full["train"][-1] == (
        "On November 11, 2015, there was £90.25 in the account.",
        "Am 11. November 2015 waren 90,25 £ auf dem Konto.",
    )


def test_another_seed_draws_other_sentences():
    assert not set(read(small(seed=1), "train")) & set(read(small(seed=2), "dev"))
    assert read(small(seed=1), "dev") != read(small(seed=2), "dev")
    assert small(seed=1).describe() != small(seed=2).describe()


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


def test_pieces_are_one_to_one():
    # An English piece with two German forms, or the reverse, would make the corpus ambiguous.
    for kind in generated_pieces.KINDS:
        pieces = generated_pieces.pieces_of(kind)
        assert len({english for english, _ in pieces}) == len(pieces), kind
        assert len({german for _, german in pieces}) == len(pieces), kind


@pytest.mark.parametrize(
    ("kind", "english", "german"),
    [
        ("date", "March 5, 2024", "5. März 2024"),
        ("weekday_date", "Tuesday, March 5", "Dienstag, dem 5. März"),
        ("time", "12:05 AM", "00:05"),
        ("time", "12:30 PM", "12:30"),
        ("time", "3:05 PM", "15:05"),
        ("in_time", "in 3 days", "in 3 Tagen"),
        ("ago", "10 months ago", "vor 10 Monaten"),
        ("duration", "20 hours", "20 Stunden"),
        ("price", "$1,200.00", "1.200,00 $"),
        ("price", "¥96", "96 ¥"),
        ("money", "150 Swiss francs", "150 Schweizer Franken"),
        ("millions", "2.5 billion", "2,5 Milliarden"),
        ("share", "9.9%", "9,9 %"),
        ("distance", "7.5 miles", "7,5 Meilen"),
        ("territories", "Poland and Chile", "Polen und Chile"),
        ("quarter", "1st quarter", "1. Quartal"),
        ("language", "French", "Französisch"),
    ],
)
def test_pieces_are_what_cldr_has(kind, english, german):
    assert dict(generated_pieces.pieces_of(kind))[english] == german


def test_spans_of_time_keep_the_unit_they_were_made_from():
    # Babel turns "60 minutes" into "1 hour", whose German would be inflected.
    assert not any(
        re.search(r"\b1\b", english) for english, _ in generated_pieces.pieces_of("in_time")
    )
    assert len(generated_pieces.pieces_of("in_time")) == 49 + 19 + 4 + 2 + 9 + 29


def test_both_sides_of_a_frame_have_the_same_slots_once():
    for frame in FRAMES:
        english, german = (sorted(re.findall(r"{(\w+)}", side)) for side in frame)
        assert english == german
        assert len(set(english)) == len(english)
    assert len({english for english, _ in FRAMES}) == len(FRAMES) >= 40


def test_two_pieces_of_one_kind_differ():
    lines = [source for source, _ in read(small(train_size=3000), "train")]
    flights = [
        found for line in lines if (found := re.search(r"A flight from (.+) to (.+) costs", line))
    ]
    assert len(flights) > 10
    assert all(flight[1] != flight[2] for flight in flights)


def test_a_german_sentence_of_two_english_ones_comes_once(monkeypatch):
    german = "Die Bibliothek ist vom {day} bis zum {day2} geschlossen."
    frames = [(f"{word} is closed from {{day}} to {{day2}}.", german) for word in ("It", "This")]
    monkeypatch.setattr(generated_corpus, "FRAMES", tuple(frames))
    targets = [target for _, target in read(small(train_size=20_000), "train")]
    assert len(set(targets)) == len(targets)


@pytest.mark.parametrize("size", [{"train_size": 0}, {"dev_size": -1}, {"train_size": 10**7}])
def test_impossible_sizes_are_refused_before_anything_is_generated(size):
    with pytest.raises(UserError, match="GeneratedCorpus"):
        small(**size)


def test_the_largest_corpus_that_is_promised_can_be_generated(monkeypatch):
    frames = [frame for frame in FRAMES if "{weight} of sugar" in frame[0]]
    monkeypatch.setattr(generated_corpus, "FRAMES", tuple(frames))
    limit = generated_corpus._capacity(frames[0]) // 2
    corpus = small(train_size=limit - 90)
    assert len(set(read(corpus, "train"))) == limit - 90
    with pytest.raises(UserError, match=f"{limit:,}"):
        small(train_size=limit - 89)


def test_description_changes_with_arguments_and_with_what_frames_say(monkeypatch):
    description = small().describe()
    assert description == small().describe()
    assert description["babel"]
    assert description != small(train_size=301).describe()
    reworded = tuple((english, german.replace("Das ", "Dies ")) for english, german in FRAMES)
    monkeypatch.setattr(generated_corpus, "FRAMES", reworded)
    assert description != small().describe()
