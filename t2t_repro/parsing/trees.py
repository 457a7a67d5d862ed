"""Penn-style bracketed trees: reads and writes them.

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

# Labels of the outermost bracket, which may also have none.
_ROOTS = ("TOP", "ROOT", "S1", "VROOT")
_EMPTY_ELEMENT = "-NONE-"

# ASCII's, as in EVALB: a no-break space may be part of a word.
SPACES = re.compile(r"\s+", re.ASCII)
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


class Position(NamedTuple):
    """One word of a tree, and the constituents around it.

    Attributes:
        opening: the constituents that begin with the word, outermost first.
        tag: of the word.
        closing: the constituents that end with the word, innermost first.
        inside: the innermost constituent with the word, or None.
    """

    opening: list[Constituent]
    tag: str
    closing: list[Constituent]
    inside: Constituent | None


def positions(tree: Tree) -> Iterator[Position]:
    """Yields the positions of a tree, word by word."""
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
    """Returns a tree on one line: (TOP (S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .)))."""
    parts = []
    for word, position in zip(sentence.words, positions(sentence.tree), strict=True):
        opening = "".join(f"({constituent.label} " for constituent in position.opening)
        parts.append(f"{opening}({position.tag} {word}){')' * len(position.closing)}")
    return f"(TOP {' '.join(parts)})"


def read_trees(path: Path) -> Iterator[tuple[int, ParsedSentence]]:
    """Reads a file of trees, each on one or several lines, plain or `.gz`.

    Trees are cleaned as is usual for parsers. Empty elements (-NONE-) are deleted, and constituents
    that hold nothing else. Labels of constituents end at the first "-" or "=" (NP-SBJ-1 and NP=2
    become NP), as in EVALB. A root without a label, or labelled TOP, ROOT, S1 or VROOT, is not part
    of the tree. A tree without words, the output of a failed parser, is left out with a warning.

    Yields:
        the line in which a tree begins, and the tree with its words.

    Raises:
        UserError: the file cannot be read, or holds something else; the message has the line.
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


@dataclass
class _Bracket:
    """An open bracket."""

    line: int
    first_word: int
    place: int
    label: str = ""
    word: str | None = None
    has_brackets: bool = False


@dataclass
class _Reader:
    """Reads the tokens of a file; holds the unfinished tree."""

    path: str
    line: int = 0
    open: list[_Bracket] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    # One entry for each bracket, in the order of opening; None if it is not a constituent.
    constituents: list[Constituent | None] = field(default_factory=list)

    def take(self, token: str, line: int) -> tuple[int, ParsedSentence] | None:
        """Returns the tree that the token completes, if any, and the line in which it begins."""
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
    """Returns a label without function tags and indices; -LRB- has none."""
    found = _CATEGORY.match(label)
    return found[0] if found else label
