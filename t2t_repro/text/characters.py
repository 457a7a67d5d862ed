"""Characters that no subword model reads or writes."""

import re

INVISIBLE = "\u00ad\u034f\u061c\u200b\u200e\u200f\u2060\ufeff"
"""They only say where a line may break or which way it runs, and would spell a word otherwise.

The joiners U+200C and U+200D are not among them: they change letters and emoji.
"""

WITHOUT_INVISIBLE = str.maketrans("", "", INVISIBLE)
"""For `str.translate`."""

_ANY = re.compile(f"[{INVISIBLE}]")


def without_invisible(line: str) -> str:
    """Removes invisible characters."""
    # Few lines have any, and translating a line takes eight times as long as searching it.
    return line.translate(WITHOUT_INVISIBLE) if _ANY.search(line) else line


def visible(line: str) -> str:
    """Removes invisible characters; if there are any, also white space at the ends."""
    shorter = without_invisible(line)
    return shorter.strip() if shorter != line else line


def readable(text: str) -> str:
    """Removes U+FFFD, which stands for bytes of no character, and words of nothing else."""
    words = [word for word in text.split(" ") if not word or word.strip("\ufffd")]
    return " ".join(words).replace("\ufffd", "")
