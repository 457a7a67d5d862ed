"""Trees are read as they stand, and what is wrong with a file is said with its line."""

import gzip
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.errors import UserError
from t2t_repro.parsing.trees import (
    Constituent,
    ParsedSentence,
    Tree,
    bracketed,
    delinearise,
    linearise,
    positions,
    read_trees,
)

TREEBANK = Path(__file__).parents[1] / "treebank"

label = st.text(st.characters(exclude_characters="()-=/ \t\n\r\f\v", categories=("L", "P", "S")))
label = label.filter(lambda text: text and text not in ("TOP", "ROOT", "S1", "VROOT"))
word = st.text(
    st.characters(exclude_characters="() \t\n\r\f\v", exclude_categories=["Cs"]), min_size=1
)


@st.composite
def trees(draw, labels=label, tags=label, words=word):
    """Any tree of up to eight words: unary chains, unlike depths, repeated labels."""
    number = draw(st.integers(1, 8))
    constituents = []

    def grow(start, end, depth):
        for _ in range(draw(st.integers(0, 2))):
            constituents.append(Constituent(draw(labels), start, end))
        if end - start > 1 and depth < 4:
            cut = draw(st.integers(start + 1, end - 1))
            grow(start, cut, depth + 1)
            grow(cut, end, depth + 1)

    grow(0, number, 0)
    taken = draw(st.lists(words, min_size=number, max_size=number))
    tree = Tree(tuple(draw(tags) for _ in range(number)), tuple(constituents))
    return ParsedSentence(tuple(taken), tree)


def read(tmp_path, text, name="x.mrg"):
    path = tmp_path / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return list(read_trees(path))


def one(tmp_path, text):
    ((_, sentence),) = read(tmp_path, text)
    return sentence


@settings(max_examples=40)
@given(st.lists(trees(), max_size=3), st.sampled_from([" ", "\n  ", "\t", "\r\n"]))
def test_any_tree_comes_back_however_it_is_broken_into_lines(tmp_path_factory, sentences, space):
    text = "\n".join(bracketed(sentence).replace(" ", space) for sentence in sentences)
    found = read(tmp_path_factory.mktemp("trees"), text)
    assert [sentence for _, sentence in found] == sentences


def test_a_tree_by_hand(tmp_path):
    sentence = one(tmp_path, "( (S (NP-SBJ (DT The) (NN dog) )\n  (VP (VBZ barks) )\n (. .) ))\n")
    assert sentence.words == ("The", "dog", "barks", ".")
    assert sentence.tree == tree("DT NN VBZ .", ("S", 0, 4), ("NP", 0, 2), ("VP", 2, 3))
    assert bracketed(sentence) == "(TOP (S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .)))"
    first, _, third, last = positions(sentence.tree)
    assert [c.label for c in first.opening] == ["S", "NP"]
    assert ([c.label for c in third.closing], third.inside) == (["VP"], ("VP", 2, 3))
    assert ([c.label for c in last.closing], last.inside) == (["S"], ("S", 0, 4))


def tree(tags, *spans):
    return Tree(tuple(tags.split()), tuple(Constituent(*span) for span in spans))


@pytest.mark.parametrize("root", ["", "TOP ", "VROOT"])
def test_a_root_is_not_a_part_of_the_tree(tmp_path, root):
    assert one(tmp_path, f"({root}(S (NP (NN a)) (VP (VB b))))") == one(
        tmp_path, "(S (NP (NN a)) (VP (VB b)))"
    )
    assert bracketed(one(tmp_path, f"({root}(NP (NN a)) (. .))")) == "(TOP (NP (NN a)) (. .))"
    assert one(tmp_path, "(NN a)").tree == Tree(("NN",), ())


def test_traces_and_what_holds_nothing_else_are_taken_out(tmp_path):
    # EVALB's README, section 7.
    text = "(VP (VBD reported) (SBAR (-NONE- 0) (S (-NONE- *T*-1))) (. .))"
    assert bracketed(one(tmp_path, text)) == "(TOP (VP (VBD reported) (. .)))"


@pytest.mark.parametrize(
    ("written", "read_as"),
    [("NP-SBJ-1", "NP"), ("NP=2", "NP"), ("PRT|ADVP", "PRT|ADVP"), ("-X-", "-X-"), ("NP", "NP")],
)
def test_function_tags_are_cut_off_constituents_alone(tmp_path, written, read_as):
    sentence = one(tmp_path, f"(S ({written} (-LRB- -LRB-) (NN-X a-b)))")
    assert sentence.tree == tree("-LRB- NN-X", ("S", 0, 2), (read_as, 0, 2))


def test_a_compressed_file_is_read(tmp_path):
    plain = TREEBANK / "22" / "made_2200.mrg"
    assert read(tmp_path, plain.read_text(), "x.mrg.gz") == list(read_trees(plain))


@pytest.mark.parametrize("failed", ["(())", "(TOP)", "(S (-NONE- *))"])
def test_a_tree_without_words_is_left_out_with_a_warning(tmp_path, caplog, failed):
    found = read(tmp_path, f"(S (NN a))\n{failed}\n(S (NN b))\n")
    assert [(line, sentence.words) for line, sentence in found] == [(1, ("a",)), (3, ("b",))]
    assert "x.mrg, line 2: a tree without words" in caplog.text


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("(S (NN a))\n\n(S (NP (NN b))\n(S (NN c))\n", 3, "never closed"),
        ("(S (NN a))\n(S (NN b)))\n", 2, r"'\)' stands outside of any bracket"),
        # Where one is missing, and one too many follows.
        ("(TOP (S (NN a))\n(TOP (S (NN b))))", 2, r"\(TOP .*\) is not a tag and a word, or"),
        ("((S (NN a))\n( (S (NN b))))", 2, r"\(\(S .*\) is not a tag and a word"),
        ("(S\n (NN a) b)", 1, r"\(S \(NN a\) b\) is not a tag and a word, or a label and"),
        ("(S (NP (NN a))\n (NN))", 2, r"\(NN\) is not a tag and a word"),
        ("(S (NN a))\nremark\n", 2, "'remark' stands outside of any bracket"),
    ],
)
def test_what_is_no_tree_is_one_line_with_file_and_line(tmp_path, text, line, what):
    with pytest.raises(UserError, match=rf"x\.mrg, line {line}: .*{what}") as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)
    assert re.search(r"expected trees such as \(S", str(caught.value))


# As symbols


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


@pytest.mark.parametrize("line", ["/S", "S /S", "S NN /S /S", "S NP NN /S /NP", "S NN /NP"])
def test_a_closing_without_an_opening_is_no_tree(line):
    with pytest.raises(ValueError, match=r"/\w+ closes nothing; expected \w+ before it"):
        delinearise(line)


def test_what_is_never_closed_is_a_tag_and_no_symbols_are_no_words():
    assert delinearise("S NP NN VP VB /S") == tree("NP NN VP VB", ("S", 0, 4))
    assert delinearise("") == delinearise("  ") == tree("")
    deep = "S " * 5000 + "NN" + " /S" * 5000
    assert linearise(delinearise(deep)) == deep
