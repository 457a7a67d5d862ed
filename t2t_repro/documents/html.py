"""Splits HTML into markup, which stays, and text to translate."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from html import escape, unescape
from itertools import accumulate, count, groupby

from t2t_repro.decoding.kept import KEPT
from t2t_repro.decoding.markup import EMPTY

# A part of a document, and its text to translate: "" if the part stays as it is.
Piece = tuple[str, str]

# Placeholders and programs of templates, which may stand inside tags, too.
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
# Whether an element stays: group 1 is the "yes" of translate="yes".
_NO = r"""(?i)\s(?:translate\s*=\s*["']?(?:no|(yes))|class\s*=\s*["']?[^"'=>]*\bnotranslate)\b"""

# The start tag of the first element ends the second. An element that ends its like has an optional
# end tag.
_ENDS = re.compile(r"""(?x)li>li|d[dt]>d[dt]|r[pt]>r[pt]|opt\w+>opt\w+|t[dh]>t[dh]|tr>t[dhr]
    |t(?:body|foot|head)>t(?:[dhr]|body|foot|head)|(?:article|aside|blockquote|d(?:etails|i[rv]|[dlt])
      |fieldset|fig(?:caption|ure)|footer|form|h\w+|li|main|menu|nav|[ou]l|p|pre|search|section
      |t(?:[dhr]|able|body|foot|head))>p""")


def split_html(html: str) -> Iterator[Piece]:
    """Yields the pieces of HTML, each with its text to translate, or "" if it stays as it is.

    Joined, the pieces are the same HTML. One may have inline tags in it. In its text to translate,
    they are numbered for `html_of`, entities are characters, and line breaks blanks:
    `A <b class="x">big</b> dog` has the text `A <b=0>big</b=1> dog`.

    Only the bounds of markup matter, so a regular expression is enough: broken HTML loses nothing,
    and the time is linear. Python's html.parser takes a minute for 50,000 characters such as
    "<a <a <a".

    Elements of `_KEPT`, and those with translate="no" or class="notranslate", stay as they are,
    except for elements in them with translate="yes". If a required end tag is missing, all until
    the end of the HTML stays. Addresses, placeholders and @names with tags in them stay, too.

    Args:
        html: any text, also broken HTML.
    """
    pieces = [*_text_and_markup(html)]
    starts = [*accumulate((len(shown) for _, shown in pieces), initial=0)]

    def hide_divided(match: re.Match[str]) -> str:
        # An address or placeholder becomes NULs if a tag is inside it: a piece then begins there.
        is_whole = bisect_right(starts, match.start()) == bisect_left(starts, match.end())
        return match[0] if is_whole else "\0" * len(match[0])

    def is_inline(piece_and_start: tuple[Piece, int]) -> bool:
        # Or a text that is translated. Other markup and texts are shown as a blank.
        (piece, shown), _ = piece_and_start
        return shown in ("", piece)

    shown = "".join(shown for _, shown in pieces)
    # Entities other than &amp; end an address.
    shown = re.sub(r"&(?!amp;)#?\w+;", lambda match: '"' * len(match[0]), shown)
    shown = KEPT.sub(hide_divided, shown)
    for _, group in groupby(zip(pieces, starts, strict=False), is_inline):
        run = [(piece, shown[start : start + len(text)]) for (piece, text), start in group]
        whole = "".join(piece for piece, _ in run)
        texts = [text for _, text in run if text.strip()]
        numbered = _numbered(whole) if len(texts) > 1 and "\0" not in "".join(texts) else ""
        # Texts with tags between them are translated together, or else each by itself.
        for piece, text in [(whole, whole)] if numbered else run:
            words = text.strip("\0 \t\n\f\r")
            start = text.index(words)
            end = start + len(words)
            yield piece[:start], ""
            yield piece[start:end], numbered.strip(" ") or _text(piece[start:end])
            yield piece[end:], ""


def _numbered(html: str) -> str:
    """Returns text with its inline tags numbered, `<b=0>`; "" if it has a "<" of its own."""
    numbers = count()
    numbered = _MARKUP.sub(lambda tag: f"<{tag['end']}{tag['tag'].lower()}={next(numbers)}>", html)
    text = _text(numbered)
    # Numbers are counted from 0, so the next one is the number of tags.
    return text if text.count("<") == next(numbers) else ""


def _text_and_markup(html: str) -> Iterator[tuple[str, str]]:
    """Yields texts and tags with what is translated: the text, "" of inline tags, else a blank."""
    # `opened`: the open elements, from the outermost one that stays. `stays[n]`: whether text stays
    # that is inside the first n of them, and no other.
    opened, stays, end = list[str](), [False], 0
    for match in _MARKUP.finditer(html):
        text = html[end : match.start()]
        yield text, " " if stays[len(opened)] else text
        tag = (match["tag"] or "").lower()
        yield match[0], "" if _INLINE.fullmatch(tag) else " "
        end = match.end()
        if not tag or match[0].endswith("/>") or EMPTY.fullmatch(tag):
            continue
        # Only the 50 innermost: for all, time would grow with the square of the depth.
        if match["end"] and tag in (innermost := opened[:-51:-1]):
            del opened[-1 - innermost.index(tag) :]
        elif match["end"] and opened and tag != "p" and not _INLINE.fullmatch(tag):
            # Perhaps it ends an element around opened[0]: this ends with it if its tag is optional.
            opened = [] if _ENDS.fullmatch(f"{opened[0]}>{opened[0]}") else opened
        elif not match["end"]:
            while opened and _ENDS.fullmatch(f"{tag}>{opened[-1]}"):
                opened.pop()
            setting, inherited = re.search(_NO, match[0]), stays[len(opened)]
            does_stay = bool(_KEPT.fullmatch(tag)) or (not setting[1] if setting else inherited)
            if opened or does_stay:
                opened.append(tag)
                stays[len(opened) :] = [does_stay]
    yield html[end:], " " if stays[len(opened)] else html[end:]


def html_of(text: str, piece: str = "") -> str:
    """Returns a translated text as HTML, with the tags and templates of its piece of HTML."""
    tags = [tag[0] for tag in _MARKUP.finditer(piece)]
    # XHTML does not define &nbsp;.
    html = escape(text, quote=False).replace("\xa0", "&nbsp;" if "&nbsp;" in piece else "\xa0")
    # Templates are code: they stay as they are written.
    for raw in re.findall(_TEMPLATE, piece):
        html = html.replace(escape(unescape(raw), quote=False), raw)
    return re.sub(r"&lt;/?\w+=(\d+)&gt;", lambda tag: tags[int(tag[1])], html) if tags else html


def _text(part: str) -> str:
    """Decodes entities, joins white space; "" without letters, where a model would invent words."""
    # unescape raises a ValueError for a number of over 4,300 digits; no character has over 7.
    text = unescape(re.sub("&#0*([0-9]{1,8})[0-9]*", r"&#\1", part))
    return re.sub(r"[ \t\n\f\r]+", " ", text) if any(map(str.isalpha, text)) else ""
