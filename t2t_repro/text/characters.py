"""Characters that no subword model reads or writes."""

import re

# The joiners U+200C and U+200D are not among them: they change letters and emoji.
INVISIBLE = "\u00ad\u034f\u061c\u200b\u200e\u200f\u2060\ufeff"
"""They only control line breaks and the direction of text, and would change a word's subwords."""

# A table for `str.translate`.
WITHOUT_INVISIBLE = str.maketrans("", "", INVISIBLE)

_ANY = re.compile(f"[{INVISIBLE}]")


def without_invisible(line: str) -> str:
    """Removes the characters of `INVISIBLE`."""
    # Few lines have any, and translating a line takes eight times as long as searching it.
    return line.translate(WITHOUT_INVISIBLE) if _ANY.search(line) else line


def visible(line: str) -> str:
    """Removes invisible characters; if there are any, also white space at the ends.

    A line that was stripped before may have had such space behind them.
    """
    shorter = without_invisible(line)
    return shorter.strip() if shorter != line else line


def readable(text: str) -> str:
    """Removes U+FFFD, which stands for bytes of no character, and words of nothing else."""
    # Empty words stay: they keep repeated spaces.
    words = [word for word in text.split(" ") if not word or word.strip("\ufffd")]
    return " ".join(words).replace("\ufffd", "")
