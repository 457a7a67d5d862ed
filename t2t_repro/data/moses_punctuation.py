"""Moses's normalize-punctuation.perl, as sacremoses applies it: for a graph, as RE2 has it.

Typographic quotes, dashes and spaces become those of a keyboard, the same whatever a text was typed
with. It is a list of replacements, one after the other over the whole text.
"""

import functools
import sys
from collections.abc import Callable


@functools.cache
def punctuation_normalizer(language: str) -> Callable[[str], str]:
    """Returns what normalises a text, and takes white space off its ends.

    Args:
        language: a code; "en", "de", "es", "fr" and "cs" have rules of their own.
    """
    # Here, since importing it takes a while and few models need it.
    from sacremoses import MosesPunctNormalizer

    normalize: Callable[[str], str] = MosesPunctNormalizer(language).normalize
    return normalize


@functools.cache
def punctuation_rules(language: str) -> tuple[tuple[str, str], ...]:
    r"""Returns the same as replacements for RE2: what is found, and what is put in its place.

    Args:
        language: see `punctuation_normalizer`.
    """
    from sacremoses import MosesPunctNormalizer

    # Python and RE2 have other digits and spaces.
    classes = {r"\d": _class(str.isdecimal), r"\s": _class(str.isspace)}
    rules = []
    for pattern, replacement in MosesPunctNormalizer(language).substitutions:
        for name, characters in classes.items():
            pattern = pattern.replace(name, characters)
        rules.append((pattern, replacement.replace(r"\g<1>", r"\1").replace(r"\g<2>", r"\2")))
    return tuple(rules)


def _class(is_in: Callable[[str], bool]) -> str:
    """The characters of a kind, in brackets, as ranges."""
    codes = {code for code in range(sys.maxunicode + 1) if is_in(chr(code))}
    firsts = (code for code in sorted(codes) if code - 1 not in codes)
    lasts = (code for code in sorted(codes) if code + 1 not in codes)
    return f"[{''.join(f'{chr(a)}-{chr(b)}' for a, b in zip(firsts, lasts, strict=True))}]"
