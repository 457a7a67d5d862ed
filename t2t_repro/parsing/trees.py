"""Reads and writes constituency trees: as Penn-style brackets, and as symbols for a model.

( (S (NP-SBJ (DT The) (NN dog) )
     (VP (VBZ barks) )
     (. .) ))

becomes, for a Transformer (paper, section 6.3), S NP DT NN /NP VP VBZ /VP . /S

The symbols are those of Tensor2Tensor's data_generators/wsj_parsing.py, after Vinyals et al.
(2015), "Grammar as a Foreign Language": a constituent opens with its label and closes with a slash
and its label; a word is its part-of-speech tag; the root is left out. (Vinyals et al. write XX for
every tag; T2T keeps the tags.) A label differs from a tag only in that it is closed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, compress
from pathlib import Path
from typing import Any, NamedTuple

from absl import logging

from t2t_repro.data.line_files import read_lines
from t2t_repro.errors import UserError

# Labels of the outermost bracket, which may also have none.
_ROOTS = ("TOP", "ROOT", "S1", "VROOT")
_EMPTY_ELEMENT = "-NONE-"

# Begins the symbol that closes a constituent.
_CLOSE = "/"

NO_TREE = "(())"
"""The usual output of a parser that fails."""

# White space is ASCII's, as in EVALB: a no-break space may be part of a word.
_WORD = re.compile(r"\S+", re.ASCII)
_TOKEN = re.compile(r"[()]|[^()\s]+", re.ASCII)
_CATEGORY = re.compile(r"[^-=]+")


class Constituent(NamedTuple):
    """A labelled span.

    Attributes:
        label: its category, e.g. "NP".
        start: number of its first word, from 0.
        end: number of the word after its last; more than `start`.
    """

    label: str
    start: int
    end: int


class Tree(NamedTuple):
    """A constituency tree without its words.

    Attributes:
        tags: the part-of-speech tag of every word.
        constituents: nested, in the order in which their brackets open, without the root.
    """

    tags: tuple[str, ...]
    constituents: tuple[Constituent, ...]


class ParsedSentence(NamedTuple):
    """A tree with its words, as many as the tree has tags."""

    words: tuple[str, ...]
    tree: Tree


@dataclass
class Position:
    """One word of a tree, and the constituents around it.

    Attributes:
        tag: the word's tag.
        opening: the constituents that begin with the word, outermost first.
        closing: the constituents that end with the word, innermost first.
        inside: the innermost constituent with the word, or None.
    """

    tag: str
    opening: list[Constituent] = field(default_factory=list)
    closing: list[Constituent] = field(default_factory=list)
    inside: Constituent | None = None


def positions(tree: Tree) -> list[Position]:
    """Returns of each word of a tree its tag, and the constituents that begin, end, or hold it."""
    by_word = [Position(tag) for tag in tree.tags]
    # Outer constituents come first. They close last, and inner ones replace them as `inside`.
    for constituent in tree.constituents:
        by_word[constituent.start].opening.append(constituent)
        by_word[constituent.end - 1].closing.insert(0, constituent)
        for position in by_word[constituent.start : constituent.end]:
            position.inside = constituent
    return by_word


def bracketed(sentence: ParsedSentence) -> str:
    """Returns a tree on one line: (TOP (S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .)))."""
    leaves = []
    for word, position in zip(sentence.words, positions(sentence.tree), strict=True):
        opening = "".join(f"({constituent.label} " for constituent in position.opening)
        leaves.append(f"{opening}({position.tag} {word}){')' * len(position.closing)}")
    return f"(TOP {' '.join(leaves)})"


def read_trees(path: Path) -> Iterator[tuple[int, ParsedSentence]]:
    """Reads the trees of a file, plain or compressed.

    Each tree is on one or several lines. Trees are cleaned as is usual for parsers. Empty elements
    (-NONE-) are deleted, and constituents that hold nothing else. Labels of constituents end at the
    first "-" or "=" (NP-SBJ-1 and NP=2 become NP), as in EVALB. A root without a label, or labelled
    TOP, ROOT, S1 or VROOT, is not part of the tree. A tree without words, the output of a failed
    parser, is left out with a warning.

    Yields:
        the number of the line in which a tree begins, and the tree with its words.

    Raises:
        UserError: the file cannot be read, or has something else than trees.
    """
    for bracket in _read_brackets(path):
        sentence = _sentence(path, bracket)
        if sentence.words:
            yield bracket.line, sentence
        else:
            logging.warning("%s, line %d: a tree without words is left out", path, bracket.line)


class _Bracket(NamedTuple):
    """A bracket of a file.

    Attributes:
        line: number of the line in which it begins.
        parts: what it holds, in order: strings, which are labels or words, and inner brackets.
    """

    line: int
    parts: list[Any]

    def __str__(self) -> str:
        """Returns the bracket on one line, as in a file."""
        return f"({' '.join(map(str, self.parts))})"

    def split(self) -> tuple[str, list[Any]]:
        """Returns the label, "" if there is none, and the parts after it."""
        has_label = bool(self.parts) and isinstance(self.parts[0], str)
        return (self.parts[0], self.parts[1:]) if has_label else ("", self.parts)


def _read_brackets(path: Path) -> Iterator[_Bracket]:
    """Yields the outermost brackets of a file, with all that they hold.

    Raises:
        UserError: the file cannot be read, or brackets and other text do not match.
    """
    # The brackets around the current token, the outermost first.
    open_brackets: list[_Bracket] = []
    for number, line in enumerate(read_lines(path), start=1):
        for token in _TOKEN.findall(line):
            if token == "(":
                open_brackets.append(_Bracket(number, []))
            elif not open_brackets:
                raise _error(path, number, f"{token!r} stands outside of any bracket")
            elif token != ")":
                open_brackets[-1].parts.append(token)
            elif len(open_brackets) > 1:
                # It is part of the bracket around it.
                open_brackets[-2].parts.append(open_brackets.pop())
            else:
                yield open_brackets.pop()
    if open_brackets:
        raise _error(path, open_brackets[0].line, "the tree that begins here is never closed")


def _sentence(path: Path, tree: _Bracket) -> ParsedSentence:
    """Returns the words and the tree of an outermost bracket, without root and empty elements.

    Raises:
        UserError: the bracket is not a tree.
    """
    words, tags, constituents = _content(path, tree, start=0, is_outermost=True)
    return ParsedSentence(tuple(words), Tree(tuple(tags), tuple(constituents)))


# Words, tags and constituents.
_Content = tuple[list[str], list[str], list[Constituent]]


def _content(path: Path, bracket: _Bracket, start: int, is_outermost: bool = False) -> _Content:
    """Returns the words, tags and constituents of a bracket.

    Args:
        path: the file, for errors.
        bracket: a tag and a word, or brackets with or without a label.
        start: number of the bracket's first word in the tree, from 0.
        is_outermost: whether the bracket is a whole tree, which may be a root. An inner bracket may
            be one only if it is empty.

    Raises:
        UserError: the bracket, or one that it holds, is something else.
    """
    label, parts = bracket.split()
    is_root = label in ("", *_ROOTS)
    # A tag and a word.
    if not is_root and len(parts) == 1 and isinstance(parts[0], str):
        return ([], [], []) if label == _EMPTY_ELEMENT else (parts, [label], [])
    has_untagged_word = any(isinstance(part, str) for part in parts)
    is_empty = not parts and not is_root
    # If a closing bracket is missing, the next tree looks like an inner root. An empty bracket
    # does not: `NO_TREE` has one.
    is_inner_root = is_root and not is_outermost and bracket.parts
    if has_untagged_word or is_empty or is_inner_root:
        problem = f"{bracket} is not a tag and a word, or a label and brackets"
        raise _error(path, bracket.line, problem)
    words, tags, constituents = list[str](), list[str](), list[Constituent]()
    for part in parts:
        inner_words, inner_tags, inner_constituents = _content(path, part, start + len(words))
        words += inner_words
        tags += inner_tags
        constituents += inner_constituents
    # A bracket that holds only empty elements is deleted with them.
    if words and not is_root:
        # A label that begins with "-" has no category, and stays whole.
        category = _CATEGORY.match(label)
        name = category[0] if category else label
        # A constituent goes before those that it holds.
        constituents.insert(0, Constituent(name, start, start + len(words)))
    return words, tags, constituents


def _error(path: Path, line: int, problem: str) -> UserError:
    """Returns the error about a line that is not part of a tree."""
    example = "(S (NP (DT The) (NN dog)) (VP (VBZ barks)))"
    return UserError(f"{path}, line {line}: {problem}; expected trees such as {example}")


def _is_closing(symbol: str) -> bool:
    """Returns whether a symbol closes a constituent, such as /NP; a slash alone is a tag."""
    return symbol.startswith(_CLOSE) and symbol != _CLOSE


def linearise(tree: Tree) -> str:
    """Returns a tree as symbols separated by spaces, which `delinearise` reads.

    A tree without words is "".

    Raises:
        ValueError: the symbols would be ambiguous: a label or tag begins with a slash, or a word
            that is not a constituent's last has the constituent's label as its tag.
    """
    symbols: list[str] = []
    for position in positions(tree):
        opening = [*(constituent.label for constituent in position.opening), position.tag]
        if any(map(_is_closing, opening)):
            raise ValueError(f"a label of {' '.join(opening)} begins with a slash: rename it")
        symbols += opening
        # Behind such a word, the symbol that closes the constituent would seem to close the tag.
        if position.inside and position.inside.label == position.tag and not position.closing:
            problem = f"{position.tag} is a constituent and the tag of a word in it"
            raise ValueError(f"{problem}, which the linear form cannot tell apart: rename one")
        symbols += [_CLOSE + constituent.label for constituent in position.closing]
    return " ".join(symbols)


def delinearise(line: str) -> Tree:
    """Returns the tree of a line of symbols, e.g. a model's output.

    S NP DT NN /NP VP VBZ /VP . /S has the tags DT NN VBZ . and the constituents S, of the words 0
    to 3, NP, of 0 and 1, and VP, of 2. A closing symbol closes the nearest open symbol of its label
    that has a symbol behind it. A symbol that is never closed is a tag. A blank line is a tree
    without words.

    Raises:
        ValueError: a closing symbol closes nothing.
    """
    names: list[str] = []  # Tags, and the labels of constituents.
    open_names: list[int] = []  # Indices in `names` of those that may still be closed.
    ends: dict[int, int] = {}  # By a label's index, the number of names before its closing symbol.
    for symbol in filter(None, line.split(" ")):
        if not _is_closing(symbol):
            open_names.append(len(names))
            names.append(symbol)
            continue
        label = symbol.removeprefix(_CLOSE)
        # Open names behind the label stay tags, and so does the last name: nothing is behind it.
        while open_names:
            index = open_names.pop()
            if names[index] == label and index < len(names) - 1:
                ends[index] = len(names)
                break
        else:  # No open name was closed.
            raise ValueError(f"{symbol} closes nothing; expected {label} before it")
    is_tag = [index not in ends for index in range(len(names))]
    # The number of words before each name, and before the end.
    before = [*accumulate(is_tag, initial=0)]
    spans = (Constituent(names[i], before[i], before[end]) for i, end in sorted(ends.items()))
    return Tree(tuple(compress(names, is_tag)), tuple(spans))


def words_of(line: str) -> tuple[str, ...]:
    """Splits a sentence at white space; round brackets become -LRB- and -RRB-, as in treebanks."""
    return tuple(_WORD.findall(line.replace("(", "-LRB-").replace(")", "-RRB-")))


def tree_of(words: tuple[str, ...], symbols: str) -> str:
    """Returns the bracketed tree of a sentence, from its words and a model's output.

    Returns `NO_TREE` if the symbols are not a linearised tree of as many words.
    """
    try:
        tree = delinearise(symbols)
    except ValueError:
        return NO_TREE
    # A model can also write brackets, tabs and line breaks as labels.
    fits = words and len(tree.tags) == len(words) and not set(symbols) & set("()\t\v\f\r\n")
    return bracketed(ParsedSentence(words, tree)) if fits else NO_TREE
