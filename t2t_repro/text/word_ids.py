"""The ids of words, remembered: a corpus has few words, many times each."""

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

import numpy as np

from t2t_repro.vocabulary import EOS_ID, PAD_ID

_EOS = np.int32(EOS_ID).tobytes()

# Some 200 bytes each, so 100 megabytes at most.
_MOST_WORDS = 500_000

# A longer word rarely comes again; and where a language writes without spaces, a line is a word.
_LONGEST_WORD = 64


class WordIds(dict[str, bytes]):
    """The ids of words, int32 one after the other; made when first asked for.

    Args:
        encode: gives the ids of one word.
    """

    def __init__(self, encode: Callable[[str], Sequence[int]]) -> None:
        self._encode = encode

    def of_line(self, words: Iterable[str]) -> bytes:
        """The ids of a line of words, EOS last."""
        return b"".join(map(self.__getitem__, words)) + _EOS

    def __missing__(self, word: str) -> bytes:
        ids = np.array(self._encode(word), dtype=np.int32).tobytes()
        if len(word) <= _LONGEST_WORD:
            if len(self) >= _MOST_WORDS:
                self.clear()  # What is frequent is soon back.
            self[word] = ids
        return ids


def read_ids(ids: Iterable[int]) -> list[int]:
    """The ids of a sentence that are text: those before the first EOS, without PAD."""
    before_end = takewhile(lambda token: token != EOS_ID, map(int, ids))
    return [token for token in before_end if token != PAD_ID]
