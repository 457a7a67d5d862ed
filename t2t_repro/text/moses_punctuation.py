"""Punctuation made plain, by the scripts of Moses as sacremoses has them; for a graph, as RE2 does.

Typographic quotes, dashes and spaces become those of a keyboard, the same whatever a text was typed
with. Either is a list of replacements, one after the other over the whole text:

    unicode     replace-unicode-punctuation.perl: punctuation and digits of other scripts. The text
                that OPUS-MT's models were trained with went through it
    moses:en    normalize-punctuation.perl: quotes, dashes, brackets, as a language has them;
                `MarianTokenizer.normalize`
"""

import functools
import sys
from collections.abc import Callable

UNICODE = "unicode"
MOSES = "moses:"


@functools.cache
def punctuation_normalizer(rules: str) -> Callable[[str], str]:
    """Returns what normalises a text, and takes white space off its ends.

    Args:
        rules: which, see the module; "en", "de", "es", "fr" and "cs" have rules of their own.
    """
    # Here, since importing it takes a while and few models need it.
    from sacremoses import MosesPunctNormalizer

    normalizer = MosesPunctNormalizer(rules.removeprefix(MOSES))
    if rules == UNICODE:
        return lambda text: normalizer.replace_unicode_punct(text).strip()
    normalize: Callable[[str], str] = normalizer.normalize
    return normalize


@functools.cache
def punctuation_rules(rules: str) -> tuple[tuple[str, str], ...]:
    r"""Returns the same as replacements for RE2: what is found, and what is put in its place.

    Args:
        rules: see `punctuation_normalizer`.
    """
    from sacremoses import MosesPunctNormalizer

    # Python and RE2 have other digits and spaces.
    classes = {r"\d": _class(str.isdecimal), r"\s": _class(str.isspace)}
    normalizer = MosesPunctNormalizer(rules.removeprefix(MOSES))
    is_unicode = rules == UNICODE
    found = normalizer.REPLACE_UNICODE_PUNCTUATION if is_unicode else normalizer.substitutions
    replacements = []
    for pattern, replacement in found:
        for name, characters in classes.items():
            pattern = pattern.replace(name, characters)
        replacement = replacement.replace(r"\g<1>", r"\1").replace(r"\g<2>", r"\2")
        replacements.append((pattern, replacement))
    return tuple(replacements)


def _class(is_in: Callable[[str], bool]) -> str:
    """The characters of a kind, in brackets, as ranges."""
    codes = {code for code in range(sys.maxunicode + 1) if is_in(chr(code))}
    firsts = (code for code in sorted(codes) if code - 1 not in codes)
    lasts = (code for code in sorted(codes) if code + 1 not in codes)
    return f"[{''.join(f'{chr(a)}-{chr(b)}' for a, b in zip(firsts, lasts, strict=True))}]"
