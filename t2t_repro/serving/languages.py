"""Compares the language codes of clients, of models' tags, and of `--direction`."""

import re
from collections import Counter
from collections.abc import Collection

from babel.core import get_global

CODE = r"[a-z]{2,3}(?:_\w+|-[A-Z]\w*|-[a-z]{4}|-[0-9]{3})*"
"""A code such as en, pt-BR, zh-Hans or es-419. After a hyphen, a region is in capitals."""

# LibreTranslate's own codes; and Norwegian, which means Bokmål unless the code is Nynorsk's.
_ALIASES = {"pb": "pt-BR", "zt": "zh-Hant", "no": "nb", "nor": "nb"}

_REGION = re.compile("-([A-Z]{2}|[0-9]{3})$")


def find_code(asked: str, codes: Collection[str]) -> str:
    """Returns the one of `codes` that means the same language as `asked`; without one, `asked`.

    "PT_br" means pt-BR. So does "pt", if `codes` have no "pt", since most Portuguese is Brazil's.
    "en-GB" means en, if `codes` have no "en-GB"; "en" means en-GB, if that is their only English.
    With two of them, as en-GB and en-AU, "en" is returned, which none of `codes` is.
    """
    # From the strictest comparison to the loosest; `str` compares the codes as they are.
    for form in (str, standard_code, _normal_code):
        wanted = form(asked)
        for code in codes:
            if form(code) == wanted:
                return code
    if (without_region := _REGION.sub("", _normal_code(asked))) in codes:
        return without_region
    # A variant differs by its region alone: zh is not zh-Hant, nor zh-TW, which is zh-Hant-TW.
    base = standard_code(asked)
    variants = {code for code in codes if _REGION.fullmatch(_normal_code(code).removeprefix(base))}
    # With several, nobody knows which is meant.
    return variants.pop() if len(variants) == 1 else asked


def standard_code(label: str) -> str:
    """Returns the code that clients use for a language: de for deu, zh-CN for zh_cn.

    An unknown language stays as it is, in lower case.
    """
    language, *subtags = label.lower().replace("_", "-").split("-")
    standard = _ALIASES.get(language) or get_global("language_aliases").get(language, language)
    # A script has four letters (Hans); a region two letters (CN) or three digits.
    cased = (subtag.title() if len(subtag) == 4 else subtag.upper() for subtag in subtags)
    return "-".join([standard.replace("_", "-"), *cased])


def usual_codes(codes: Collection[str]) -> dict[str, str]:
    """Returns the codes that clients use for a model's languages, by their full codes.

    A script is left out if the model has the language in no other one: {"sr-Cyrl": "sr"}. Chinese
    codes keep their script. `codes` are full, and all are as `standard_code` writes them.
    """
    # Hans and Hant are the scripts of Chinese.
    short = {full: re.sub("-(?!Han[st])[A-Z][a-z]{3}$", "", full) for full in codes}
    counts = Counter(short.values())
    return {full: code if counts[code] == 1 else full for full, code in short.items()}


def is_language(code: str) -> bool:
    """Returns whether Unicode's CLDR has the language of a code, whatever its script and region."""
    return standard_code(code).partition("-")[0] in get_global("likely_subtags")


def _normal_code(label: str) -> str:
    """Returns a code that is equal for equal languages: pt for pt, pt-BR and pt-Latn.

    CLDR's likely script and region of the code are added, such as Hant in zh-TW (Taiwan). Then
    those that are likely for the language alone are left out: zh-TW and zh-Hant are zh-Hant-TW.
    """
    # Such as {"pt": "pt_Latn_BR", "zh_TW": "zh_Hant_TW"}.
    likely = get_global("likely_subtags")
    code = standard_code(label).replace("-", "_")
    language, *subtags = likely.get(code, code).split("_")
    left_out = likely.get(language, "").split("_")
    return "-".join([language, *(subtag for subtag in subtags if subtag not in left_out)])
