"""Splits lines into sentences by sentencex, with some rules that it lacks."""

import re
from collections.abc import Iterator

from sentencex import segment

from t2t_repro.decoding.kept import masked

# Emoji, arrows and the marks of directions, for a regular expression.
SYMBOLS = "\u200d-\u200f\u202a-\u202e\u2066-\u2069\ufe0f\u20e3\u2190-\u2bff\U0001f000-\U0001faff"

# Languages for which sentencex has rules: their codes of three letters and of two.
_PAIRS = """amh=am bul=bg cat=ca ces=cs dan=da deu=de ell=el fin=fi fra=fr hye=hy ita=it kaz=kk
nld=nl pol=pl por=pt rus=ru slk=sk spa=es tam=ta ukr=uk"""
_CODES = dict(pair.split("=") for pair in _PAIRS.split())

# The most characters given to sentencex: its time grows with the square of their number.
_CHARACTERS = 2000

# A sentence ends at white space, after the marks that belong to it, or at a stop of scripts
# without white space.
_STOP = "[।॥؟۔።။។。︒｡．！？﹒﹖﹗]"
_END = re.compile(
    rf"(?<=\s)\s*|(?:[\"'”’»›)\]}}*_{SYMBOLS}]|</[^<>]*>)*+(?:\s+|\Z)"
    rf"|(?<!\d．)(?:(?<={_STOP})|(?<={_STOP}[\"'”’」』）】》]))\s*"
)

# Short words after which a full stop ends no sentence: before numbers and brackets, before names,
# after the number of a list; numbers, letters and "d.w.z." before a small letter.
_NO_END = re.compile(
    r"\b(?=\S{1,6}\.\s)"
    r"((?i:abb|afb|al|a?pp?rox|art|blz|chap|ch|eds?|eqs?|figs?|kap|kl|max|min|n|no|nos|nº|nr|para|pp?"
    r"|p[aá]g|pkt|refs?|rys|str|s[eé]c|tab|tel|ust|vol|гл|рис|стр|табл)(?=\.\s[\d([X])"
    r"|(?:Av|D|Dña|Dr|Fa|Hl|Inż|M|Mgr|Mlle|Mme|Ms|Profa|S|Sra|Srta|St|Ste|dhr|dr|fam|geb|im|mgr"
    r"|[Mm]evr|[Mm]w|o\.a|Św|им|пл)(?=\.\s\w)"
    r"|(?<=\.-)(?:\w|Ing)(?=\.\s\w)|(?:(?m:^)|(?<=[.!?:]\s))\d\d?"
    r"|(?:\d+|\w|(?:\w{1,3}\.)+\w{1,3})(?=\.\s[a-zß-ÿа-яčďęěğłńňőřśşšťůűźżž]))\."
)
# "Der 5. Teil": nouns have a capital, and so have these words, which begin a sentence.
_GERMAN_ORDINAL = re.compile(
    r"((?<!\d)\d{1,3})\.(?=\s[A-ZÄÖÜ])(?!\s(?:D(?:er|ie|as|ann)|E[rs]|Sie|Ich|Wir|I[mn]|Am|Und)\b)"
)


def split(line: str, language: str) -> Iterator[tuple[str, str]]:
    """Yields each sentence of a line, and the white space after it; together they are the line.

    White space in front of the line comes first, after an empty sentence.

    Args:
        line: any text. If it has line breaks, it is split at these too.
        language: a code such as "de", "de-AT" or "deu"; unknown ones are split as English.
    """
    code = re.split("[-_]", language.lower())[0]
    start = len(line) - len(line.lstrip())
    if start:
        yield "", line[:start]
    # As long as the line, so positions are the same. No sentence ends in a kept part, so these are
    # masked. One may end before a closing tag, so these are blanks.
    shown = masked(re.sub(r"</[^<>]*>", lambda tag: " " * len(tag[0]), line))
    for boundary in _boundaries(shown, _CODES.get(code, code)):
        # A boundary where `_END` does not match ends no sentence.
        if boundary > start and (match := _END.match(line, boundary)):
            text = line[start : match.end()].rstrip()
            yield text, line[start + len(text) : match.end()]
            start = match.end()


def _boundaries(text: str, language: str) -> Iterator[int]:
    """Yields the positions where sentencex ends sentences, and those after line breaks.

    The language is a code of two letters, if there is one.
    """
    # A colon before a numbered list ends a sentence.
    text = re.sub(r":(?=\s\d\d?\.\s)", ".", text)
    # A comma in the place of a full stop ends no sentence, and leaves the positions as they are.
    # First a quick look: most lines have a full stop only at their end.
    if re.search(r"\.\s+\S", text):
        text = _NO_END.sub(r"\1,", text)
        text = _GERMAN_ORDINAL.sub(r"\1,", text) if language == "de" else text
    start = 0
    while start < len(text):
        newline = text.find("\n", start, start + _CHARACTERS)
        end = newline + 1 if newline >= 0 else start + _CHARACTERS
        # sentencex 1.0.32 panics if white space beyond ASCII stands between "A" and its full stop.
        lengths = [*map(len, segment(language, re.sub(r"[^\S ]", " ", text[start:end])))]
        # The last of several sentences may go on after `end`.
        if end < len(text) and newline < 0 and len(lengths) > 1:
            lengths.pop()
        for length in lengths:
            start += length
            yield start
