"""The special ids, the same in all vocabularies; there is no start symbol."""

from collections.abc import Iterable
from itertools import takewhile

PAD_ID = 0
EOS_ID = 1
UNK_ID = 2

CONTINUES = "##"
"""Prefix of a subword that continues a word, where subwords are shown to a reader."""

NO_WORD = -1
"""The word number of EOS and PAD, which belong to no word."""

SPACE_MARK = "\u2581"
"""SentencePiece's character for a space."""


def text_ids(ids: Iterable[int]) -> list[int]:
    """Returns the ids of a sentence before its first EOS, without PAD."""
    before_end = takewhile(lambda token: token != EOS_ID, map(int, ids))
    return [token for token in before_end if token != PAD_ID]
