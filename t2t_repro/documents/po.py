"""Reads the entries of Gettext's catalogues (.po), and writes translations into them."""

import json
import re
from collections.abc import Iterator, Sequence
from gettext import c2py
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
    |(?P<obsolete>(?:[ \t]*\#~.*(?:\n|\Z))++)|[ \t\r]*\Z|(?P<wrong>.+))""")

_FUZZY = re.compile(r"(?m)^[ \t]*#,.*\bfuzzy\b")
# The flags, or where they go: before the former source (#|), or at the end of the comments.
_FLAGS = re.compile(r"(?m)^[ \t]*#,|(?=^[ \t]*#\|)|\Z")
# Messages that are not translated: translators' names, and GTK's direction of writing.
_NO_TEXT = re.compile(r"translator-credits|Your (?:names|emails)|default:(?:LTR|RTL)")
_PLURAL = re.compile(r"nplurals *= *([1-9])\b[^;]*; *plural *= *([^;\n]+)")

# The match in the file; the text, and its plural if there is one; the translation, or one for each
# plural form; and the kind: "header", "obsolete", "empty", "fuzzy", or "" if it is translated.
_Entry = tuple[re.Match[str], list[str], list[str], str]


def entries(path: Path, text: str) -> Iterator[_Entry]:
    """Yields the entries in the text of a catalogue; `path` is only for error messages.

    An obsolete entry comes without texts and translations.

    Raises:
        UserError: a line is not in PO's syntax.
    """
    for entry in _ENTRY.finditer(text):
        if entry["wrong"]:
            number = text.count("\n", 0, entry.start("wrong")) + 1
            problem = f"{path}, line {number}: {short(entry['wrong'])}"
            raise UserError(f'{problem}, expected msgid "..." msgstr "...".')
        # One match has all consecutive obsolete entries.
        for _ in re.findall(r"(?m)^\s*#~\s*msgid\s", entry["obsolete"] or ""):
            yield entry, [], [], "obsolete"
        if entry["source"]:
            sources = [_unquoted(entry[name]) for name in ("source", "plural") if entry[name]]
            forms = [_unquoted(form) for form in re.findall(_FORM, entry["forms"])]
            is_header = not sources[0] and not entry["context"]
            mark = "fuzzy" if _FUZZY.search(entry["comments"]) else ""
            # Without a translation, it is empty even if it is marked.
            kind = mark if all(forms) else "empty"
            yield entry, sources, forms, "header" if is_header else kind


def read_units(path: Path, languages: Sequence[str]) -> Iterator[Sides | str]:
    """Yields both sides of each translated text, or the kind of an entry that is skipped.

    An entry with a plural has several such texts. `languages` are those of source and target; the
    header may name another target language.

    Raises:
        UserError: the file cannot be read, or a line is not in PO's syntax.
    """
    source_language, language = languages
    text, _ = read_text(path)
    for _, sources, forms, kind in entries(path, text):
        if kind == "header" and (named := re.search(r"(?m)^Language: *([\w-]+)", forms[0])):
            language = named[1]
            # With "-" at the end: "de-at-" begins with "de-", but "del-" does not.
            tag, *sides = [f"{code}-".lower().replace("_", "-") for code in (language, *languages)]
            # A file that translates into the source language has its texts in the target language.
            is_reversed = tag.startswith(sides[0]) and not tag.startswith(sides[1])
            source_language = languages[1 if is_reversed else 0]
        if kind:
            yield kind
            continue
        # The first form is paired with the singular, the last with the plural. If there is only one
        # form, it is listed twice, and only paired with the last of the sources.
        for source, form in zip(sources[-len(forms) :], forms[:1] + forms[-1:], strict=False):
            yield [(source_language, CONTROL.sub("", source)), (language, CONTROL.sub("", form))]


def fill(path: Path, text: str, translate: Translate) -> Iterator[list[Edit]]:
    """Yields the edits of each entry without a translation: they add one, and mark it as fuzzy.

    The list is empty if a text has no sound translation.

    Raises:
        UserError: a line is not in PO's syntax, or the header's rule of plural forms not in C's.
    """
    # By default, the number 1 has the first of two forms. `form_of[n]` is the form of a number n.
    form_count, form_of = 2, [1, 0]
    for entry, sources, forms, kind in entries(path, text):
        if kind == "header" and (rule := _PLURAL.search(forms[0])):
            form_count, form_of = _plural_rule(path, rule)
        if kind != "empty" or not sources[0].strip() or _NO_TEXT.fullmatch(sources[0]):
            continue
        new_forms = translations = [translate(source) for source in sources]
        if not all(translations):
            yield []
            continue
        if entry["plural"]:
            singular = _singular_form(sources, form_count, form_of)
            new_forms = [translations[0 if form == singular else 1] for form in range(form_count)]
        newline = "\r\n" if "\r\n" in entry[0] else "\n"
        yield [_forms_edit(entry, new_forms, newline), *_fuzzy_edits(entry, newline)]


def _plural_rule(path: Path, rule: re.Match[str]) -> tuple[int, list[int]]:
    """Returns the number of plural forms, and the form of each number below 1000.

    Raises:
        UserError: the rule is not in C's syntax, or divides by 0; `path` is that of the file.
    """
    try:
        return int(rule[1]), [*map(c2py(rule[2]), range(1000))]
    except (ValueError, ZeroDivisionError) as error:
        raise UserError(f"{path}: {short(rule[0])}, expected a rule in C.") from error


def _singular_form(sources: Sequence[str], form_count: int, form_of: Sequence[int]) -> int | None:
    """Returns the plural form that is translated from the singular; others are from the plural.

    None means that all forms are translated from the plural.
    """
    # It is the form of the number 1. But many others may have it, as 21 and 31 in Russian, or all:
    # then "a tree" cannot stand for "%d trees". For a few, as 0 in French, it can: msgfmt counts up
    # to 1,000, too, and demands the plural's placeholders only where five or more have the form.
    is_rare = form_of.count(form_of[1]) < 5
    # With the plural's placeholders it fits many numbers, too; but not all, as the only form.
    fits_many = form_count > 1 and kept(sources[0]) == kept(sources[1])
    return form_of[1] if is_rare or fits_many else None


def _forms_edit(entry: re.Match[str], texts: Sequence[str], newline: str) -> Edit:
    """Returns the edit that writes these texts as an entry's forms; those that have a text stay."""
    name = "msgstr[{}]" if entry["plural"] else "msgstr"
    # Lines of the file, by the number of the form. There may be more forms than the header says.
    lines = {i: f"{name.format(i)} {_quoted(text, newline)}" for i, text in enumerate(texts)}
    for number, form in enumerate(re.finditer(_FORM, entry["forms"])):
        if _unquoted(form[0]):
            lines[number] = form[0].strip()
    ending = newline if entry["forms"].endswith("\n") else ""
    return *entry.span("forms"), newline.join(lines.values()) + ending


def _fuzzy_edits(entry: re.Match[str], newline: str) -> list[Edit]:
    """Returns the edit that marks an entry as fuzzy; none if it is marked already."""
    flags = _FLAGS.search(entry["comments"])
    if flags is None or _FUZZY.search(entry["comments"]):
        return []
    index = entry.start() + flags.end()
    return [(index, index, " fuzzy," if flags[0] else f"#, fuzzy{newline}")]


def _unquoted(strings: str) -> str:
    r"""Returns the text of quoted strings, joined, with C's escapes decoded.

    Octal escapes may be bytes of UTF-8: "caf\303\251" is café.
    """
    # unicode_escape reads each byte as a character of Latin-1, and gives one for each escape, too.
    # Written in Latin-1, they are bytes again, now all of UTF-8.
    inner = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', strings)).encode()
    content = inner.decode("unicode_escape", "replace").encode("latin-1", "replace")
    return content.decode(errors="replace")


def _quoted(text: str, newline: str) -> str:
    """Returns a text in quotes, a string a line; Gettext puts "" in front of several lines."""
    # JSON's escapes are also C's.
    quoted = [json.dumps(line, ensure_ascii=False) for line in re.split(r"(?<=\n)(?!\Z)", text)]
    return newline.join(['""', *quoted] if len(quoted) > 1 else quoted)
