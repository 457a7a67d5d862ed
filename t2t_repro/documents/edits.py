"""Reads files to translate, checks the translations, and edits them into the files.

A format is a function `fill(path, text, translate)`. It calls `translate` for each text, and yields
a list of edits for each unit; an empty one if a translation is "" or does not fit the format. It is
called twice: the first time, `translate` only collects the texts.
"""

import re
from codecs import BOM_UTF8, lookup
from collections.abc import Callable, Iterable
from pathlib import Path

from t2t_repro.data.line_files import opened
from t2t_repro.decoding.kept import kept, masked
from t2t_repro.decoding.search import Translation
from t2t_repro.errors import UserError, reason_of

Edit = tuple[int, int, str]
"""Start and end of the part that is replaced, and the new text."""

Sides = list[tuple[str, str]]
"""The texts of a unit, each with the code of its language."""

Translate = Callable[[str], str]

# The encoding that the first line of XML, or the header of HTML or PO, declares.
_ENCODING = re.compile(rb"""(?imx)
    (?:\A(?:\xef\xbb\xbf)?<\?xml\s[^>]*?encoding\s*=\s*["']|<meta\s[^<>]*?charset\s*=\s*["']?
    |^(?:msgstr\s*)?".*?Content-Type:.*?charset=)(?!CHARSET|UTF-?16)([\w.:-]+)""")

# The mark of a shortcut key: _File, E&xit, ~View; not of max_size, AT&T and ~/notes.
_KEY = re.compile(r"""(?x)(?<![\w&~\\./-])
    (?:(?:[A-ZÀ-Þ][^\W\d_]*|[^\W\d_]+(?!_))(?=.[a-zß-ÿ]))?([&_~])[^\W\d_]""")

# C's placeholders, whose order matters; not "5% of" and "5 % of".
_ARGUMENT = re.compile(r"""(?x)%(?!(?<=\d%)[ -]|(?<=\d\s%)[ ])
    [-+ #0'qI]*[\d*]*(?:\.[\d*]+)?[hljztLqw]*[a-zA-Z%<>]""")

# ICU's plural and select messages, which a model cannot translate.
_FORMS = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select)")

CONTROL = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f]")


def read_text(path: Path) -> tuple[str, str]:
    """Reads a file; returns its text, and the encoding that it declares, by default UTF-8.

    As in browsers, ISO 8859-1 is read as Windows-1252 if it has bytes from 0x80 to 0x9f, and a
    declaration of UTF-16 in single bytes as UTF-8.

    Raises:
        UserError: the file cannot be read, or is in another encoding.
    """
    with opened(path, str(path)) as file:
        content = file.read()
    encoding = _declared_encoding(content)
    try:
        if lookup(encoding).name == "iso8859-1" and re.search(rb"[\x80-\x9f]", content):
            encoding = "cp1252"
        # Edits must leave all other bytes of the file as they are.
        if (text := content.decode(encoding)).encode(encoding, "replace") == content:
            return text, encoding
        raise UnicodeError(f"{encoding} would write other bytes")
    except (UnicodeError, LookupError) as error:
        line = content.count(b"\n", 0, getattr(error, "start", 0)) + 1
        problem = f"{path}, line {line}: {reason_of(error)}"
        raise UserError(f"{problem}; expected UTF-8 or as declared: convert the file.") from error


def _declared_encoding(content: bytes) -> str:
    """Returns the encoding that a file declares; UTF-8 without one, and after its byte-order mark.

    A declaration of UTF-16 does not count: in single bytes, it is false.
    """
    # XML declares its encoding in the first tag only; in other files, comments do not count.
    xml_tag = re.match(rb"\s*<(?:\?xml|xliff)[^>]*>?", content)
    head = xml_tag[0] if xml_tag else re.sub(rb"(?s)<!--.*?(?:-->|\Z)", b"", content)
    declared = None if content.startswith(BOM_UTF8) else _ENCODING.search(head)
    return declared[1].decode() if declared else "utf-8"


def filled(text: str, edits: Iterable[Edit]) -> str:
    """Returns a text with edits applied; they are in any order, but must not overlap."""
    parts, copied = [], 0
    for start, end, new in sorted(edits):
        parts += [text[copied:start], new]
        copied = end
    return "".join([*parts, text[copied:]])


def without_key(text: str) -> str:
    """Returns a text without the mark of its shortcut key, if it has one: "Exit" for "E&xit"."""
    mark = _mark_index(text)
    return text if mark is None else text[:mark] + text[mark + 1 :]


def sound_text(source: str, translation: Translation, encoding: str) -> str:
    """Returns the translation of `without_key(source)`, with the mark of the shortcut key.

    Returns "" if it is broken: cut off, left untranslated though it has parts to keep, with other
    placeholders than the source, with characters that the file's encoding lacks, or without a place
    for the mark; or if source or translation has control characters.
    """
    text, kept_parts = translation.text, kept(source)
    # If the model loses a placeholder, `translate_sentences` returns the source. One or two words
    # may be a name, which stays.
    is_sentence = sum(map(str.isalpha, masked(text, " ").split())) > 2 or _FORMS.search(source)
    is_untranslated = kept_parts and is_sentence and text == without_key(source)
    is_cut = translation.truncated or not translation.finished
    is_changed = kept(text) != kept_parts or _ARGUMENT.findall(text) != _ARGUMENT.findall(source)
    is_unwritable = text.encode(encoding, "replace").decode(encoding) != text
    is_broken = is_untranslated or is_cut or is_changed or is_unwritable
    return "" if is_broken or CONTROL.search(source + text) else with_key(source, text)


def with_key(source: str, text: str) -> str:
    """Returns a translation, `text`, with the mark of its source's shortcut key, if there is one.

    The mark goes before the same letter at the start of a word, or else before the first letter:
    "E&xit" makes "&Beenden" of "Beenden". Returns "" if the text has no letter, or the mark would
    not be read as one there.
    """
    mark = _mark_index(source)
    if mark is None:
        return text
    # Letters of addresses and placeholders do not count; all others keep their index.
    shown = masked(text, " ")
    letter = re.search(rf"(?i)\b{source[mark + 1]}", shown) or re.search(r"[^\W\d_]", shown)
    if letter is None:
        return ""
    marked = filled(text, [(letter.start(), letter.start(), source[mark])])
    return marked if without_key(marked) == text else ""


def _mark_index(text: str) -> int | None:
    """Returns the index of the mark of a shortcut key; None without one, or in doubt."""
    # Few texts have any, and masking takes long.
    if not set("&_~") & set(text):
        return None
    marks = [match.start(1) for match in _KEY.finditer(masked(text, " "))]
    # If its character occurs again, also in a placeholder, it is perhaps not a mark.
    return marks[0] if len(marks) == 1 and text.count(text[marks[0]]) == 1 else None
