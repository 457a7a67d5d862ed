"""Gettext's catalogues (.po): their entries, and how translations are written into them."""

import json
import re
from collections.abc import Iterator, Sequence
from gettext import c2py
from pathlib import Path

from t2t_repro.config.values import short
from t2t_repro.decoding.kept import kept
from t2t_repro.documents.edits import CONTROL, Edit, Sides, Translate, read_text
from t2t_repro.errors import UserError

_STRINGS = r'((?:[ \t]*"(?:[^"\\\n]|\\.)*+"[ \t\r]*(?:\n|\Z))++)'
_FORM = rf"msgstr(?:\[\d+\])?{_STRINGS}"
_ENTRY = re.compile(rf"""(?mx)(?P<comments>\ufeff?(?:[ \t\r]*\n|[ \t]*\#(?!~).*(?:\n|\Z))*+)
    (?:(?:msgctxt(?P<context>{_STRINGS}))?msgid(?P<source>{_STRINGS})
      (?:msgid_plural(?P<plural>{_STRINGS}))?(?P<forms>(?:{_FORM})++)
    |(?P<obsolete>(?:[ \t]*\#~.*(?:\n|\Z))++)|\Z|(?P<wrong>.+))""")

_FUZZY = re.compile(r"(?m)^[ \t]*#,.*\bfuzzy\b")
# The former source (#|) stands below the flags.
_FLAGS = re.compile(r"(?m)^[ \t]*#,|(?=^[ \t]*#\|)|\Z")
_PLURAL = re.compile(r"nplurals *= *([1-9])\b[^;]*; *plural *= *([^;\n]+)")


Entry = tuple[re.Match[str], list[str], list[str], str]
"""What stands in the file, the text with its plural, their translations, and the kind: "header",
"obsolete", "empty" or "fuzzy", "" if it is translated."""


def entries(path: Path, text: str) -> Iterator[Entry]:
    """Yields the entries of a catalogue.

    Raises:
        UserError: a line is not PO's.
    """
    for found in _ENTRY.finditer(text):
        if found["wrong"]:
            line = f"{path}, line {text.count(chr(10), 0, found.start('wrong')) + 1}"
            raise UserError(f"{line}: received {short(found['wrong'])}, expected msgid or msgstr.")
        for _ in re.findall(r"(?m)^\s*#~\s*msgid\s", found["obsolete"] or ""):
            yield found, [], [], "obsolete"
        if found["source"]:
            sources = [_read(found[name]) for name in ("source", "plural") if found[name]]
            forms = [_read(form) for form in re.findall(_FORM, found["forms"])]
            kind = "fuzzy" * bool(_FUZZY.search(found["comments"])) if any(forms) else "empty"
            yield found, sources, forms, kind if sources[0] or found["context"] else "header"


def read_units(path: Path, languages: Sequence[str]) -> Iterator[Sides | str]:
    """Yields the translations of a catalogue, or why one is skipped; see `entries`.

    Args:
        path: of the catalogue.
        languages: those of its two sides; the header may name that of the second.
    """
    source_language, language = languages
    for _, sources, forms, kind in entries(path, read_text(path)[0]):
        if kind == "header" and (found := re.search(r"(?m)^Language: *([\w-]+)", forms[0])):
            language = found[1]
        if kind:
            yield kind
            continue
        # A single form is that of the plural.
        for source, form in zip(sources[-len(forms) :], forms[:1] + forms[-1:], strict=False):
            yield [(source_language, CONTROL.sub("", source)), (language, CONTROL.sub("", form))]


def fill(path: Path, text: str, translate: Translate) -> Iterator[list[Edit]]:
    """Yields the edits of each entry without a translation, which becomes fuzzy.

    Of plural forms, that of 1 is made from the singular. Where there are more than two it is that
    of other numbers, too, and made from the plural if the singular has other placeholders.

    Raises:
        UserError: a line is not PO's, or the rule of plural forms is not C's.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    count, one = 2, 0
    for found, sources, forms, kind in entries(path, text):
        if kind == "header" and (rule := _PLURAL.search(forms[0])):
            try:
                count, one = int(rule[1]), c2py(rule[2])(1)
            except (ValueError, ZeroDivisionError) as error:
                raise UserError(f"{path}: {short(rule[0])}, expected a rule in C.") from error
        if kind != "empty" or not sources[0].strip():
            continue
        if not all(texts := [translate(source) for source in sources]):
            yield []
            continue
        lines = [f"msgstr {_quoted(texts[0], newline)}"]
        if found["plural"]:
            has_singular = count == 2 or (count > 2 and len({*map(tuple, map(kept, sources))}) == 1)
            chosen = [texts[not (has_singular and index == one)] for index in range(count)]
            lines = [f"msgstr[{i}] {_quoted(form, newline)}" for i, form in enumerate(chosen)]
        last = newline * found["forms"].endswith("\n")
        edits = [(*found.span("forms"), newline.join(lines) + last)]
        if not _FUZZY.search(found["comments"]) and (flags := _FLAGS.search(found["comments"])):
            place = found.start() + flags.end()
            edits.append((place, place, " fuzzy," if flags[0] else f"#, fuzzy{newline}"))
        yield edits


def _read(strings: str) -> str:
    """Returns the text of PO's strings, which are C's."""
    inner = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', strings))
    return inner.encode("latin-1", "backslashreplace").decode("unicode_escape")


def _quoted(text: str, newline: str) -> str:
    """Returns a text as PO's strings, a line each."""
    quoted = [json.dumps(line, ensure_ascii=False) for line in re.split(r"(?<=\n)(?!\Z)", text)]
    return newline.join(['""', *quoted] if quoted[1:] else quoted)
