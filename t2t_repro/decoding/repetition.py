"""Translations that cycle, such as "salad salad salad"."""

import re

# Characters of scripts without blanks between words.
SIGN = r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\uff01-\uff9f]"

# Punctuation but commas, a sign, or a word; "anak-anak" is one.
_WORD = re.compile(rf"[^\w\s,]|{SIGN}|(?:(?!{SIGN})\w)+(?:-(?:(?!{SIGN})\w)+)?")
# A run of words that is repeated at once; each word has a blank after it.
_REPEATED = re.compile(r"(?<!\S)((?:\S++ ){1,12}?)\1+")


def without_cycles(text: str, source: str) -> str:
    """Returns `text`, a translation of `source`, with each cycle cut down to its first repetition.

    "A salad salad salad." becomes "A salad." A cycle is words that are repeated at once, more often
    than any in the source. At least three repetitions, with six letters or more in all, are a
    cycle. So are two of six letters or more each, without punctuation, if each has several words or
    if they are the whole text.
    """
    # Repetitions inside a word count, too: "hahaha" becomes "ha ha ha".
    divided = re.sub(r"(\w{2,8}?)(?=\1)|\W+", r"\1 ", source.casefold()) + " "
    in_source = max((len(run[0]) // len(run[1]) for run in _REPEATED.finditer(divided)), default=1)
    words = [*_WORD.finditer(text)]
    normalized = "".join(f"{word[0].casefold()} " for word in words)
    for run in _REPEATED.finditer(normalized):
        repetitions, unit = len(run[0]) // len(run[1]), run[1].split()
        letters = sum(map(str.isalpha, run[0]))
        is_whole_text = run[0].strip() == normalized.strip(" .!?")
        is_long = letters >= 12 and all(map(str.isalpha, unit))
        is_double = is_long and (len(unit) > 1 or is_whole_text)
        if repetitions > in_source and (is_double or (repetitions > 2 and letters >= 6)):
            # Each word has one blank after it: blanks count the words up to an end.
            first, last = (normalized.count(" ", 0, end) - 1 for end in (run.end(1), run.end()))
            return without_cycles(text[: words[first].end()] + text[words[last].end() :], source)
    return text
