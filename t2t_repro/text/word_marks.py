"""Word boundaries among subwords: SentencePiece marks them within its pieces."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

from sentencepiece.sentencepiece_model_pb2 import ModelProto

from t2t_repro.vocabulary import CONTINUES, EOS_ID, NO_WORD, PAD_ID, UNK_ID, text_ids

SPACE_MARK = "\u2581"
"""SentencePiece's character for a space."""


def marks_end(model: bytes) -> bool:
    """Returns whether a SentencePiece model marks the ends of words instead of their starts."""
    return bool(ModelProto.FromString(model).trainer_spec.treat_whitespace_as_suffix)


class WordMarks(NamedTuple):
    """The ids that carry the mark of a word boundary.

    Attributes:
        marked: for every id, whether it carries the mark.
        at_end: whether the mark ends a word; otherwise it starts one.
    """

    marked: list[bool]
    at_end: bool

    @classmethod
    def of(cls, pieces: Sequence[str], at_end: bool) -> "WordMarks":
        """Finds the mark at the end, or at the start, of each piece; pieces are sorted by id."""
        is_marked = str.endswith if at_end else str.startswith
        return cls([is_marked(piece, SPACE_MARK) for piece in pieces], at_end)

    def begins(self, tokens: Sequence[int]) -> list[bool]:
        """Returns for every id of a sentence whether a word begins there."""
        marked = [self.marked[token] for token in tokens]
        return [True, *marked][: len(marked)] if self.at_end else marked

    def numbers(self, ids: Sequence[int]) -> list[int]:
        """Numbers the words of a sentence as the model splits them.

        Args:
            ids: [length].

        Returns:
            For each id the number of its word, from 0; `NO_WORD` from the first EOS on.
        """
        numbers = [max(count - 1, 0) for count in accumulate(self.begins(text_ids(ids)))]
        return numbers + [NO_WORD] * (len(ids) - len(numbers))

    def numbers_in(
        self, line: str, ids: Sequence[int], encode: Callable[[Sequence[str]], list[list[int]]]
    ) -> list[int]:
        """Numbers the words of a line as white space splits them.

        The model may split them differently: its normalization may insert a space in a word
        ("don\u00b4t" becomes "don \u0301t") or remove the whole word. So every word is encoded
        alone, and the model's words in it are counted.

        Args:
            line: the text of `ids`.
            ids: [length].
            encode: returns the ids of texts.

        Returns:
            For each id the number of its word in `line.split()`, from 0; `NO_WORD` from the first
            EOS on.
        """
        counts = [max(self.numbers(word), default=NO_WORD) + 1 for word in encode(line.split())]
        ends = list(accumulate(counts))
        last = len(ends) - 1
        return [
            NO_WORD if number == NO_WORD else min(bisect_right(ends, number), last)
            for number in self.numbers(ids)
        ]


def label(token: int, piece: str, begins: bool) -> str:
    """Names a subword for a reader: with ## in front where it continues a word, EOS as <EOS>."""
    if token == EOS_ID:
        return "<EOS>"
    if token in (PAD_ID, UNK_ID) or piece == SPACE_MARK or piece.startswith("<0x"):
        return piece
    return ("" if begins else CONTINUES) + piece.strip(SPACE_MARK)
