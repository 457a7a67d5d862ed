"""Penn-style bracketed trees: what a tree is, and reading and writing files of them.

( (S (NP-SBJ (DT The) (NN dog) )
     (VP (VBZ barks) )
     (. .) ))
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from absl import logging

from t2t_repro.data.line_files import read_lines
from t2t_repro.errors import UserError

# The outermost bracket is written in any of these ways, or without a label.
_ROOTS = ("TOP", "ROOT", "S1", "VROOT")
# Sentences have hundreds.
_MAX_BRACKETS = 100_000
_EMPTY_ELEMENT = "-NONE-"

# Spaces are ASCII's, as in EVALB: a no-break space may be part of a word.
SPACES = re.compile(r"\s+", re.ASCII)
_TOKEN = re.compile(r"[()]|[^()\s]+", re.ASCII)
_CATEGORY = re.compile(r"[^-=]+")


class Constituent(NamedTuple):
    """A labelled span.

    Attributes:
        label: its category, e.g. "NP".
        start: the first word it holds, counted from 0.
        end: the word after its last; more than `start`.
    """

    label: str
    start: int
    end: int


class Tree(NamedTuple):
    """A constituency tree without its words.

    Attributes:
        tags: the part-of-speech tag of every word.
        constituents: properly nested, and in the order in which their brackets open. The root,
            which says nothing, is not one of them.
    """

    tags: tuple[str, ...]
    constituents: tuple[Constituent, ...]


class ParsedSentence(NamedTuple):
    """A tree with its words, as many as the tree has tags."""

    words: tuple[str, ...]
    tree: Tree


class Position(NamedTuple):
    """What stands at one word of a tree.

    Attributes:
        opening: the constituents that begin with it, outermost first.
        tag: its own.
        closing: the constituents that end with it, innermost first.
        inside: the innermost constituent that holds it, or None.
    """

    opening: list[Constituent]
    tag: str
    closing: list[Constituent]
    inside: Constituent | None


def positions(tree: Tree) -> Iterator[Position]:
    """Walks over a tree, word by word."""
    waiting = list(reversed(tree.constituents))
    around: list[Constituent] = []
    for number, tag in enumerate(tree.tags):
        opening, closing = [], []
        while waiting and waiting[-1].start == number:
            opening.append(waiting.pop())
        around += opening
        inside = around[-1] if around else None
        while around and around[-1].end == number + 1:
            closing.append(around.pop())
        yield Position(opening, tag, closing, inside)


def bracketed(sentence: ParsedSentence) -> str:
    """Writes a tree on one line: (TOP (S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .)))."""
    parts = []
    for word, position in zip(sentence.words, positions(sentence.tree), strict=True):
        opening = "".join(f"({constituent.label} " for constituent in position.opening)
        parts.append(f"{opening}({position.tag} {word}){')' * len(position.closing)}")
    return f"(TOP {' '.join(parts)})"


def read_trees(path: Path) -> Iterator[tuple[int, ParsedSentence]]:
    """Reads a file of trees, each on one line or on several, plain or `.gz`.

    They are cleaned as is usual where parsers are trained and scored: empty elements (-NONE-) are
    taken out, with all constituents that hold nothing else; function tags and indices of
    constituents are cut off at the first "-" or "=" (NP-SBJ-1 and NP=2 become NP), as EVALB does
    before it compares. Tags are left as they are (-LRB-), and so are words and unary chains. A root
    without a label, or labelled TOP, ROOT, S1 or VROOT, is not part of the tree. A tree that has no
    words, which is how parsers write that they failed, is left out, with a warning.

    Yields:
        The line in which a tree begins, and the tree with its words.

    Raises:
        UserError: the file cannot be read, or what it holds is not such a tree; with the line.
    """
    reader = _Reader(str(path))
    for number, line in enumerate(read_lines(path), start=1):
        for token in _TOKEN.findall(line):
            complete = reader.take(token, number)
            if complete and complete[1].words:
                yield complete
            elif complete:
                logging.warning("%s, line %d: a tree without words is left out", path, complete[0])
    reader.end()


def check_brackets(path: Path) -> None:
    """Makes sure, in a small part of the time that reading takes, that all brackets are closed.

    Raises:
        UserError: they are not, or the file cannot be read; as from `read_trees`.
    """
    depth = 0
    for line in read_lines(path):
        depth += line.count("(") - line.count(")")
        if depth < 0:
            break
    if depth:
        for _ in read_trees(path):
            pass


@dataclass
class _Bracket:
    """A bracket that has not been closed."""

    line: int
    first_word: int
    place: int
    label: str = ""
    word: str | None = None
    has_brackets: bool = False


@dataclass
class _Reader:
    """Takes the tokens of a file one by one; knows the tree that has been begun."""

    path: str
    line: int = 0
    open: list[_Bracket] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    # A place for every bracket, in the order of opening; None for those that are no constituents.
    constituents: list[Constituent | None] = field(default_factory=list)

    def take(self, token: str, line: int) -> tuple[int, ParsedSentence] | None:
        """Returns the tree that the token completes, if it does, and where that begins."""
        self.line = line
        if token == "(":
            self._begin()
        elif token == ")":
            begun = self.open[0].line if self.open else 0
            sentence = self._close()
            return sentence and (begun, sentence)
        else:
            self._text(token)
        return None

    def end(self) -> None:
        """Raises a UserError if a tree is not complete."""
        if self.open:
            self.line = self.open[0].line
            raise self._error(
                f"the tree that begins here is never closed: it lacks {len(self.open)} closing "
                f"bracket{'s' * (len(self.open) > 1)} at the end of the file"
            )

    def _begin(self) -> None:
        if self.open:
            around = self.open[-1]
            if around.word is not None:
                raise self._error(f"a bracket opens behind the word {around.word!r}")
            if not around.label and len(self.open) > 1:
                raise self._error(f"a bracket inside a tree has no label{self._begun()}")
            around.has_brackets = True
        if len(self.constituents) >= _MAX_BRACKETS:
            raise self._error(f"a tree of more than {_MAX_BRACKETS:,} brackets{self._begun()}")
        self.open.append(_Bracket(self.line, len(self.words), len(self.constituents)))
        self.constituents.append(None)

    def _text(self, token: str) -> None:
        if not self.open:
            raise self._error(f"{token!r} stands outside of any bracket")
        around = self.open[-1]
        if around.has_brackets or around.label in _ROOTS:
            raise self._error(f"the word {token!r} has no part-of-speech tag of its own")
        if around.label and around.word is not None:
            raise self._error(f"two words in one bracket, {around.word!r} and {token!r}")
        if around.label:
            around.word = token
        elif token in _ROOTS and len(self.open) > 1:
            raise self._error(f"a root, {token}, inside of a tree{self._begun()}")
        else:
            around.label = token

    def _close(self) -> ParsedSentence | None:
        if not self.open:
            raise self._error("a bracket is closed that was never opened")
        bracket = self.open.pop()
        is_root = not self.open and bracket.label in ("", *_ROOTS)
        if bracket.word is not None:
            if bracket.label != _EMPTY_ELEMENT:
                self.tags.append(bracket.label)
                self.words.append(bracket.word)
        elif bracket.label and not (bracket.has_brackets or is_root):
            raise self._error(f"the bracket ({bracket.label}) holds nothing")
        elif not is_root and bracket.first_word < len(self.words):
            span = bracket.first_word, len(self.words)
            self.constituents[bracket.place] = Constituent(_category(bracket.label), *span)
        return None if self.open else self._complete()

    def _complete(self) -> ParsedSentence:
        constituents = tuple(filter(None, self.constituents))
        sentence = ParsedSentence(tuple(self.words), Tree(tuple(self.tags), constituents))
        self.words, self.tags, self.constituents = [], [], []
        return sentence

    def _begun(self) -> str:
        line = self.open[0].line
        return f"; is a closing bracket missing in the tree that begins in line {line}?"

    def _error(self, what: str) -> UserError:
        return UserError(
            f"{self.path}, line {self.line}: {what}; expected trees such as "
            "(S (NP (DT The) (NN dog)) (VP (VBZ barks)))"
        )


def _category(label: str) -> str:
    """A constituent's label without function tags and indices; -LRB- has none."""
    found = _CATEGORY.match(label)
    return found[0] if found else label
