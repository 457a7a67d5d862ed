"""Fills files: reads a text, edits translations into it, and checks that they keep their marks.

A format is a function `fill(path, text, translate)`. It asks for the translation of each text, and
yields the edits of each unit; none if a translation is "", or would not be what the format asks
for. The first time, `translate` only collects the texts.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable
from pathlib import Path

from t2t_repro.data.line_files import opened
from t2t_repro.decoding.kept import kept, masked
from t2t_repro.decoding.search import Translation
from t2t_repro.errors import UserError, reason_of

Edit = tuple[int, int, str]
"""Start and end of what is replaced, and the new text."""

Sides = list[tuple[str, str]]
"""The texts of a unit, each with the code of its language."""

Translate = Callable[[str], str]

# In the first line of XML, the header of HTML or of PO; not in other texts.
_ENCODING = re.compile(rb"""(?imx)
    (?:\A(?:\xef\xbb\xbf)?<\?xml\s[^>]*?encoding\s*=\s*["']|<meta\s[^<>]*?charset\s*=\s*["']?
    |^(?:msgstr\s*)?".*?Content-Type:.*?charset=)(?!CHARSET|UTF-?16)([\w.:-]+)""")

# The mark of a shortcut key: _File, E&xit, ~View; not of max_size, AT&T and ~/notes.
_KEY = re.compile(r"""(?x)(?<![\w&~\\./-])
    (?:(?:[A-ZÀ-Þ][^\W\d_]*|[^\W\d_]+(?!_))(?=.[a-zß-ÿ]))?([&_~])[^\W\d_]""")

# What C's formats take as an argument, in its order; not "5% of" and "5 % of".
_ARGUMENT = re.compile(
    r"%(?!(?<=\d%)[ -]|(?<=\d\s%) )[-+ #0'qI]*[\d*]*(?:\.[\d*]+)?[hljztLqw]*[a-zA-Z%<>]"
)

# ICU's forms of a text, which a model cannot choose.
_FORMS = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select)")

CONTROL = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f]")


def read_text(path: Path) -> tuple[str, str]:
    """Reads a file, and returns its text, and the encoding that it names, by default UTF-8.

    As in browsers, bytes that ISO 8859-1 lacks are Windows-1252's, and what says in single bytes
    that it is UTF-16 is UTF-8.

    Raises:
        UserError: it cannot be read, or is in another encoding.
    """
    with opened(path, str(path)) as file:
        content = file.read()
    # Of XML only the first tag says it; of others, no comment.
    is_xml = re.match(rb"\s*<(?:\?xml|xliff)[^>]*>?", content)
    head = is_xml[0] if is_xml else re.sub(rb"(?s)<!--.*?(?:-->|\Z)", b"", content)
    declared = None if content.startswith(BOM_UTF8) else _ENCODING.search(head)
    encoding = declared[1].decode() if declared else "utf-8"
    if encoding.lower() in ("iso-8859-1", "latin1") and re.search(rb"[\x80-\x9f]", content):
        encoding = "cp1252"
    try:
        if (text := content.decode(encoding)).encode(encoding, "replace") == content:
            return text, encoding
        raise UnicodeError(f"{encoding} would write other bytes")
    except (UnicodeError, LookupError) as error:
        line = content.count(b"\n", 0, getattr(error, "start", 0)) + 1
        problem = f"{path}, line {line}: {reason_of(error)}"
        raise UserError(f"{problem}; expected UTF-8 or what the file names: convert it.") from error


def filled(text: str, edits: Iterable[Edit]) -> str:
    """Returns a text with edits that do not overlap."""
    parts, place = [], 0
    for start, end, new in sorted(edits):
        parts += [text[place:start], new]
        place = end
    return "".join([*parts, text[place:]])


def without_key(text: str) -> str:
    """Returns a text without the mark of its shortcut key."""
    place = _key(text)
    return text if place is None else text[:place] + text[place + 1 :]


def sound_text(source: str, translation: Translation, encoding: str) -> str:
    """Returns a translation with its source's shortcut key.

    "" if the translation is broken. It is broken, too, if the encoding lacks its characters.

    Args:
        source: the text, with its key.
        translation: the translation of the text without the key.
        encoding: of the file.
    """
    text, own = translation.text, kept(source)
    # Where the model does not keep it, `translate_sentences` returns the source; names stay, too.
    words = sum(map(str.isalpha, masked(text, " ").split()))
    is_source = text == without_key(source) and (words > 2 or _FORMS.search(source))
    is_cut = translation.truncated or not translation.finished
    is_other = kept(text) != own or _ARGUMENT.findall(text) != _ARGUMENT.findall(source)
    is_unwritable = text.encode(encoding, "replace").decode(encoding) != text
    if is_cut or is_other or is_unwritable or (own and is_source) or CONTROL.search(source + text):
        return ""
    return with_key(source, text)


def with_key(source: str, text: str) -> str:
    """Marks the source's shortcut key in a translation.

    "" if there is no place for it. The mark goes before the same letter at the start of a word, or
    else before the first letter.
    """
    if (place := _key(source)) is None:
        return text
    shown = masked(text, " ")
    match = re.search(rf"(?i)\b{source[place + 1]}", shown) or re.search(r"[^\W\d_]", shown)
    marked = f"{text[: match.start()]}{source[place]}{text[match.start() :]}" if match else ""
    return marked if without_key(marked) == text else ""


def _key(text: str) -> int | None:
    """Returns the place of the mark of a shortcut key; None without one, and with several."""
    # Few texts have any, and masking takes long.
    shown = masked(text, " ") if {*"&_~"} & {*text} else ""
    places = [match.start(1) for match in _KEY.finditer(shown)]
    return places[0] if len(places) == 1 and text.count(text[places[0]]) == 1 else None
