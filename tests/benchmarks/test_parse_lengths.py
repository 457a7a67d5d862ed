"""The table of parses by length: which sentences each column has, and what it says of them."""

import sys

import pytest

import parse_lengths
from parse_lengths import column, table
from t2t_repro.parsing.linear_trees import linearise
from t2t_repro.parsing.trees import read_trees

TREE = "(S (NP (NN a)) (VP (VBZ b)))"
LONG = "(S (NP (NN a) (NN a) (NN a) (NN a) (NN a)) (VP (VBZ b)))"


@pytest.mark.parametrize(
    ("words", "expected"), [(1, 0), (5, 0), (6, 1), (10, 1), (40, 4), (41, 5), (900, 5)]
)
def test_a_sentence_is_in_one_column(words, expected):
    assert column(words) == expected


def test_every_column_has_the_scores_of_its_own_sentences(tmp_path):
    file = tmp_path / "trees"
    file.write_text("\n".join((TREE, TREE, LONG)))
    trees = [sentence.tree for _, sentence in read_trees(file)]
    references = [linearise(tree) for tree in trees]
    # One right, one of three words, one with its noun phrase called something else.
    outputs = [references[0], "S NN NN VBZ /S", references[2].replace("NP", "ADJP")]
    assert table([len(tree.tags) for tree in trees], outputs, references) == [
        "| words | 1 to 5 | 6 to 10 |",
        "| --- | --- | --- |",
        "| sentences | 2 | 1 |",
        "| outputs that are trees, % | 50.0 | 100.0 |",
        "| F1 of those that count | 100.0 | 66.7 |",
        "| F1, the others as failures | 66.7 | 66.7 |",
    ]


def test_as_many_outputs_as_trees_are_asked_for(tmp_path, monkeypatch):
    for name, lines in (("trees", TREE), ("symbols", "S\nS\n")):
        (tmp_path / name).write_text(lines)
    flags = [f"--{name}={tmp_path / name}" for name in ("trees", "symbols")]
    monkeypatch.setattr(sys, "argv", ["parse_lengths.py", *flags])
    with pytest.raises(SystemExit, match="2 lines of symbols, expected 1, one a tree"):
        parse_lengths.main()
