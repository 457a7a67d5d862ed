"""Gettext's catalogues (.po): their entries, and how translations are written into them."""

import json
import re
from collections.abc import Iterator, Sequence
from gettext import c2py
from itertools import zip_longest
from pathlib import Path

from t2t_repro.config.values import short
from t2t_repro.decoding.kept import kept
from t2t_repro.documents.edits import CONTROL, Edit, Sides, Translate, read_text
from t2t_repro.errors import UserError

_STRINGS = r'((?:\s*"(?:[^"\\\n]|\\.)*+")++[ \t\r]*(?:\n|\Z))'
_FORM = rf"msgstr(?:\[\d+\])?{_STRINGS}"
_ENTRY = re.compile(rf"""(?mx)(?P<comments>\ufeff?(?:[ \t\r]*\n|[ \t]*\#(?!~).*(?:\n|\Z))*+)
    (?:[ \t]*(?:msgctxt(?P<context>{_STRINGS})\s*+)?msgid(?P<source>{_STRINGS})\s*+
      (?:msgid_plural(?P<plural>{_STRINGS}))?\s*+(?P<forms>(?:\s*+{_FORM})++)
    |(?P<obsolete>(?:[ \t]*\#~.*(?:\n|\Z))++)|\Z|(?P<wrong>.+))""")

_FUZZY = re.compile(r"(?m)^[ \t]*#,.*\bfuzzy\b")
# The former source (#|) stands below the flags.
_FLAGS = re.compile(r"(?m)^[ \t]*#,|(?=^[ \t]*#\|)|\Z")
# Where translators name themselves, and GTK's direction of writing.
_NO_TEXT = re.compile(r"translator-credits|Your (?:names|emails)|default:(?:LTR|RTL)")
_PLURAL = re.compile(r"nplurals *= *([1-9])\b[^;]*; *plural *= *([^;\n]+)")


Entry = tuple[re.Match[str], list[str], list[str], str]
"""The match in the file, the text with its plural, their translations, and the kind: "header",
"obsolete", "empty" or "fuzzy", "" if it is translated."""


def entries(path: Path, text: str) -> Iterator[Entry]:
    """Yields the entries of a catalogue.

    Raises:
        UserError: a line is not PO's.
    """
    for entry in _ENTRY.finditer(text):
        if entry["wrong"]:
            line = f"{path}, line {text[: entry.start('wrong')].count(chr(10)) + 1}"
            raise UserError(f'{line}: {short(entry["wrong"])}, expected msgid "..." msgstr "...".')
        for _ in re.findall(r"(?m)^\s*#~\s*msgid\s", entry["obsolete"] or ""):
            yield entry, [], [], "obsolete"
        if entry["source"]:
            sources = [_read(entry[name]) for name in ("source", "plural") if entry[name]]
            forms = [_read(form) for form in re.findall(_FORM, entry["forms"])]
            is_fuzzy = _FUZZY.search(entry["comments"])
            kind = "empty" if not all(forms) else "fuzzy" if is_fuzzy else ""
            yield entry, sources, forms, kind if sources[0] or entry["context"] else "header"


def read_units(path: Path, languages: Sequence[str]) -> Iterator[Sides | str]:
    """Yields a catalogue's translations, or why one is skipped (see `entries`).

    Args:
        path: of the catalogue.
        languages: the languages of its two sides; the header may name the second one.
    """
    source_language, language = languages
    for _, sources, forms, kind in entries(path, read_text(path)[0]):
        if kind == "header" and (named := re.search(r"(?m)^Language: *([\w-]+)", forms[0])):
            language = named[1]
            # The texts are then in the other one.
            tag, *tags = (f"{code}-".lower().replace("_", "-") for code in (language, *languages))
            is_exchanged = tag.startswith(tags[0]) and not tag.startswith(tags[1])
            source_language = languages[is_exchanged]
        if kind:
            yield kind
            continue
        # A single form is that of the plural.
        for source, form in zip(sources[-len(forms) :], forms[:1] + forms[-1:], strict=False):
            yield [(source_language, CONTROL.sub("", source)), (language, CONTROL.sub("", form))]


def fill(path: Path, text: str, translate: Translate) -> Iterator[list[Edit]]:
    """Yields the edits of each entry without a translation, which becomes fuzzy.

    Of plural forms, that of 1 is made from the singular. Where it is that of many other numbers,
    too, it is made from the plural if the singular has other placeholders.

    Raises:
        UserError: a line is not PO's, or the rule of plural forms is not C's.
    """
    # The form of each number.
    count, rule = 2, [1, 0]
    for entry, sources, forms, kind in entries(path, text):
        if kind == "header" and (plural := _PLURAL.search(forms[0])):
            try:
                count, rule = int(plural[1]), [*map(c2py(plural[2]), range(1000))]
            except (ValueError, ZeroDivisionError) as error:
                raise UserError(f"{path}: {short(plural[0])}, expected a rule in C.") from error
        if kind != "empty" or not sources[0].strip() or _NO_TEXT.fullmatch(sources[0]):
            continue
        if not all(texts := [translate(source) for source in sources]):
            yield []
            continue
        newline = "\r\n" if "\r\n" in entry[0] else "\n"
        lines = [f"msgstr {_quoted(texts[0], newline)}"]
        if entry["plural"]:
            # French has that of 1 for 0, too: msgfmt takes a few numbers for one.
            own = rule.count(rule[1]) < 5 or (count > 1 and kept(sources[0]) == kept(sources[1]))
            chosen = [texts[0 if own and i == rule[1] else 1] for i in range(count)]
            lines = [f"msgstr[{i}] {_quoted(form, newline)}" for i, form in enumerate(chosen)]
        # Forms that are there stay.
        old = [m[0].strip() if _read(m[0]) else "" for m in re.finditer(_FORM, entry["forms"])]
        lines = [existing or new for existing, new in zip_longest(old, lines) if existing or new]
        last = newline if entry["forms"].endswith("\n") else ""
        edits = [(*entry.span("forms"), newline.join(lines) + last)]
        if not _FUZZY.search(entry["comments"]) and (flags := _FLAGS.search(entry["comments"])):
            place = entry.start() + flags.end()
            edits.append((place, place, " fuzzy," if flags[0] else f"#, fuzzy{newline}"))
        yield edits


def _read(strings: str) -> str:
    """Returns the text of PO's strings, which are C's; octal numbers may be bytes of UTF-8."""
    inner = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', strings)).encode()
    content = inner.decode("unicode_escape", "replace").encode("latin-1", "replace")
    return content.decode(errors="replace")


def _quoted(text: str, newline: str) -> str:
    """Returns a text as PO's strings, a line each."""
    quoted = [json.dumps(line, ensure_ascii=False) for line in re.split(r"(?<=\n)(?!\Z)", text)]
    return newline.join(['""', *quoted] if quoted[1:] else quoted)
