"""The ids of words, remembered: a corpus has few words, many times each."""

from collections.abc import Callable, Sequence

import numpy as np

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

    def __missing__(self, word: str) -> bytes:
        ids = np.array(self._encode(word), dtype=np.int32).tobytes()
        if len(word) <= _LONGEST_WORD:
            if len(self) >= _MOST_WORDS:
                self.clear()  # What is frequent is soon back.
            self[word] = ids
        return ids
