"""Catalogues: what is empty is filled and fuzzy, all else stays; what the model breaks is empty."""

import re

import pytest

from t2t_repro.decoding.search import Translation
from t2t_repro.documents import po
from t2t_repro.documents.edits import read_text, sound_text
from t2t_repro.errors import UserError
from tests.documents.filling import both, fill_all, translated

HEADER = (
    'msgid ""\nmsgstr ""\n"Language: ru\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
    '"Plural-Forms: nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 ? 1 : 2);\\n"\n\n'
)
DONE = (
    '# a\n#: a.c:1\n#, c-format\nmsgctxt "x"\nmsgid ""\n"One %s\\n"\n"two"\nmsgstr "Ein %s"\n'
    '\n#, fuzzy\nmsgid "b"\nmsgstr   "B"\n\n#~ msgid "c"\n#~ msgstr ""\n\n'
)


@pytest.mark.parametrize(
    "entry",
    [
        '«→#, fuzzy\n»msgid "tree"\nmsgstr "«→éöää»"\n',
        '#. b\n«→#, fuzzy\n»msgctxt "a"\nmsgid "tree"\nmsgstr "«→éöää»"',
        '#,«→ fuzzy,» c-format\n#| msgid "t"\nmsgid "at %d"\nmsgstr «""\n""→"aé %d"»\n',
        '#| msgid "t"\n#, fuzzy\nmsgid "tree"\nmsgstr "«→éöää»"\n',
        '«→#, fuzzy\n»#| msgid "t"\nmsgid "a\\n"\n"\\"t\\"\\\\"\nmsgstr ""\n'
        '«→"a\\n"\n"\\"é\\"\\\\"\n»',
        # 21 trees have the form of one tree, which needs the number, too.
        '«→#, fuzzy\n»msgid "%d tree"\nmsgid_plural "%d trees"\n'
        'msgstr[0] "«→%d éöää»"\nmsgstr[1] "«→%d éöääs»"\n«→msgstr[2] "%d éöääs"\n»',
        '«→#, fuzzy\n»msgid "a tree"\nmsgid_plural "%d trees"\n'
        'msgstr[0] "«→%d éöääs»"\nmsgstr[1] "«→%d éöääs»"\nmsgstr[2] "«→%d éöääs»"\n',
        # A form that is there stays.
        '«→#, fuzzy\n»msgid "%d tree"\nmsgid_plural "%d trees"\nmsgstr[0]  "B"\n'
        'msgstr[1] "«→%d éöääs»"\n«→msgstr[2] "%d éöääs"\n»',
        '«→#, fuzzy\n»msgid "5% tree, 5 % tree"\nmsgstr "«→5% éöää, 5 % éöää»"\n',
        '«→#, fuzzy\n»msgid "Save _tree"\nmsgstr "«→_Savä éöää»"\n',
        '«→#, fuzzy\n»msgid "S&ave"\nmsgstr "«→&Savä»"\n',
        '«→#, fuzzy\n»msgid "AT&T a_b"\nmsgstr "«→AT&T a_b»"\n',
        # Blanks and blank lines, bytes of UTF-8, and a name.
        '«→#, fuzzy\n»  msgid "t" "r"\n\n"ee"\n\n  msgstr "«→éöää»"\n',
        '«→#, fuzzy\n»msgid "\\303\\274\\x74"\nmsgstr "«→üé»"\n',
        '«→#, fuzzy\n»msgid "<b>%.2f Mb</b>"\nmsgstr "«→<b>%.2f Mb</b>»"\n',
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_empty_entry_is_filled_and_all_else_stays(tmp_path, entry, newline):
    text = HEADER + DONE + entry + ("\n" + DONE) * entry.endswith(("\n", "\n»"))
    before, after = both(text.replace("\n", newline))
    assert fill_all(po.fill, before, tmp_path) == (after, 0)
    # Blanks may follow the last line.
    assert fill_all(po.fill, f"{before}{newline}  ", tmp_path) == (f"{after}{newline}  ", 0)
    # Ends of lines are those of the entry.
    assert fill_all(po.fill, f"#\r\n\n{before}", tmp_path) == (f"#\r\n\n{after}", 0)


@pytest.mark.parametrize(
    ("source", "model"),
    [
        ("at the tree %s", "%d"),
        ("%s of %d trees", "%d of %s"),
        ("_Save", "S_ave _it"),
        ("_Save", "..."),
        ("the \\a tree", "the tree"),
        ("the tree", "the \a tree"),
        ("% d trees", "d trees"),
        ("{n, plural, one {# tree} other {# trees}}", "B"),
    ],
)
def test_what_the_model_breaks_stays_empty_and_is_counted(tmp_path, source, model):
    text = HEADER + f'msgid "{source}"\nmsgstr ""\n\nmsgid "tree"\nmsgstr ""\n'
    new = text.replace('msgid "tree"\nmsgstr ""', '#, fuzzy\nmsgid "tree"\nmsgstr "a"')

    def translate(source):
        return "a" if source == "tree" else translated(source, lambda text: model)

    assert fill_all(po.fill, text, tmp_path, translate=translate) == (new, 1)


BAD = [(b'msgid "a"\nmsgstr "b\n', 1), (b'\nmsgid "a"\nmsgstr "b"\n<tmx>', 4), (b"\n# \xe9", 2)]
BAD += [(HEADER.replace("UTF-8", name).encode(), 1) for name in ("idna", "punycode", "rot13")]


@pytest.mark.parametrize(("content", "line"), BAD)
def test_a_line_that_is_not_po_s_is_named(tmp_path, content, line):
    (tmp_path / "a.po").write_bytes(content)
    with pytest.raises(UserError, match=rf"a\.po, line {line}: "):
        [*po.read_units(tmp_path / "a.po", ("en", "de"))]


def test_a_rule_of_plural_forms_that_is_not_c_s_is_an_error(tmp_path):
    with pytest.raises(UserError, match="nplurals=3"):
        fill_all(po.fill, re.sub("n%10==1", "n=>", HEADER), tmp_path)


ONE_IS_ALONE, ONE_IS_MANY = "3; plural=n==1 ? 0 : n<5 ? 1 : 2;", "2; plural=n%10!=1 || n%100==11;"


@pytest.mark.parametrize(
    ("rule", "forms"), [("1; plural=0;", "D"), (ONE_IS_ALONE, "ODD"), (ONE_IS_MANY, "DD")]
)
def test_one_has_a_form_without_its_number_where_few_others_have_it(tmp_path, rule, forms):
    text = re.sub("=3.*;", f"={rule}", HEADER) + 'msgid "O"\nmsgid_plural "D %d"\nmsgstr[0] ""\n'
    new, _ = fill_all(po.fill, text, tmp_path, translate=lambda source: source)
    assert "".join(re.findall(r'msgstr\[\d\] "(.)', new)) == forms


def test_the_encoding_is_that_of_the_header_and_what_it_lacks_stays(tmp_path):
    (tmp_path / "a.po").write_bytes(b"# \n" * 3000 + HEADER.replace("UTF-8", "cp1251").encode())
    _, encoding = read_text(tmp_path / "a.po")
    found = [sound_text("a", Translation(text, 0.0), encoding) for text in ("дом", "é")]
    assert found == ["дом", ""]


@pytest.mark.parametrize(
    ("start", "encoding"),
    [
        ("<x><source>charset=cp1251", "utf-8"),
        ("<xliff><![CDATA[<meta charset=cp1251>]]>", "utf-8"),
        ("<!-- <meta charset=cp1251> -->", "utf-8"),
        ("\ufeff<meta charset=cp1251>", "utf-8"),
        ("<meta charset=cp1251>", "cp1251"),
        ("<meta charset=ISO-8859-1>é", "ISO-8859-1"),
        ("<meta charset=ISO-8859-1>’", "cp1252"),
        ("<meta charset=utf-16>", "utf-8"),
    ],
)
def test_the_encoding_of_a_page_and_of_xml_is_what_its_beginning_says(tmp_path, start, encoding):
    (tmp_path / "a").write_text(start, encoding="utf-8")
    assert read_text(tmp_path / "a")[1] == encoding
