"""Splits HTML into markup, which stays, and text to translate."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from html import escape, unescape
from itertools import accumulate, count, groupby

from t2t_repro.decoding.kept import KEPT
from t2t_repro.decoding.markup import EMPTY

# A part of a text, and what is to be translated of it: "" if it stays as it is.
Piece = tuple[str, str]

# Templates have marks of their own, in tags, too.
_TEMPLATE = r"\{[{%#][^{}]*+\}"
_PROGRAM = r"<%.*?(?:%>|\Z)|<\?(?:php\b|=).*?(?:\?>|\Z)"

# Unclosed markup reaches to the end, as in browsers.
_MARKUP = re.compile(rf"""(?isx)<!--(?:-?>|.*?(?:-->|\Z))
    |<(?P<raw>script|style)\b.*?(?:</(?P=raw)[^>]*(?:>|\Z)|\Z)
    |<(?P<end>/?)(?P<tag>[a-z][^\s/>]*)
      (?:=\s*(?:"[^"]*(?:"|\Z)|'[^']*(?:'|\Z))|{_TEMPLATE}|{_PROGRAM}|[^>])*+(?:>|\Z)
    |{_PROGRAM}|<[/!?][^>]*(?:>|\Z)""")

# Elements that are not sentences: programs, formulas, and text whose white space counts.
_KEPT = re.compile("pre|code|kbd|samp|var|math|textarea|xmp")

_INLINE = re.compile("a|abbr|b|bdi|big|del|em|font|i|ins|mark|q|s|small|span|strong|su[bp]|u|wbr")
_NO = r"""(?i)\s(?:translate\s*=\s*["']?(?:no|(yes))|class\s*=\s*["']?[^"'=>]*\bnotranslate)\b"""

# Where the first begins, the second ends without an end tag, which it may lack if it ends its like.
_ENDS = re.compile(r"""(?x)li>li|d[dt]>d[dt]|r[pt]>r[pt]|opt\w+>opt\w+|t[dh]>t[dh]|tr>t[dhr]
    |t(?:body|foot|head)>t(?:[dhr]|body|foot|head)|(?:article|aside|blockquote|d(?:etails|i[rv]|[dlt])
      |fieldset|fig(?:caption|ure)|footer|form|h\w+|li|main|menu|nav|[ou]l|p|pre|search|section
      |t(?:[dhr]|able|body|foot|head))>p""")


def split_html(html: str) -> Iterator[Piece]:
    """Splits HTML into pieces, which are the same HTML if joined.

    A piece of text may have inline tags in it. To translate are then their names and numbers, for
    `html_of`: `<b=0>` and `</b=1>`.

    It asks only where markup stands, so a regular expression is enough: broken HTML loses nothing,
    and the time is linear. Python's html.parser takes a minute for 50,000 characters such as
    "<a <a <a".

    Elements of `_KEPT`, and those with translate="no" or class="notranslate", stay; if they lack an
    end tag that they must have, to the end. What has translate="yes" in them does not. The parts of
    an address, a placeholder or an @name with tags in it stay, too.

    Args:
        html: any text. Of a piece of text, entities are translated as characters, and line breaks
            as blanks.
    """
    pieces = [*_elements(html)]
    starts = [*accumulate((len(shown) for _, shown in pieces), initial=0)]

    def mark_parts(match: re.Match[str]) -> str:
        is_whole = bisect_right(starts, match.start()) == bisect_left(starts, match.end())
        return match[0] if is_whole else "\0" * len(match[0])

    shown = "".join(shown for _, shown in pieces)
    # Entities other than &amp; end an address.
    shown = re.sub(r"&(?!amp;)#?\w+;", lambda match: '"' * len(match[0]), shown)
    shown = KEPT.sub(mark_parts, shown)
    placed = zip(pieces, starts, strict=False)
    for _, group in groupby(placed, lambda one: one[0][1] in ("", one[0][0])):
        run = [(piece, shown[start : start + len(text)]) for (piece, text), start in group]
        whole, texts = "".join(piece for piece, _ in run), [text for _, text in run if text.strip()]
        marked = _marked(whole) if len(texts) > 1 and "\0" not in "".join(texts) else ""
        for piece, text in [(whole, whole)] if marked else run:
            words = text.strip("\0 \t\n\f\r")
            lead = text.index(words)
            end = lead + len(words)
            yield piece[:lead], ""
            yield piece[lead:end], marked.strip(" ") or _text(piece[lead:end])
            yield piece[end:], ""


def _marked(html: str) -> str:
    """Returns the text of HTML, of inline tags their names and numbers; "" if they may be text."""
    n = count()
    text = _text(_MARKUP.sub(lambda tag: f"<{tag['end']}{tag['tag'].lower()}={next(n)}>", html))
    return text if text.count("<") == next(n) else ""


def _elements(html: str) -> Iterator[tuple[str, str]]:
    """Yields texts and markup, and what a reader sees of each: the text, nothing or a blank."""
    # The names of elements, from the first one that stays, and whether each one does.
    opened, stays, end = list[str](), [False], 0
    for match in _MARKUP.finditer(html):
        text = html[end : match.start()]
        yield text, " " if stays[len(opened)] else text
        tag = (match["tag"] or "").lower()
        yield match[0], "" if _INLINE.fullmatch(tag) else " "
        end = match.end()
        if not tag or match[0].endswith("/>") or EMPTY.fullmatch(tag):
            continue
        # Not all of them: time would grow with the square of the depth.
        if match["end"] and tag in (names := opened[:-51:-1]):
            del opened[-1 - names.index(tag) :]
        elif match["end"] and opened and tag != "p" and not _INLINE.fullmatch(tag):
            # Perhaps that of an element around the first one.
            opened = [] if _ENDS.fullmatch(f"{opened[0]}>{opened[0]}") else opened
        elif not match["end"]:
            while opened and _ENDS.fullmatch(f"{tag}>{opened[-1]}"):
                opened.pop()
            given = re.search(_NO, match[0])
            does = bool(_KEPT.fullmatch(tag)) or (not given[1] if given else stays[len(opened)])
            if opened or does:
                opened.append(tag)
                stays[len(opened) :] = [does]
    yield html[end:], " " if stays[len(opened)] else html[end:]


def html_of(text: str, piece: str = "") -> str:
    """Returns the HTML of a text, with the tags of its piece."""
    tags = [tag[0] for tag in _MARKUP.finditer(piece)]
    # XHTML has no names of characters.
    html = escape(text, quote=False).replace("\xa0", "&nbsp;" if "&nbsp;" in piece else "\xa0")
    for raw in re.findall(_TEMPLATE, piece):
        html = html.replace(escape(unescape(raw), quote=False), raw)
    return re.sub(r"&lt;/?\w+=(\d+)&gt;", lambda tag: tags[int(tag[1])], html) if tags else html


def _text(part: str) -> str:
    """Returns the text of HTML without tags; "" if it has no words, of which a model makes some."""
    # unescape has a ValueError for a number of over 4,300 digits; no character has over 7.
    text = unescape(re.sub("&#0*([0-9]{1,8})[0-9]*", r"&#\1", part))
    return re.sub(r"[ \t\n\f\r]+", " ", text) if any(map(str.isalpha, text)) else ""
