"""Variants of training pairs: beside the pairs, alike on both sides, and of training alone."""

from collections import Counter
from dataclasses import replace
from itertools import chain, pairwise

from t2t_repro.data.cleaning import CAPITALS, WORDS, Cleaning
from t2t_repro.data.corpora import Mixture
from t2t_repro.data.preparation import Preparation
from t2t_repro.data.stages import count_training_pairs, prepare
from t2t_repro.text.training import SubwordTraining
from tests.data.test_preparation import corpus_of, pairs_of
from text_variants import TextVariants

PAIRS = [(f"the {source}, too!", f"auch {target}.") for source, target in pairs_of(2000, 1)]


def new_words(pair, variant):
    """Returns what a variant has more than its pair, on each side."""
    return [
        Counter(changed.rstrip(".!")) - Counter(side.rstrip(".!"))
        for side, changed in zip(pair, variant, strict=True)
    ]


def test_pairs_stay_and_some_have_a_variant_with_the_same_word_on_both_sides_or_in_capitals():
    made, report = TextVariants().extend(PAIRS, 0)
    known = set(PAIRS)
    assert [pair for pair in made if pair in known] == PAIRS
    counts: Counter[str] = Counter()
    for pair, variant in pairwise(made):
        if variant in known:
            continue
        assert pair in known
        is_capitals = variant == (pair[0].upper(), pair[1].upper())
        counts[CAPITALS if is_capitals else WORDS] += 1
        source, target = new_words(pair, variant)
        assert is_capitals or source == target != Counter()
    assert report == counts | {"kept": counts.total()}
    assert 0.03 < counts[CAPITALS] / len(PAIRS) < 0.05 < 0.16 < counts[WORDS] / len(PAIRS) < 0.22


def test_a_variant_depends_on_the_number_of_its_pair_alone():
    variants = TextVariants()
    parts = (variants.extend(PAIRS[start : start + 7], start)[0] for start in range(0, 2000, 7))
    assert list(chain(*parts)) == variants.extend(PAIRS, 0)[0]
    assert TextVariants(seed=2).extend(PAIRS, 0)[0] != variants.extend(PAIRS, 0)[0]


def test_a_common_number_or_name_is_replaced_on_both_sides():
    pair = "In 2010 Emma (17) left.", "In Rom ging Emma 2010."
    made = TextVariants(capitals=0, words=1).extend([pair] * 50, 0)[0][1::2]
    for source, target in made:
        year, name = source.split()[1:3]
        assert (source, target) == (f"In {year} {name} (17) left.", f"In Rom ging {name} {year}.")
        assert (year != "2010") != (name != "Emma")
    assert len(set(made)) > 30


def test_a_pair_without_capitals_on_one_side_is_not_put_into_capitals_on_the_other():
    pairs = [("你好。", "Hello."), ("Hello.", "你好。")] * 10
    made, report = TextVariants(capitals=1).extend(pairs, 0)
    assert report[WORDS] == 20
    assert not any("HELLO" in "".join(pair) for pair in made)
    assert TextVariants(capitals=1).extend([("a <2de> ß", "b")], 0)[0][1] == ("A <2de> SS", "B")


def test_only_training_text_has_variants_and_subwords_learn_those_in_capitals(tmp_path):
    part = corpus_of(tmp_path, PAIRS[:300])
    subwords = SubwordTraining(vocab_size=400, character_coverage=1.0)
    mixture = Mixture({"a": part, "b": part}, tags={"b": "<b>"})
    without = Preparation(mixture, Cleaning(drop_held_out=False), subwords)
    plain = prepare(without, tmp_path / "without")
    variants = TextVariants(capitals=0.2, words=0.4)
    data = prepare(replace(without, variants=variants), tmp_path / "with")
    # Pairs that variants add, and copies, are not text to learn from.
    settings = replace(without, variants=variants)
    counts = [count_training_pairs(settings, tmp_path / one) for one in ("with", "not prepared")]
    assert counts == [len(plain.text("train")[0])] * 2
    assert plain.identity | {"variants": data.identity["variants"]} == data.identity
    for split in ("dev", "test"):
        assert data.text(split) == plain.text(split)
    assert len(data.text("train.b")[0]) == len(data.corpora("train")["b"]) > 400
    assert all(source.startswith("<b> ") for source in data.text("train.b")[0])
    learned = "".join(data.subwords.source.pieces()[260:])
    assert "THE" in learned
    assert set(learned.lower()) <= set("".join(map("".join, PAIRS)) + "▁<>")
