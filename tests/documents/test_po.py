"""Catalogues: what is empty is filled and fuzzy, all else stays; what the model breaks is empty."""

import re

import pytest

from t2t_repro.documents import po
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
        '«→#, fuzzy\n»msgid "Save _tree"\nmsgstr "«→_Savä éöää»"\n',
        '«→#, fuzzy\n»msgid "S&ave"\nmsgstr "«→&Savä»"\n',
        '«→#, fuzzy\n»msgid "AT&T a_b"\nmsgstr "«→AT&T a_b»"\n',
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_empty_entry_is_filled_and_all_else_stays(tmp_path, entry, newline):
    text = HEADER + DONE + entry + ("\n" + DONE) * entry.endswith(("\n", "\n»"))
    before, after = both(text.replace("\n", newline))
    assert fill_all(po.fill, before, tmp_path) == (after, 0)


@pytest.mark.parametrize(
    ("source", "model"),
    [
        ("at the tree %s", "%d"),
        ("%s of %d trees", "%d of %s"),
        ("_Save", "S_ave _it"),
        ("_Save", "..."),
        ("the \\a tree", "the tree"),
    ],
)
def test_what_the_model_breaks_stays_empty_and_is_counted(tmp_path, source, model):
    text = HEADER + f'msgid "{source}"\nmsgstr ""\n\nmsgid "tree"\nmsgstr ""\n'
    new = text.replace('msgid "tree"\nmsgstr ""', '#, fuzzy\nmsgid "tree"\nmsgstr "a"')

    def translate(source):
        return "a" if source == "tree" else translated(source, lambda text: model)

    assert fill_all(po.fill, text, tmp_path, translate=translate) == (new, 1)


@pytest.mark.parametrize(
    ("text", "line"),
    [('msgid "a"\nmsgstr "b\n', 1), ('msgid "a"\nmsgstr "b"\nmsgst "c"\n', 3), ("<tmx>", 1)],
)
def test_a_line_that_is_not_po_s_is_named(tmp_path, text, line):
    with pytest.raises(UserError, match=f"line {line}: received"):
        fill_all(po.fill, text, tmp_path)


def test_a_rule_of_plural_forms_that_is_not_c_s_is_an_error(tmp_path):
    with pytest.raises(UserError, match="nplurals=3"):
        fill_all(po.fill, re.sub("n%10==1", "n=>", HEADER), tmp_path)
