"""Corpora from translators' files: which entries are pairs, and which text of them."""

import gzip
import tracemalloc

import pytest

from t2t_repro.errors import UserError
from tests.data.test_line_files import write
from translation_memory import TranslationMemoryCorpus

PO = r"""# A comment.
msgid ""
msgstr "Language: de_DE\nContent-Type: text/plain; charset=UTF-8\n"

#, c-format
msgid "&Save %s"
msgstr "%s &speichern"

msgctxt "menu"
msgid "Open A_ll\n"
"files"
msgstr "Alle (_O)"

msgid "a bell\a rings"
msgstr "es läutet"

msgid "One tree"
msgid_plural "%d trees"
msgstr[0] "Ein Baum"
msgstr[1] "%d Bäume"

#, fuzzy
msgid "fuzzy"
msgstr "unscharf"

msgid "empty"
msgstr ""

#~ msgid "obsolete"
#~ msgstr "alt"
"""
TMX = """<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="fr"/><body>
<tu><note>x</note><tuv xml:lang="DE"><seg>Der <bpt i="1">&lt;b></bpt>Baum<ept i="1"/> &amp;
 das <hi>Haus</hi></seg></tuv><tuv xml:lang="en-US"><seg>color</seg></tuv>
<tuv xml:lang="EN"><seg>The <ph>{}<sub>x</sub></ph>tree</seg></tuv></tu>
<tu><tuv lang="en_GB"><seg>Colour</seg></tuv><tuv lang="de"><seg>Farbe</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>a</seg></tuv><tuv xml:lang="deu"><seg>b</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>a</seg></tuv><tuv xml:lang="de"><seg> </seg></tuv></tu>
</body></tmx>"""
XLIFF = """<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en-US">
<body><group><trans-unit><source>One<x ctype="lb"/>tree</source><target>Ein <g>Baum</g></target>
<alt-trans><target>x</target></alt-trans></trans-unit>
<trans-unit><source>a</source><target state="needs-review-translation">b</target></trans-unit>
<trans-unit approved="no"><source>a</source><target>b</target></trans-unit>
<trans-unit><source>a b</source><target><mrk mid="0">a</mrk><mrk mid="1"/></target></trans-unit>
<trans-unit><target/><source>a</source></trans-unit><trans-unit><source>a</source></trans-unit>
</group></body></file></xliff>"""
XLIFF_2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" trgLang="{}">
<file><unit><segment><source>One <pc><ph/>tree</pc></source><target>Ein Baum</target></segment>
<segment state="initial"><source>a</source><target>b</target></segment></unit></file></xliff>"""


@pytest.mark.parametrize(
    ("name", "text", "pairs", "skipped"),
    [
        (
            "a.PO",
            PO,
            [
                ("Save %s", "%s speichern"),
                ("Open All files", "Alle"),
                ("a bell rings", "es läutet"),
                ("One tree", "Ein Baum"),
                ("%d trees", "%d Bäume"),
            ],
            "1 header, 1 fuzzy, 1 empty, 1 obsolete",
        ),
        (
            "a.tmx",
            TMX,
            [("The tree", "Der Baum & das Haus"), ("Colour", "Farbe")],
            "1 in other languages, 1 empty",
        ),
        ("a.xlf", XLIFF, [("One tree", "Ein Baum")], "3 fuzzy, 2 empty"),
        ("a.xliff", XLIFF_2.format("de-AT"), [("One tree", "Ein Baum")], "1 fuzzy"),
    ],
)
def test_pairs_are_read_and_the_rest_is_counted(tmp_path, caplog, name, text, pairs, skipped):
    write(tmp_path / name, text)
    caplog.set_level("INFO", "absl")
    corpus = TranslationMemoryCorpus(train=[str(tmp_path / "**/a.*")], target_language="de")
    corpus.prepare(tmp_path)
    assert [*corpus.read("train", tmp_path)] == pairs
    report = caplog.messages[-1].split(": ")[-1].split(", ")
    assert {*report} == {*skipped.split(", "), f"{len(pairs)} pairs"}
    assert corpus.describe()["splits"]["train"][0]["name"] == name


def test_other_languages_make_no_pairs(tmp_path):
    corpus = TranslationMemoryCorpus(write(tmp_path / "a.PO", PO), None, None, "de", "en")
    assert next(corpus.read("train", tmp_path)) == ("%s speichern", "Save %s")
    path = write(tmp_path / "a.xliff", XLIFF_2.format("fr"))
    with pytest.raises(UserError, match="expected pairs of en and de"):
        TranslationMemoryCorpus(train=path).prepare(tmp_path)
    with pytest.raises(UserError, match="no file"):
        TranslationMemoryCorpus(train=[path, str(tmp_path / "*.po")]).prepare(tmp_path)


def test_a_broken_archive_is_named(tmp_path):
    path = write(tmp_path / "a.tmx.gz", gzip.compress(TMX.encode())[:-9])
    with pytest.raises(UserError, match="not a whole compressed file"):
        TranslationMemoryCorpus(train=path).prepare(tmp_path)


def test_memory_does_not_grow_with_the_file(tmp_path):
    unit = TMX[TMX.index("<tu>") : TMX.index("</body>")]
    path = write(tmp_path / "a.tmx", TMX.replace(unit, unit * 500))
    corpus = TranslationMemoryCorpus(train=path)
    tracemalloc.start()
    assert sum(1 for _ in corpus.read("train", tmp_path)) == 1000
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
