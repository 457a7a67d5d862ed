"""Codes of languages: those of clients, of models' tags, and of `--direction`."""

import re
from collections import Counter
from collections.abc import Collection

from babel.core import get_global

CODE = r"[a-z]{2,3}(?:_\w+|-[A-Z]\w*|-[a-z]{4}|-[0-9]{3})*"
"""A code such as en, pt-BR, zh-Hans or es-419. After a hyphen, a region is in capitals."""

_ALIASES = {"pb": "pt-BR", "zt": "zh-Hant", "no": "nb", "nor": "nb"}
"""LibreTranslate's own codes, and Norwegian, which is Bokmål unless it is said to be Nynorsk."""


def find_code(asked: str, codes: Collection[str]) -> str:
    """Returns the code that means the same language as `asked`.

    Without one, returns `asked`. "PT_br" means pt-BR. If nothing else is served, "pt" means it too,
    as most of it is written there, and en-GB means en.
    """
    forms = (str, standard_code, _shortest_code)
    same = (code for form in forms for code in codes if form(code) == form(asked))
    language = re.sub("-([A-Z]{2}|[0-9]{3})$", "", _shortest_code(asked))
    return next(same, language if language in codes else asked)


def standard_code(label: str) -> str:
    """Returns the code that clients use for a language: de for deu, zh-CN for zh_cn."""
    language, *others = label.lower().replace("_", "-").split("-")
    standard = _ALIASES.get(language) or get_global("language_aliases").get(language, language)
    cased = (part.title() if len(part) == 4 else part.upper() for part in others)
    return "-".join([standard.replace("_", "-"), *cased])


def usual_codes(codes: Collection[str]) -> dict[str, str]:
    """Shortens the codes of a model's languages to those that clients use.

    A script is left out where the model has the language in no other one: "sr" is sr-Cyrl or
    sr-Latn, whichever it has. Both scripts of Chinese are always said.

    Args:
        codes: of all the model's languages, as `standard_code` writes them.

    Returns:
        the short code, by the full one.
    """
    short = {full: re.sub("-(?!Han[st])[A-Z][a-z]{3}$", "", full) for full in codes}
    counts = Counter(short.values())
    return {full: code if counts[code] == 1 else full for full, code in short.items()}


def is_language(code: str) -> bool:
    """Returns whether the language of a code is known."""
    return standard_code(code).partition("-")[0] in get_global("likely_subtags")


def _shortest_code(label: str) -> str:
    """Returns a code without its likely script and region: pt for pt-BR, zh-Hant-TW for zh-TW."""
    likely, code = get_global("likely_subtags"), standard_code(label).replace("-", "_")
    language, *others = likely.get(code, code).split("_")
    usual = likely.get(language, "").split("_")
    return "-".join([language, *(part for part in others if part not in usual)])
