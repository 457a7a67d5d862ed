"""Trees as sequences of symbols, which is how a Transformer writes them (paper, section 6.3).

    (S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .))    becomes    S NP DT NN /NP VP VBZ /VP . /S

The form is that of Tensor2Tensor's data_generators/wsj_parsing.py, which follows Vinyals et al.
(2015), "Grammar as a Foreign Language": a constituent opens with its label and closes with a slash
and its label; a word is its part-of-speech tag; the root is left out. (Vinyals et al. write XX for
every tag; T2T keeps the tags.) Nothing but its closing tells a constituent's label from a tag.
"""

from t2t_repro.parsing.trees import Constituent, Tree, positions

CLOSE = "/"
"""Begins the symbol that closes a constituent."""


def linearise(tree: Tree) -> str:
    """Writes a tree as symbols with a space between them; `delinearise` gives the tree back.

    Raises:
        ValueError: the tree has no such form that could be read again: a label begins with a
            slash, or a word that is not a constituent's last has the constituent's label for a
            tag.
    """
    symbols: list[str] = []
    for position in positions(tree):
        symbols += [_checked(constituent.label) for constituent in position.opening]
        symbols.append(_checked(position.tag))
        if position.inside and position.inside.label == position.tag and not position.closing:
            raise ValueError(
                f"{position.tag} is a constituent and the tag of a word in it, which the linear "
                "form cannot tell apart; expected tags unlike labels: rename one of them"
            )
        symbols += [CLOSE + constituent.label for constituent in position.closing]
    return " ".join(symbols)


def delinearise(line: str) -> Tree:
    """Reads the tree that a line of symbols is.

    A closing belongs to the nearest symbol of its label that is still open and has a symbol behind
    it; what is never closed is a tag.

    Args:
        line: symbols, e.g. of a model's making.

    Raises:
        ValueError: a closing has no symbol that it could close.
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
    words_before = [0]
    for number in range(len(names)):
        words_before.append(words_before[-1] + (number not in ends))
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
        raise ValueError(
            f"the label {label} begins with a slash, as closing symbols do; expected another: "
            "rename it"
        )
    return label
