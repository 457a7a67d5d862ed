"""Runs Weblate's checks on .po files that `translate --file` filled, and on what a server answers.

EMPTY, FILLED and PEOPLE are folders of the same files: with entries without translation, filled,
and as people translated them. It shows and counts those of these entries that fail a check, also as
the server answers Weblate's class for LibreTranslate (environment: libretranslate_clients.sh):

    /tmp/libretranslate_clients/bin/python scripts/weblate_checks.py EMPTY FILLED PEOPLE pt_BR [URL]
"""
# ruff: noqa: E402, D103

import re
import sys
from collections import Counter
from pathlib import Path
from unittest.mock import MagicMock

import django.conf

sys.modules |= dict.fromkeys(("cairo", "gi", "gi.repository", "tesserocr"), MagicMock())
from weblate import settings_example

values = {name: value for name, value in vars(settings_example).items() if name.isupper()}
memory = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
django.conf.settings.configure(**values | {"CACHES": {"default": memory}, "DATABASES": {}})
django.setup()

from translate.storage.pypo import pofile
from weblate.checks.base import BatchCheckMixin
from weblate.checks.models import CHECKS
from weblate.checks.tests.test_checks import MockComponent, MockUnit
from weblate.formats.ttkit import PoFormat
from weblate.machinery.libretranslate import LibreTranslateTranslation

MockComponent.file_format_cls, MockComponent.is_glossary = PoFormat, False
# Checks of a whole project ask its database.
CHECKED = {n: one for n, one in CHECKS.target.items() if not isinstance(one, BatchCheckMixin)}
CHECKED.pop("check_glossary")
# Catalogues from packages may have lost their flags.
GUESSED = {
    "python-format": re.compile(r"%\(\w+\)[a-z]"),
    "python-brace-format": re.compile(r"(?<![{$])\{\w*\}"),
    "qt-format": re.compile(r"%L?[1-9](?![\d$.])"),
}


def texts(text):
    return [str(one) for one in getattr(text, "strings", [text])]


def read(path):
    units = [unit for unit in pofile.parsefile(str(path)).units if not unit.isheader()]
    return {(unit.getcontext(), *texts(unit.source)): unit for unit in units}


def unit_of(entry, language, targets):
    sources = texts(entry.source)
    flags = {*re.findall(r"[a-z-]+-format", " ".join(entry.typecomments))}
    flags = flags or {flag for flag, sign in GUESSED.items() if sign.search(sources[0])}
    return MockUnit(None, ",".join(flags), language, sources, target=targets)


def report(title, units):
    failed = Counter()
    for one in units:
        ids = [n for n, c in CHECKED.items() if c.check_target(one.sources, one.targets, one)]
        failed.update([*ids, *["any check"][: len(ids)]])
        failed["any check but same"] += ids not in ([], ["same"])
        if ids:
            print(title, ids, one.sources, one.targets, sep="\t")
    formats = sum("-format" in one.flags.format() for one in units)
    return f"{title}: {len(units)} entries, {formats} with a format; fail: {dict(failed)}"


empty, filled, people, language, *url = sys.argv[1:]
found = {"filled": [], "people": [], "served": []}
for path in sorted(Path(filled).glob("*.po")):
    new, old = read(path), read(Path(people, path.name))
    for key, entry in read(Path(empty, path.name)).items():
        if any(texts(entry.target)) or not any(texts(new[key].target)):
            continue
        for title, units in ("filled", new), ("people", old):
            found[title].append(unit_of(entry, language, texts(units[key].target)))
        if url:
            one, code = found["filled"][-1], language.replace("_", "-")
            service = LibreTranslateTranslation({"url": url[0], "key": ""})
            sent = [service.cleanup_text(text, one) for text in one.sources]
            best = service.download_multiple_translations("en", code, sent)
            back = [service.uncleanup_text(marks, best[text][0]["text"]) for text, marks in sent]
            found["served"].append(unit_of(entry, language, back))
print(*[report(title, units) for title, units in found.items()], sep="\n")
