"""Splits lines into sentences by sentencex, with some rules that it lacks."""

import re
from collections.abc import Iterator

from sentencex import segment

from t2t_repro.decoding.kept import masked

# Emoji, arrows and the marks of directions, for a regular expression.
SYMBOLS = "\u200d-\u200f\u202a-\u202e\u2066-\u2069\ufe0f\u20e3\u2190-\u2bff\U0001f000-\U0001faff"

# Codes of three letters, of languages for which sentencex has rules, and those of two.
_PAIRS = (
    "bul=bg cat=ca ces=cs cze=cs dan=da deu=de ger=de ell=el gre=el spa=es fin=fi fra=fr fre=fr "
    "ita=it nld=nl dut=nl pol=pl por=pt rus=ru slk=sk ukr=uk hye=hy kaz=kk tam=ta amh=am"
)
_CODES = dict(pair.split("=") for pair in _PAIRS.split())

# sentencex's time grows with the square of a text's sentences.
_CHARACTERS = 2000

# A sentence ends at white space, after the marks that belong to it, or at a stop of scripts
# without white space.
_END = re.compile(
    rf"(?<=\s)\s*|(?:[\"'”’»›)\]}}*_{SYMBOLS}]|</[^<>]*>)*+(?:\s+|\Z)"
    r"|(?:(?<=[।॥؟۔։።။។。︒｡．！？﹒﹖﹗])|(?<=[।॥؟۔։።။។。︒｡．！？﹒﹖﹗][\"'”’」』）】》]))\s*"
)

# Stops that end no sentence: before numbers and brackets, before names, of "1. Milk", before small
# letters. A colon before a list ends one.
_NO_STOP = re.compile(
    r"\.(?=\s[\d([])(?i:(?<=\b[pn]\.)|(?<=\b(?:al|ch|ed|eq|no|nº|nr|pp)\.)"
    r"|(?<=\b(?:vol|eds|eqs|nos|pag|pág|str)\.)|(?<=\bchap\.)|(?<=\bapprox\.))"
    r"|\.(?=\s\w)(?:(?<=\b[DMS]\.)|(?<=\b(?:Av|Dr|St|dr|im|mw)\.)|(?<=\b(?:mevr|Mlle|Srta)\.)"
    r"|(?<=\b(?:Dña|Mme|Sra|dhr|geb|o\.a)\.)|(?<=\bProfa\.)|(?<=\.-\w\.)|(?<=\.-Ing\.))"
    r"|\.(?=\s)(?:(?<=^\d\.)|(?<=^\d\d\.)|(?<=[.!?:]\s\d\.)|(?<=[.!?:]\s\d\d\.))"
    r"|\.(?<=\d\.)(?=\s[a-zß-ÿа-я])|:(?=\s\d{1,2}\.\s)"
)
# "Der 5. Teil": nouns have a capital, and so have these words, which begin a sentence.
_ORDINAL = re.compile(
    r"\.(?<=\d\.)(?<!\d{4}\.)(?=\s[A-ZÄÖÜ])"
    r"(?!\s(?:D(?:er|ie|as|ann|anach|och)|E[rs]|Sie|Ich|Wir|Ihr|Ein|I[mn]|Am|Und|Aber|Auch|So)\b)"
)


def split(line: str, language: str) -> Iterator[tuple[str, str]]:
    """Splits a line into sentences; joined with the white space after each, they are the line.

    Args:
        line: any text. If it has line breaks, it is split at these too.
        language: a code such as "de", "de-AT" or "deu"; unknown ones are split as English.
    """
    code = language.lower().replace("_", "-").split("-")[0]
    for part in re.split(r"(?<=\n)", line):
        start = len(part) - len(part.lstrip())
        yield from [("", part[:start])] * bool(start)
        for place in _boundaries(part, _CODES.get(code, code)):
            found = _END.match(part, place)
            if found and found.end() > start:
                text = part[start : found.end()].rstrip()
                yield text, part[start + len(text) : found.end()]
                start = found.end()


def _boundaries(text: str, language: str) -> Iterator[int]:
    """Yields where sentencex ends sentences; it does not see what is kept."""
    # sentencex 1.0.32 panics at "A." with white space beyond ASCII between the two.
    text = re.sub(r"\s", " ", masked(text))
    text = _NO_STOP.sub(lambda found: "." if found[0] == ":" else ",", text)
    text = _ORDINAL.sub(",", text) if language == "de" else text
    start, size = 0, _CHARACTERS
    while start < len(text):
        lengths = [*map(len, segment(language, text[start : start + size]))]
        # The last sentence of a window may go on.
        lengths = lengths if start + size >= len(text) else lengths[:-1]
        size = _CHARACTERS if lengths else 2 * size
        for length in lengths:
            start += length
            yield start
