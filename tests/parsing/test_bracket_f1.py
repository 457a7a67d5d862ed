"""Bracket F1 is EVALB's with COLLINS.prm: small trees worked by hand."""

from pathlib import Path

import pytest

from t2t_repro.errors import UserError
from t2t_repro.parsing.bracket_f1 import (
    bracket_f1,
    count_brackets,
    share_of_trees,
    strict_bracket_f1,
)
from t2t_repro.parsing.trees import NO_TREE, delinearise, linearise, read_trees, tree_of
from tests.parsing.test_trees import TREEBANK

# (S (NP The dog) (VP sees (NP a cat)) .): S 0-5, NP 0-2, VP 2-5, NP 3-5; the stop is not there.
GOLD = "S NP DT NN /NP VP VBZ NP DT NN /NP /VP . /S"


def figures(score):
    """Precision, recall, complete match, and the numbers of sentences, errors and skipped ones."""
    parts = dict(part.split(":") for part in score.signature.split("|"))
    assert parts.pop("labels") == "COLLINS.prm"
    names = ("precision", "recall", "complete match", "sentences", "errors", "skipped")
    assert tuple(parts) == names
    return tuple(float(parts[name]) for name in names)


def test_identical_trees_are_100():
    lines = [linearise(s.tree) for path in TREEBANK.rglob("*_*") for _, s in read_trees(path)]
    # A symbol alone ("X SYM /X") counts; no sentence there is punctuation alone.
    for metric in (bracket_f1, strict_bracket_f1):
        score = metric(lines, lines)
        assert score.value == 100.0
        assert figures(score) == (100.0, 100.0, 100.0, len(lines), 0, 0)


def test_every_sentence_is_counted_as_by_evalb():
    """evalb.tsv: gold tree, damaged tree; EVALB's verdict, matched, gold and test brackets."""
    path = Path(__file__).with_name("evalb.tsv")
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 120
    golds, parses = [row[0] for row in rows], [row[1] for row in rows]
    for counts, (*_, verdict, matched, expected, found) in zip(
        count_brackets(parses, golds), rows, strict=True
    ):
        assert counts.valid == (verdict == "valid")
        assert counts[:3] == (int(matched), int(found), int(expected))
    assert 0 < sum(row[2] == "error" for row in rows) < 60


def test_precision_recall_and_f1_are_of_all_sentences_together():
    wrong = "S PP DT NN /PP VBZ DT NN . /S"  # matched 1 (S) of 2 found, 4 expected
    score = bracket_f1([GOLD, wrong], [GOLD, GOLD])
    precision, recall = 5 / 6, 5 / 8
    assert score.value == pytest.approx(100 * 2 * precision * recall / (precision + recall))
    assert figures(score) == (83.33, 62.50, 50.0, 2, 0, 0)


def test_labels_end_where_evalb_cuts_them():
    gold = "S NP PRP /NP VP VBZ /VP /S"
    for label in ("NP-SBJ", "NP=2", "NP-SBJ-1"):
        assert bracket_f1([gold.replace("NP", label)], [gold]).value == 100.0
        assert bracket_f1([gold], [gold.replace("NP", label)]).value == 100.0
    # The label before the dash is empty, and no other's.
    assert count_brackets([gold.replace("NP", "-NP")], [gold])[0][:3] == (2, 3, 3)
    # COLLINS.prm's -NONE- is a tag's: a constituent's label is cut before it is compared with it.
    assert count_brackets([gold.replace("NP", "-NONE-")], [gold])[0][:3] == (2, 3, 3)


def test_other_marks_are_words():
    # COLLINS.prm deletes neither brackets, currency nor what is tagged as a word.
    for tag in ("-LRB-", "$", "#", "SYM", "!"):
        gold = f"S NP {tag} NN /NP VP VB /VP /S"
        assert bracket_f1([f"S {tag} NP NN /NP VP VB /VP /S"], [gold]).value < 70


FAILURES = {
    "no tree": ("S NP DT NN /VP", "errors"),
    "a word too few": ("S NP DT NN /NP VP VBZ DT /VP . /S", "errors"),
    "a word too many": ("S NP DT NN /NP VP VBZ NP DT NN NN /NP /VP . /S", "errors"),
    "a stop too many": (f"{GOLD} .", "errors"),
    "a word taken for punctuation": ("S NP DT , /NP VP VBZ NP DT NN /NP /VP . /S", "errors"),
    "punctuation taken for a word": ("S NP DT NN /NP VP VBZ NP DT NN /NP /VP NN /S", "errors"),
    "nothing": ("", "skipped"),
    "punctuation alone": ("S . . /S", "skipped"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures_are_left_out_by_evalb_and_counted_by_the_strict_score(name):
    hypothesis, kind = FAILURES[name]
    score = bracket_f1([GOLD, hypothesis], [GOLD, GOLD])
    errors = int(kind == "errors")
    assert score.value == 100.0
    assert figures(score) == (100.0, 100.0, 100.0, 1, errors, 1 - errors)
    strict = strict_bracket_f1([GOLD, hypothesis], [GOLD, GOLD])
    assert strict.value == pytest.approx(100 * 2 * 0.5 / 1.5)
    assert figures(strict) == (100.0, 50.0, 50.0, 2, errors, 1 - errors)
    assert strict.name != score.name


def test_the_share_of_trees_is_that_of_sentences_that_are_parsed():
    words = ("The", "dog", "sees", "a", "cat", ".")
    wrong = [hypothesis for hypothesis, _ in FAILURES.values()]
    hypotheses = [GOLD, "NN " * 6, *wrong]
    parsed = [tree_of(words, line) != NO_TREE for line in hypotheses]
    # Wrong punctuation is no reason not to print a tree.
    assert [name for name, fits in zip(FAILURES, parsed[2:], strict=True) if fits] == [
        "a word taken for punctuation",
        "punctuation taken for a word",
    ]
    score = share_of_trees(hypotheses, [GOLD] * len(hypotheses))
    assert score.value == 100 * sum(parsed) / len(parsed) == 40.0
    assert score.signature == "sentences:10|trees:4"


def test_long_sentences_are_left_out_where_that_is_asked_for():
    short = "S NP PRP /NP VP VBZ /VP . /S"
    wrong = short.replace("NP", "ADJP")
    hypotheses, references = [GOLD, wrong, "S /VP"], [GOLD, short, GOLD]
    assert len(delinearise(short).tags) == 3
    assert bracket_f1(hypotheses, references, longest=3) == (
        bracket_f1([wrong], [short])._replace(name="bracket F1 of at most 3 words")
    )
    every = bracket_f1(hypotheses, references)
    for longest in (6, 40):
        assert bracket_f1(hypotheses, references, longest=longest)[1:] == every[1:]
    assert bracket_f1(hypotheses, references, longest=2).value == 0.0
    with pytest.raises(UserError, match=r"bracket_f1\.longest is 0"):
        bracket_f1(hypotheses, references, longest=0)


def test_mistakes_of_the_user():
    for metric in (bracket_f1, strict_bracket_f1, share_of_trees):
        with pytest.raises(UserError, match="2 translations and 1 references"):
            metric([GOLD, GOLD], [GOLD])
        with pytest.raises(UserError, match="reference 2 is not a tree: /VP closes not"):
            metric([GOLD, GOLD], [GOLD, "S NN /VP"])
