"""Characters that no subword model reads or writes."""

INVISIBLE = "\u00ad\u200b\u2060\ufeff"
"""They only say where a line may break, and would spell a word anew.

The joiners U+200C and U+200D are not among them: they change letters and emoji.
"""

WITHOUT_INVISIBLE = str.maketrans("", "", INVISIBLE)
"""For `str.translate`."""


def visible(line: str) -> str:
    """Removes invisible characters, and then white space at the ends."""
    shorter = line.translate(WITHOUT_INVISIBLE)
    return shorter.strip() if shorter != line else line


def readable(text: str) -> str:
    """Removes U+FFFD, which stands for bytes of no character, and words of nothing else."""
    words = [word for word in text.split(" ") if not word or word.strip("\ufffd")]
    return " ".join(words).replace("\ufffd", "")
