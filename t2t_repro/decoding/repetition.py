"""Translations that cycle, such as "salad salad salad"."""

import re

SIGN = r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\uff01-\uff9f]"
"""Of scripts without blanks between words."""

# Punctuation but commas, a sign, or a word; "anak-anak" is one.
_WORD = re.compile(rf"[^\w\s,]|{SIGN}|(?:(?!{SIGN})\w)+(?:-(?:(?!{SIGN})\w)+)?")
# A run of words that is repeated at once; each word has a blank after it.
_REPEATED = re.compile(r"(?<!\S)((?:\S++ ){1,12}?)\1+")


def without_cycles(text: str, source: str) -> str:
    """Keeps one of the repetitions of a translation.

    A translation that repeats itself no more than its source does stays as it is. Three repetitions
    with six letters in all are a cycle. So are two of six letters each without punctuation, if they
    have several words or are the whole text.
    """
    # "hahaha" is "ha ha ha".
    divided = re.sub(r"(\w{2,8}?)(?=\1)|\W+", r"\1 ", source.casefold()) + " "
    most = max((len(one[0]) // len(one[1]) for one in _REPEATED.finditer(divided)), default=1)
    words = [*_WORD.finditer(text)]
    shown = "".join(f"{word[0].casefold()} " for word in words)
    for cycle in _REPEATED.finditer(shown):
        repeats, unit = len(cycle[0]) // len(cycle[1]), cycle[1].split()
        letters = sum(map(str.isalpha, cycle[0]))
        is_double = len(unit) > 1 or cycle[0].strip() == shown.strip(" .!?")
        is_double = is_double and letters >= 12 and all(map(str.isalpha, unit))
        if repeats > most and (is_double or (repeats > 2 and letters >= 6)):
            first, last = (shown.count(" ", 0, end) - 1 for end in (cycle.end(1), cycle.end()))
            return without_cycles(text[: words[first].end()] + text[words[last].end() :], source)
    return text
