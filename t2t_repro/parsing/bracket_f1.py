"""F1 of labelled brackets, the measure of constituency parsing (paper, table 4), as EVALB has it.

EVALB is Sekine and Collins's program of 1997; its parameter file COLLINS.prm is what figures on the
Wall Street Journal are made with. Differently from EVALB, trees come as symbols and without words
(see data/linear_trees.py), so that a word is known by its place in the sentence.
benchmarks/evalb.py holds the two against each other.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import gin

from t2t_repro.config.values import Count, validated
from t2t_repro.errors import UserError
from t2t_repro.evaluation.scores import Score, check_lengths
from t2t_repro.parsing.linear_trees import delinearise
from t2t_repro.parsing.trees import Tree

BRACKET_F1 = "bracket F1"
STRICT_BRACKET_F1 = "strict bracket F1"
SHARE_OF_TREES = "share of trees"

# COLLINS.prm: a word with such a tag is not there, and a constituent with such a label does not
# count.
_DELETED = frozenset(("TOP", "-NONE-", ",", ":", "``", "''", "."))
_EQUAL = {"PRT": "ADVP"}
# EVALB cuts labels of constituents there: NP-SBJ is NP.
_TAIL = re.compile("[-=]")


class BracketCounts(NamedTuple):
    """Numbers of brackets and of sentences, of one sentence or of many.

    Attributes:
        matched: brackets that a hypothesis and its reference share.
        found: brackets of hypotheses.
        expected: brackets of their references.
        complete: sentences of which all brackets match.
        valid: sentences that were compared.
        errors: sentences whose hypothesis is no tree, or one of other words.
        skipped: sentences whose hypothesis has no words that count.
        missed: brackets of the references of `errors` and `skipped`.
        words: of references, punctuation among them.
        trees: sentences whose hypothesis is a tree of as many words as the reference has.
    """

    matched: int = 0
    found: int = 0
    expected: int = 0
    complete: int = 0
    valid: int = 0
    errors: int = 0
    skipped: int = 0
    missed: int = 0
    words: int = 0
    trees: int = 0


@gin.configurable(denylist=["hypotheses", "references"])
@validated
def bracket_f1(
    hypotheses: Sequence[str], references: Sequence[str], longest: Count | None = None
) -> Score:
    """EVALB's labelled F1 with COLLINS.prm, in percent.

        precision = matched / found,   recall = matched / expected,   F1 = 2 · P · R / (P + R)

    over all sentences together. A bracket is a constituent's label and the words that it holds.
    Words with the tags , : `` '' . are taken out first, and constituents that hold no other. The
    root does not count, tags do not count, and ADVP and PRT are the same. Of several brackets that
    are alike, as many match as both trees have.

    As in EVALB, a sentence is **left out** of all these sums if its hypothesis is no tree, has not
    as many words as its reference, or takes another word for punctuation (an "error"), or has no
    words that count ("skipped"). So a model that fails on long sentences gains by it: the numbers
    of such sentences stand in the signature, and `strict_bracket_f1` counts them as failures.

    Args:
        hypotheses: linearised trees.
        references: likewise.
        longest: sentences with more words than this, punctuation among them, do not count; EVALB
            prints the figure of at most 40 words too. By default all do.

    Raises:
        UserError: the two are not as many lines, or a reference is no tree.
    """
    sentences = count_brackets(hypotheses, references)
    name = BRACKET_F1
    if longest is not None:
        sentences = [counts for counts in sentences if counts.words <= longest]
        name += f" of at most {longest} words"
    counts = _total(sentences)
    return _score(name, counts, counts.expected, counts.valid)


@gin.configurable(denylist=["hypotheses", "references"])
def strict_bracket_f1(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """F1 over every sentence: a hypothesis that EVALB leaves out has found no bracket of its own.

    Not EVALB's figure, and never above it by leaving something out: fit to select models by. For
    the rest see `bracket_f1`.

    Raises:
        UserError: the two are not as many lines, or a reference is no tree.
    """
    counts = _total(count_brackets(hypotheses, references))
    return _score(STRICT_BRACKET_F1, counts, counts.expected + counts.missed, len(references))


@gin.configurable(denylist=["hypotheses", "references"])
def share_of_trees(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """The share of hypotheses that are trees of their sentences, in percent.

    They are what `t2t_repro.parse` prints a tree for: every closing symbol closes something, and
    there are as many words as in the reference. Which words are punctuation does not count here.

    Args:
        hypotheses: linearised trees.
        references: likewise.

    Raises:
        UserError: the two are not as many lines, or a reference is no tree.
    """
    fit = _total(count_brackets(hypotheses, references)).trees
    signature = f"sentences:{len(references)}|trees:{fit}"
    return Score(SHARE_OF_TREES, _percent(fit, len(references)), signature)


def count_brackets(hypotheses: Sequence[str], references: Sequence[str]) -> list[BracketCounts]:
    """Compares every sentence by itself; see `bracket_f1`.

    Args:
        hypotheses: linearised trees.
        references: likewise.

    Raises:
        UserError: the two are not as many lines, or a reference is no tree.
    """
    check_lengths(hypotheses, references)
    golds = _read(references)
    return [_compare(line, gold) for line, gold in zip(hypotheses, golds, strict=True)]


def _total(counts: Iterable[BracketCounts]) -> BracketCounts:
    return BracketCounts(*map(sum, zip(*counts, strict=True)))


def _score(name: str, counts: BracketCounts, expected: int, sentences: int) -> Score:
    precision = _percent(counts.matched, counts.found)
    recall = _percent(counts.matched, expected)
    f1 = 2 * precision * recall / (precision + recall) if counts.matched else 0.0
    signature = (
        f"precision:{precision:.2f}|recall:{recall:.2f}"
        f"|complete match:{_percent(counts.complete, sentences):.2f}|sentences:{sentences}"
        f"|errors:{counts.errors}|skipped:{counts.skipped}|labels:COLLINS.prm"
    )
    return Score(name, f1, signature)


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0


def _read(references: Iterable[str]) -> Iterator[Tree]:
    """The trees of the references."""
    for number, reference in enumerate(references, start=1):
        try:
            yield delinearise(reference)
        except ValueError as error:
            raise UserError(
                f"reference {number} is no linearised tree: {error}; expected one such as "
                "S NP NN /NP VP VBZ /VP /S"
            ) from error


def _compare(hypothesis: str, gold: Tree) -> BracketCounts:
    """Compares one sentence, in the order in which EVALB looks for what is wrong with it."""
    expected = _brackets(gold)
    left_out = BracketCounts(missed=expected.total(), words=len(gold.tags))
    try:
        tree = delinearise(hypothesis)
    except ValueError:
        return left_out._replace(errors=1)
    left_out = left_out._replace(trees=int(len(tree.tags) == len(gold.tags)))
    if not any(_is_counted(tree)):
        return left_out._replace(skipped=1)
    if _is_counted(tree) != _is_counted(gold):
        return left_out._replace(errors=1)
    found = _brackets(tree)
    return BracketCounts(
        matched=(found & expected).total(),
        found=found.total(),
        expected=expected.total(),
        complete=int(found == expected),
        valid=1,
        words=len(gold.tags),
        trees=1,
    )


def _is_counted(tree: Tree) -> list[bool]:
    """Of every word whether it counts."""
    return [tag not in _DELETED for tag in tree.tags]


def _brackets(tree: Tree) -> Counter[tuple[str, int, int]]:
    """The brackets that count: label, first word and end, in words that count."""
    before = [0, *accumulate(_is_counted(tree))]
    brackets: Counter[tuple[str, int, int]] = Counter()
    for whole_label, start, end in tree.constituents:
        label = _TAIL.split(whole_label, maxsplit=1)[0]
        if label not in _DELETED and before[start] < before[end]:
            brackets[_EQUAL.get(label, label), before[start], before[end]] += 1
    return brackets
