"""Trees as sequences of symbols, for a Transformer (paper, section 6.3).

    (S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .))    becomes    S NP DT NN /NP VP VBZ /VP . /S

The form of Tensor2Tensor's data_generators/wsj_parsing.py, after Vinyals et al. (2015), "Grammar
as a Foreign Language": a constituent opens with its label and closes with a slash and its label; a
word is its part-of-speech tag; the root is left out. (Vinyals et al. write XX for every tag; T2T
keeps the tags.) A label differs from a tag only in that it is closed.
"""

from itertools import accumulate

from t2t_repro.parsing.trees import (
    SPACES,
    Constituent,
    ParsedSentence,
    Tree,
    bracketed,
    positions,
)

CLOSE = "/"
"""Begins the symbol that closes a constituent."""

NO_TREE = "(())"
"""The usual output of a parser that fails."""


def linearise(tree: Tree) -> str:
    """Returns a tree as symbols separated by spaces, the inverse of `delinearise`.

    Raises:
        ValueError: the form would be ambiguous: a label begins with a slash, or a word that is not
            a constituent's last has the constituent's label as its tag.
    """
    symbols: list[str] = []
    for position in positions(tree):
        symbols += [_checked(constituent.label) for constituent in position.opening]
        symbols.append(_checked(position.tag))
        if position.inside and position.inside.label == position.tag and not position.closing:
            raise ValueError(
                f"{position.tag} is a constituent and the tag of a word in it, which the linear "
                "form cannot tell apart: rename one of them"
            )
        symbols += [CLOSE + constituent.label for constituent in position.closing]
    return " ".join(symbols)


def delinearise(line: str) -> Tree:
    """Reads a tree from symbols, e.g. a model's output.

    A closing symbol closes the nearest open symbol of its label that has a symbol behind it. What
    is never closed is a tag.

    Raises:
        ValueError: a closing symbol closes nothing.
    """
    names: list[str] = []
    open_names: list[int] = []
    ends: dict[int, int] = {}
    for symbol in line.split(" "):
        if not _is_closing(symbol):
            if symbol:
                open_names.append(len(names))
                names.append(symbol)
            continue
        while open_names and (
            names[open_names[-1]] != symbol[1:] or open_names[-1] == len(names) - 1
        ):
            open_names.pop()
        if not open_names:
            raise ValueError(f"{symbol} closes nothing; expected {symbol[1:]} before it")
        ends[open_names.pop()] = len(names)
    words_before = [0, *accumulate(number not in ends for number in range(len(names)))]
    return Tree(
        tuple(name for number, name in enumerate(names) if number not in ends),
        tuple(
            Constituent(names[number], words_before[number], words_before[ends[number]])
            for number in sorted(ends)
        ),
    )


def _is_closing(symbol: str) -> bool:
    return symbol.startswith(CLOSE) and symbol != CLOSE


def _checked(label: str) -> str:
    if _is_closing(label):
        raise ValueError(f"the label {label} begins with a slash, as closing symbols do: rename it")
    return label


def words_of(line: str) -> tuple[str, ...]:
    """Splits a sentence into words; round brackets become -LRB- and -RRB-."""
    words = SPACES.split(line.replace("(", "-LRB-").replace(")", "-RRB-"))
    return tuple(filter(None, words))


def tree_of(words: tuple[str, ...], symbols: str) -> str:
    """Returns the bracketed tree of a sentence.

    Args:
        words: of the sentence.
        symbols: a linearised tree, a model's output.

    Returns:
        the tree with these words; `NO_TREE` if the symbols are not a tree of as many words.
    """
    try:
        tree = delinearise(symbols)
    except ValueError:
        return NO_TREE
    # A model can write anything that has a subword.
    fits = words and len(tree.tags) == len(words) and not set(symbols) & set("()\r\n")
    return bracketed(ParsedSentence(words, tree)) if fits else NO_TREE
