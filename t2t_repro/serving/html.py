"""Splits HTML into markup, which stays, and text to translate."""

import re
from collections.abc import Iterator
from html import escape, unescape

Piece = tuple[str, str]
"""A part of a text, and what is to be translated of it: "" if it stays as it is."""

_MARKUP = re.compile(
    r"""<!--(?:-?>|.*?(?:-->|\Z))
    |<(?P<raw>script|style)\b.*?(?:</(?P=raw)[^>]*(?:>|\Z)|\Z)
    |<(?P<end>/?)(?P<tag>[a-z][^\s/>]*)
      (?:=\s*(?:"[^"]*(?:"|\Z)|'[^']*(?:'|\Z))|[^>])*+(?:>|\Z)
    |<[/!?][^>]*(?:>|\Z)""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
"""Unclosed markup reaches to the end, as in browsers."""

_KEPT = re.compile("pre|code|kbd|samp|var|math")
"""Elements that are not sentences: programs, formulas, and text whose white space counts."""

_EMPTY = re.compile("area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr")
_NO = re.compile(r"""\stranslate\s*=\s*["']?no\b""", re.IGNORECASE)
_BLANK = re.compile(r"(?:\s|&nbsp;|&#160;|&#x[aA]0;)+")


def split_html(html: str) -> Iterator[Piece]:
    """Splits HTML into pieces, which are the same HTML if joined.

    It asks only where markup stands, so a regular expression is enough: broken HTML loses nothing,
    and the time is linear. Python's html.parser takes a minute for 50,000 characters such as
    "<a <a <a".

    Elements of `_KEPT`, and those with translate="no", stay; if they are not closed, to the end.

    Args:
        html: any text. Of a piece of text, entities are translated as characters, and line breaks
            as blanks.
    """
    kept, depth, end = "", 0, 0
    for found in _MARKUP.finditer(html):
        text = html[end : found.start()]
        yield from [(text, "")] if kept else _trim(text)
        yield found[0], ""
        end = found.end()
        tag, is_end = (found["tag"] or "").lower(), bool(found["end"])
        if not tag or found[0].endswith("/>") or _EMPTY.fullmatch(tag):
            continue
        if not kept and not is_end and (_KEPT.fullmatch(tag) or _NO.search(found[0])):
            kept = tag
        if tag == kept:
            depth += -1 if is_end else 1
            kept = tag if depth else ""
    yield from [(html[end:], "")] if kept else _trim(html[end:])


def html_of(text: str) -> str:
    """Returns the HTML that stands for a text."""
    return escape(text, quote=False).replace("\xa0", "&nbsp;")


def _trim(part: str) -> Iterator[Piece]:
    """Separates white space at the ends of a text."""
    blanks = [found.span() for found in _BLANK.finditer(part)]
    start = blanks[0][1] if blanks and blanks[0][0] == 0 else 0
    stop = max(start, blanks[-1][0] if blanks and blanks[-1][1] == len(part) else len(part))
    text = re.sub(r"[ \t\n\f\r]+", " ", unescape(part[start:stop]))
    # A model may make words of punctuation and numbers that stand alone.
    is_text = any(map(str.isalpha, text))
    yield from ((part[:start], ""), (part[start:stop], text if is_text else ""), (part[stop:], ""))
