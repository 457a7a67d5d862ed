"""Codes of languages: those of clients, of models' tags, and of `--direction`."""

from collections.abc import Iterable

CODE = r"[a-z]{2,3}(?:_\w+|-[A-Z]\w*|-[a-z]{4}|-[0-9]{3})*"
"""A code such as en, pt-BR, zh-Hans or es-419. After a hyphen, a region is in capitals."""

_ALIASES = {"pb": "pt-BR", "zt": "zh-Hant", "no": "nb"}
"""LibreTranslate's own codes, and Norwegian, which is Bokmål unless it is said to be Nynorsk."""


def find_code(asked: str, codes: Iterable[str]) -> str:
    """Returns the one of `codes` that means the same language as `asked`, else `asked`.

    "PT_br" means pt-BR. If nothing else is served, so does "pt", as most of it is written there.
    """
    forms = (str, standard_code, _full_code)
    same = (code for form in forms for code in codes if form(code) == form(asked))
    return next(same, asked)


def standard_code(label: str) -> str:
    """Returns the code that clients use for a language: de for deu, zh-CN for zh_cn."""
    from babel.core import get_global

    language, *others = label.lower().replace("_", "-").split("-")
    standard = _ALIASES.get(language) or get_global("language_aliases").get(language, language)
    cased = (part.title() if len(part) == 4 else part.upper() for part in others)
    return "-".join([standard.replace("_", "-"), *cased])


def is_language(code: str) -> bool:
    """Tells whether the language of a code is a known one."""
    return "--" not in _full_code(code)


def _full_code(label: str) -> str:
    """Returns a language, its script and its region, the likely ones by default: zh-Hans-CN."""
    from babel.core import get_global

    language, *others = standard_code(label).split("-")
    likely = get_global("likely_subtags")
    full = likely.get("_".join([language, *others])) or likely.get(language, "__")
    parts = [*others, *full.split("_")[1:]]
    script = next((part for part in parts if len(part) == 4), "")
    region = next((part for part in parts if 1 < len(part) < 4), "")
    return f"{language}-{script}-{region}"
