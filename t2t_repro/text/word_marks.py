"""Where words begin among subwords: SentencePiece writes a space as a mark inside of its pieces."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

from sentencepiece.sentencepiece_model_pb2 import ModelProto

from t2t_repro.text.word_ids import read_ids
from t2t_repro.vocabulary import CONTINUES, NO_WORD

SPACE_MARK = "\u2581"
"""As which SentencePiece writes a space (U+2581)."""


def marks_end(model: bytes) -> bool:
    """Whether a SentencePiece model marks where a word ends; else it marks where one starts."""
    return bool(ModelProto.FromString(model).trainer_spec.treat_whitespace_as_suffix)


class WordMarks(NamedTuple):
    """Which ids of a vocabulary bear the mark of a word.

    Attributes:
        marked: of every id, whether it does.
        at_end: whether the mark says that a word ends there; else that one starts.
    """

    marked: list[bool]
    at_end: bool

    @classmethod
    def of(cls, pieces: Sequence[str], at_end: bool) -> "WordMarks":
        """Looks for the mark at the end or at the start of all pieces, by their ids."""
        bears = str.endswith if at_end else str.startswith
        return cls([bears(piece, SPACE_MARK) for piece in pieces], at_end)

    def begins(self, tokens: Sequence[int]) -> list[bool]:
        """Returns of every id of a sentence whether a word begins there."""
        marked = [self.marked[token] for token in tokens]
        return [True, *marked][: len(marked)] if self.at_end else marked

    def numbers(self, ids: Sequence[int]) -> list[int]:
        """Numbers the words of a sentence of ids, as the model sees them.

        Args:
            ids: [length].

        Returns:
            The number, from 0, of each id's word; `NO_WORD` from the first EOS on.
        """
        numbers = [max(count - 1, 0) for count in accumulate(self.begins(read_ids(ids)))]
        return numbers + [NO_WORD] * (len(ids) - len(numbers))

    def numbers_in(
        self, line: str, ids: Sequence[int], encode: Callable[[Sequence[str]], list[list[int]]]
    ) -> list[int]:
        """Numbers the words of a line, of which the model may see others.

        A model's rule may put a space in a word, or leave nothing of it: "don\u00b4t" becomes
        "don \u0301t". So each word says how many the model sees in it.

        Args:
            line: what `ids` were made of.
            ids: [length].
            encode: gives the ids of texts.

        Returns:
            The number, from 0, of each id's word in `line.split()`; `NO_WORD` from the first EOS
            on.
        """
        seen = [max(self.numbers(of_word), default=NO_WORD) + 1 for of_word in encode(line.split())]
        ends = list(accumulate(seen))
        last = len(ends) - 1
        return [
            NO_WORD if number == NO_WORD else min(bisect_right(ends, number), last)
            for number in self.numbers(ids)
        ]


def label(piece: str, begins: bool) -> str:
    """Names a piece for a reader: plain where a word begins, behind ## where one goes on."""
    return ("" if begins else CONTINUES) + piece.strip(SPACE_MARK)
