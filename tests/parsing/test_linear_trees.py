"""A tree as symbols is Tensor2Tensor's, and the tree again."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from t2t_repro.parsing.trees import bracketed, delinearise, linearise, positions, read_trees
from tests.parsing.test_trees import TREEBANK, tree, trees


def t2t_symbols(text):
    """What T2T's algorithm says of a tree on one line with a root and without extra spaces:

    every "(X" is a symbol; behind a word, all brackets that close but its own are closings.
    """
    symbols, stack = [], []
    for token in text.split(" "):
        if token.startswith("("):
            symbols.append(token[1:])
            stack.append(token[1:])
        else:
            stack.pop()
            for _ in range(len(token) - len(token.rstrip(")")) - 1):
                symbols.append("/" + stack.pop())
    return " ".join(symbols[1:-1])


def test_by_hand():
    barks = tree("DT NN VBZ .", ("S", 0, 4), ("NP", 0, 2), ("VP", 2, 3))
    assert linearise(barks) == "S NP DT NN /NP VP VBZ /VP . /S"
    assert delinearise("S NP DT NN /NP VP VBZ /VP . /S") == barks


def test_the_symbols_are_tensor2tensor_s():
    sentences = [pair[1] for path in TREEBANK.rglob("*_*") for pair in read_trees(path)]
    assert len(sentences) >= 50
    for sentence in sentences:
        assert linearise(sentence.tree) == t2t_symbols(bracketed(sentence))
        assert delinearise(linearise(sentence.tree)) == sentence.tree


@settings(max_examples=60)
@given(trees(), st.integers(0, 3))
def test_any_tree_comes_back(sentence, spaces):
    try:
        line = linearise(sentence.tree)
    except ValueError:
        assume(False)
    assert delinearise((" " * spaces).join(["", line, ""])) == sentence.tree


few = st.sampled_from(["X", "Y"])


@settings(max_examples=150)
@given(trees(labels=few, tags=few, words=st.just("w")))
def test_what_would_not_come_back_is_refused(sentence):
    """With tags that are labels too: never another tree without a word."""
    if any(
        position.inside and position.inside.label == position.tag and not position.closing
        for position in positions(sentence.tree)
    ):
        with pytest.raises(ValueError, match="which the linear form cannot tell apart"):
            linearise(sentence.tree)
    else:
        assert delinearise(linearise(sentence.tree)) == sentence.tree


def test_labels_like_closings_are_refused():
    assert delinearise(linearise(tree("/"))) == tree("/")
    for bad in (tree("/NP"), tree("NN", ("/NP", 0, 1))):
        with pytest.raises(ValueError, match="the label /NP begins with a slash"):
            linearise(bad)


@pytest.mark.parametrize("line", ["/S", "S /S", "S NN /S /S", "S NP NN /S /NP", "S NN /NP"])
def test_a_closing_without_an_opening_is_no_tree(line):
    with pytest.raises(ValueError, match=r"/\w+ closes nothing; expected \w+ before it"):
        delinearise(line)


def test_what_is_never_closed_is_a_tag_and_no_symbols_are_no_words():
    assert delinearise("S NP NN VP VB /S") == tree("NP NN VP VB", ("S", 0, 4))
    assert delinearise("") == delinearise("  ") == tree("")
    deep = "S " * 5000 + "NN" + " /S" * 5000
    assert linearise(delinearise(deep)) == deep
