"""Splits HTML into markup, which stays, and text to translate."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from html import escape, unescape
from itertools import accumulate, count, groupby, pairwise

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
# The attribute of an element that stays or, if group 1 is the "yes" of translate="yes", does not.
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
    """
    pieces = [*_text_and_markup(html)]
    texts = _hide_divided([text for _, text in pieces])
    # Inline tags, whose text is "", and texts that are translated. All else is shown as a blank.
    are_inline = [text in ("", piece) for piece, text in pieces]
    # Runs of inline pieces, and of others, take turns.
    for _, group in groupby(zip(are_inline, pieces, texts, strict=True), lambda item: item[0]):
        yield from _split_run([(piece, text) for _, (piece, _), text in group])


def _hide_divided(texts: Sequence[str]) -> list[str]:
    """Returns the texts, with NULs for addresses and placeholders that have tags inside them.

    `texts` are all of a document, in order; each keeps its length.
    """
    bounds = [*accumulate(map(len, texts), initial=0)]
    # Entities other than &amp; end an address, as a quotation mark does.
    joined = re.sub(r"&(?!amp;)#?\w+;", lambda entity: '"' * len(entity[0]), "".join(texts))

    def hide(address: re.Match[str]) -> str:
        # With a tag inside, an address is in several texts, so the bounds of one are inside it.
        is_divided = bisect_right(bounds, address.start()) < bisect_left(bounds, address.end())
        return "\0" * len(address[0]) if is_divided else address[0]

    shown = KEPT.sub(hide, joined)
    return [shown[start:end] for start, end in pairwise(bounds)]


def _split_run(run: list[Piece]) -> Iterator[Piece]:
    """Yields the pieces of a run: of texts and inline tags, or of other markup, which stays.

    White space around a text to translate is a piece of its own.
    """
    html = "".join(piece for piece, _ in run)
    texts = [text for _, text in run if text.strip()]
    # Texts with tags between them are translated together, with numbered tags. If one has hidden
    # parts, or tags cannot be numbered, each is translated by itself.
    numbered = _numbered(html) if len(texts) > 1 and "\0" not in "".join(texts) else ""
    for piece, text in [(html, html)] if numbered else run:
        words = text.strip("\0 \t\n\f\r")
        start = text.index(words)
        end = start + len(words)
        yield piece[:start], ""
        yield piece[start:end], numbered.strip(" ") or _text(piece[start:end])
        yield piece[end:], ""


def _numbered(html: str) -> str:
    """Returns the text of HTML with its inline tags numbered, such as `A <b=0>big</b=1> dog`.

    Returns "" if the text has a "<" of its own, which could be taken for a tag, or has no letters.
    """
    numbers = count()
    numbered = _MARKUP.sub(lambda tag: f"<{tag['end']}{tag['tag'].lower()}={next(numbers)}>", html)
    text = _text(numbered)
    # Each tag has one "<". Numbers are counted from 0, so the next one is the number of tags.
    return text if text.count("<") == next(numbers) else ""


def _text_and_markup(html: str) -> Iterator[tuple[str, str]]:
    """Yields the texts of HTML, and its markup between them, in order.

    Each comes with what is translated: a text with itself, or with a blank if it stays as it is; an
    inline tag with "", other markup with a blank.
    """
    # The open elements from the outermost one that stays: the tag, and whether text in it stays.
    opened, end = list[tuple[str, bool]](), 0
    for match in _MARKUP.finditer(html):
        text = html[end : match.start()]
        yield text, " " if _stays(opened) else text
        tag = (match["tag"] or "").lower()
        yield match[0], "" if _INLINE.fullmatch(tag) else " "
        end = match.end()
        # Comments, programs and the like have no tag.
        has_content = tag and not match[0].endswith("/>") and not EMPTY.fullmatch(tag)
        if has_content and match["end"]:
            _close(tag, opened)
        elif has_content:
            _open(tag, match[0], opened)
    yield html[end:], " " if _stays(opened) else html[end:]


def _stays(opened: list[tuple[str, bool]]) -> bool:
    """Returns whether text inside the open elements stays, which the innermost one decides."""
    return bool(opened) and opened[-1][1]


def _close(tag: str, opened: list[tuple[str, bool]]) -> None:
    """Removes the element that an end tag ends, and those in it, from the open elements.

    A stray </p>, or the end tag of an inline element that is not open, removes none; that of an
    element around them removes all if the outermost needs no end tag.
    """
    # Only the 50 innermost: for all, time would grow with the square of the depth.
    innermost = [name for name, _ in opened[:-51:-1]]
    if tag in innermost:
        del opened[-1 - innermost.index(tag) :]
    elif opened and tag != "p" and not _INLINE.fullmatch(tag):
        # Perhaps it ends an element around opened[0], which then ends too if it needs no end tag.
        outermost, _ = opened[0]
        if _ENDS.fullmatch(f"{outermost}>{outermost}"):
            opened.clear()


def _open(tag: str, html: str, opened: list[tuple[str, bool]]) -> None:
    """Removes the elements that a start tag ends from the open elements, and adds its own.

    Args:
        tag: its name, in lower case.
        html: the start tag itself.
        opened: the open elements (see `_text_and_markup`); changed here.
    """
    while opened and _ENDS.fullmatch(f"{tag}>{opened[-1][0]}"):
        opened.pop()
    setting = re.search(_NO, html)
    # Group 1 is a "yes". Without a setting, that of the elements around it holds.
    is_kept = not setting[1] if setting else _stays(opened)
    does_stay = is_kept or bool(_KEPT.fullmatch(tag))
    # The list begins with the outermost element that stays: others around it do not matter.
    if opened or does_stay:
        opened.append((tag, does_stay))


def html_of(text: str, piece: str = "") -> str:
    """Returns a translated text as HTML, with the tags and templates of its piece of HTML.

    Args:
        text: with tags numbered as by `split_html`, such as "Ein <b=0>großer</b=1> Hund".
        piece: the HTML of the source: `A <b class="x">big</b> dog`; "" if nothing of it is kept.
    """
    tags = [tag[0] for tag in _MARKUP.finditer(piece)]
    # XHTML does not define &nbsp;.
    html = escape(text, quote=False).replace("\xa0", "&nbsp;" if "&nbsp;" in piece else "\xa0")
    # Templates are code: they stay as they are written.
    for raw in re.findall(_TEMPLATE, piece):
        html = html.replace(escape(unescape(raw), quote=False), raw)
    return re.sub(r"&lt;/?\w+=(\d+)&gt;", lambda tag: tags[int(tag[1])], html) if tags else html


def _text(part: str) -> str:
    """Returns HTML without tags as text: entities are decoded, and white space is one blank.

    Returns "" for a text without letters, where a model would invent words.
    """
    # unescape raises a ValueError for a number of over 4,300 digits; no character has over 7.
    text = unescape(re.sub("&#0*([0-9]{1,8})[0-9]*", r"&#\1", part))
    return re.sub(r"[ \t\n\f\r]+", " ", text) if any(map(str.isalpha, text)) else ""
