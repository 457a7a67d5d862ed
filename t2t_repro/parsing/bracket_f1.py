"""F1 of labelled brackets, the measure of constituency parsing (paper, table 4), as in EVALB.

EVALB is Sekine and Collins's program of 1997; its parameter file COLLINS.prm is standard for
the Wall Street Journal. Here trees are symbols without words (see trees.py), so words are
identified by their positions.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

from t2t_repro.config.values import Count, configurable
from t2t_repro.errors import UserError
from t2t_repro.evaluation.scores import TEXTS, References, Score, Texts, aligned
from t2t_repro.parsing.trees import Tree, delinearise

# From COLLINS.prm. Words with these tags are deleted; constituents with these labels do not count.
_DELETED = frozenset(("TOP", "-NONE-", ",", ":", "``", "''", "."))
_EQUAL = {"PRT": "ADVP"}
# EVALB cuts labels of constituents there: NP-SBJ is NP.
_TAIL = re.compile("[-=]")


class BracketCounts(NamedTuple):
    """Numbers of brackets and of sentences, of one sentence or of many.

    Attributes:
        matched: brackets that a parse shares with its reference.
        found: brackets of parses that were compared.
        expected: brackets of the references of those parses.
        complete: sentences of which all brackets match.
        valid: sentences that were compared.
        errors: sentences whose parse is not a tree, or has other words.
        skipped: sentences whose parse has no words that count.
        missed: brackets of the references of `errors` and `skipped`.
        words: words of references, including punctuation.
        trees: sentences whose parse is a tree of as many words as the reference.
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


@configurable(denylist=TEXTS)
def bracket_f1(
    translations: Texts, references: References, sources: Texts = (), longest: Count | None = None
) -> Score:
    """Computes EVALB's labelled F1 with COLLINS.prm, in percent.

        precision = matched / found,   recall = matched / expected,   F1 = 2 · P · R / (P + R)

    over all sentences together. A bracket is a constituent's label and the words that it holds.
    Words with the tags , : `` '' . are deleted first, and constituents that hold no other. Root and
    tags do not count; ADVP equals PRT. A repeated bracket matches as often as both trees have it.

    As in EVALB, a sentence is **left out** of all these sums if its parse is not a tree, has
    another number of words or takes another word for punctuation (an "error"), or has no words that
    count ("skipped"). A model that fails on long sentences gains by it: the signature has the
    numbers of such sentences, and `strict_bracket_f1` counts them as failures.

    Args:
        translations: linearised trees.
        references: likewise.
        sources: not used; all metrics have the same arguments.
        longest: leaves out sentences with more words, including punctuation; EVALB also prints
            the figure of at most 40 words.

    Raises:
        UserError: a reference is not a tree, a sentence has several references, or the numbers of
            sentences differ.
    """
    sentences = count_brackets(translations, references)
    name = "bracket F1"
    if longest is not None:
        sentences = [counts for counts in sentences if counts.words <= longest]
        name += f" of at most {longest} words"
    counts = _total(sentences)
    return _score(name, counts, counts.expected, counts.valid)


@configurable(denylist=TEXTS)
def strict_bracket_f1(translations: Texts, references: References, sources: Texts = ()) -> Score:
    """Computes F1 of brackets over every sentence, in percent.

    A parse that EVALB leaves out counts as one without brackets. All else is as in `bracket_f1`
    without `longest`, also the errors. This is not EVALB's figure, but it is safe for selecting
    models.
    """
    sentences = count_brackets(translations, references)
    counts = _total(sentences)
    return _score("strict bracket F1", counts, counts.expected + counts.missed, len(sentences))


@configurable(denylist=TEXTS)
def share_of_trees(translations: Texts, references: References, sources: Texts = ()) -> Score:
    """Computes the share of parses that are trees of as many words as the reference, in percent.

    Arguments and errors are those of `bracket_f1`, without `longest`; `sources` is not used.
    """
    sentences = count_brackets(translations, references)
    trees = _total(sentences).trees
    signature = f"sentences:{len(sentences)}|trees:{trees}"
    return Score("share of trees", _percent(trees, len(sentences)), signature)


def count_brackets(translations: Texts, references: References) -> list[BracketCounts]:
    """Counts the brackets of each sentence; arguments and errors are those of `bracket_f1`."""
    parses, rows = aligned(translations, references)
    # `aligned` has checked that there are as many.
    return list(map(_compare, parses, _reference_trees(rows)))


def _total(counts: Iterable[BracketCounts]) -> BracketCounts:
    """Adds the counts of sentences, field by field; all are 0 without sentences."""
    return BracketCounts(*map(sum, zip(*counts, strict=True)))


def _score(name: str, counts: BracketCounts, expected: int, sentences: int) -> Score:
    """Returns F1 in percent, with recall out of `expected`, complete matches out of `sentences`."""
    precision = _percent(counts.matched, counts.found)
    recall = _percent(counts.matched, expected)
    f1 = 2 * precision * recall / (precision + recall) if counts.matched else 0.0
    complete = _percent(counts.complete, sentences)
    shares = f"precision:{precision:.2f}|recall:{recall:.2f}|complete match:{complete:.2f}"
    numbers = f"sentences:{sentences}|errors:{counts.errors}|skipped:{counts.skipped}"
    return Score(name, f1, f"{shares}|{numbers}|labels:COLLINS.prm")


def _percent(part: int, whole: int) -> float:
    """Returns the share of a part in the whole, in percent; 0 if there is nothing."""
    return 100.0 * part / whole if whole else 0.0


def _reference_trees(references: Iterable[tuple[str, ...]]) -> Iterator[Tree]:
    """Yields the tree of each sentence's only reference.

    Raises:
        UserError: a sentence has several references, or its reference is not a tree.
    """
    for number, (reference, *others) in enumerate(references, start=1):
        if others:
            raise UserError(f"sentence {number} has several references: give --reference once.")
        try:
            yield delinearise(reference)
        except ValueError as error:
            problem = f"reference {number} is not a tree: {error}"
            raise UserError(f"{problem}; expected symbols: S NP NN /NP VP VBZ /VP /S.") from error


def _compare(parse: str, reference: Tree) -> BracketCounts:
    """Counts the brackets of one sentence; a parse is checked for errors in EVALB's order.

    Args:
        parse: a line of symbols, which need not be a tree.
        reference: the tree that it should be.
    """
    expected = _brackets(reference)
    no_tree = BracketCounts(missed=expected.total(), words=len(reference.tags))
    try:
        tree = delinearise(parse)
    except ValueError:
        return no_tree._replace(errors=1)
    left_out = no_tree._replace(trees=int(len(tree.tags) == no_tree.words))
    if not any(_which_words_count(tree)):
        return left_out._replace(skipped=1)
    # The numbers of words differ, or one of them is punctuation in only one of the trees.
    if _which_words_count(tree) != _which_words_count(reference):
        return left_out._replace(errors=1)
    found = _brackets(tree)
    matched = (found & expected).total()
    counts = BracketCounts(matched, found.total(), expected.total(), int(found == expected))
    return counts._replace(valid=1, words=no_tree.words, trees=1)


def _which_words_count(tree: Tree) -> list[bool]:
    """Returns of each word whether it counts; words with the tags `_DELETED` do not."""
    return [tag not in _DELETED for tag in tree.tags]


def _brackets(tree: Tree) -> Counter[tuple[str, int, int]]:
    """Counts how often a tree has each bracket: its label, first word, and word after its last.

    Words are numbered without punctuation, and constituents that hold no other word are left out.
    The same bracket may occur twice: (NP (NP dogs)) has ("NP", 0, 1) twice.
    """
    # Words that count, before each word and before the end.
    words_before = [*accumulate(_which_words_count(tree), initial=0)]
    brackets: Counter[tuple[str, int, int]] = Counter()
    for whole_label, start, end in tree.constituents:
        label = _TAIL.split(whole_label, maxsplit=1)[0]
        if label not in _DELETED and words_before[start] < words_before[end]:
            brackets[_EQUAL.get(label, label), words_before[start], words_before[end]] += 1
    return brackets


METRICS = (bracket_f1, strict_bracket_f1, share_of_trees)
