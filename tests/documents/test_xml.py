"""XLIFF: targets are added, all else stays, and what comes out is well-formed."""

import pytest

from t2t_repro.documents import xml
from t2t_repro.errors import UserError
from tests.documents.filling import both, fill_all

OLD = '<xliff xmlns:o="o"><?p <trans-unit>?><!-- <source>t</source></trans-unit> -->\n{}\n</xliff>'
NEW = '<xliff version="2.0"><file><unit id="1">\n{}\n</unit></file></xliff>'
TARGET = '<target state="needs-review-translation">'
MANY = """<group translate="no"><group/><trans-unit><source>tree</source></trans-unit>
<trans-unit translate="yes"><source>tree</source>«→TARGETéöää</target>»</trans-unit></group>
<trans-unit><note>tree</note><source><![CDATA[tree <b>&]]></source>«→
TARGETéöää &lt;b&gt;&amp;</target>»<alt-trans><target/></alt-trans></trans-unit>
<trans-unit><source>tree</source><!-- t --><target><![CDATA[B]]></target
></trans-unit><trans-unit ><source>tree</source
>«→TARGETéöää</target>»<o:target>B</o:target></trans-unit>
<trans-unit><source>t</source><seg-source><mrk mid="0">tree</mrk></seg-source><note/>
«<target><mrk mid="0"/>→TARGET<mrk mid="0">éöää</mrk>»</target></trans-unit>
<trans-unit><source>t</source><seg-source><mrk mid="0">a</mrk><mrk mid="1">a <mrk><x id="b"/>t</mrk>
</mrk> <mrk mid="2"><g>tree</g></mrk><mrk mid="3"/></seg-source>«<target>→TARGET»<mrk mid="0">t</mrk
> <mrk mid="1" c="d"«/>→>a <mrk><x id="b"/>é</mrk>
</mrk>»  <mrk mid="2">«→<g>éöää</g>»</mrk><mrk mid="3"/></target></trans-unit>
<trans-unit><source>t <mrk mtype="protected"><mrk/>t</mrk> <x id="&lt;a>"/></source>«→
TARGETé <mrk mtype="protected"><mrk/>t</mrk> <x id="&lt;a>"/></target>»</trans-unit><trans-unit>
<source>t</source><target state="ne«w">t→eds-review-translation">é»</target></trans-unit>
<trans-unit><source>B</source><target state="needs-review-translation">B</target></trans-unit>
<trans-unit o:locked="true"><source>tree</source></trans-unit><trans-unit
o:locked="locked"><source>tree</source></trans-unit>
<trans-unit><source>t</source><seg-source><mrk mid="0">t</mrk></seg-source>
<target state="ne«w"><mrk mid="0">t→eds-review-translation"><mrk mid="0">é»</mrk></target>
</trans-unit><trans-unit><source>t</source><target>B</target><alt-trans><target/></alt-trans></trans-unit>
<trans-unit><source>tree&#13;
tree&#xD;</source>«→TARGETéöää&#13;
éöää&#xD;</target>»</trans-unit>"""


@pytest.mark.parametrize(
    ("around", "unit"),
    [
        (
            OLD,
            f'<trans-unit id="t">\n  <source>tree</source>«→\n  {TARGET}éöää</target>»\n  '
            "<note>t</note></trans-unit>",
        ),
        (
            OLD,
            "<trans-unit><source>t &lt;g&gt; &amp;</source><target xml:lang='x'«/→ "
            'state="needs-review-translation">é &lt;g&gt; &amp;</target»></trans-unit>',
        ),
        (
            OLD,
            '<trans-unit><source>a <g id="t">tree</g><ph id="2">&lt;t/></ph> <x id="3"/></source>'
            f'«<target>→{TARGET}a <g id="t">éöää</g><ph id="2">&lt;t/></ph> <x id="3"/>»</target>'
            "</trans-unit>",
        ),
        (
            NEW,
            '<segment id="t"«→ state="initial" subState="t2t:needs-review"»><source>tree '
            '<pc id="1">t</pc> <sm translate="no"/>t<em/> <sm translate="no"/>t</source>«→<target>'
            'éöää <pc id="1">é</pc> <sm translate="no"/>t<em/> <sm translate="no"/>t</target>»'
            "</segment>",
        ),
        (NEW, '<segment state="final"><source>tree</source><target>B</target></segment>'),
        (OLD, MANY.replace("→\n", "→").replace("TARGET", TARGET)),
        (OLD, "<trans-unit><source> </source><target/></trans-unit>"),
    ],
)
def test_a_unit_without_a_target_gets_one_and_all_else_stays(tmp_path, around, unit):
    before, after = both(around.format(unit))
    assert fill_all(xml.fill, before, tmp_path) == (after, 0)


def test_a_sentence_without_a_place_in_the_target_is_counted(tmp_path):
    segments = '<seg-source><mrk mid="0">t</mrk><mrk mid="1">t</mrk></seg-source>'
    target = '<target><mrk mid="0">B</mrk></target>'
    text = OLD.format(f"<trans-unit><source>t t</source>{segments}{target}</trans-unit>")
    assert fill_all(xml.fill, text, tmp_path) == (text, 1)


@pytest.mark.parametrize(
    "broken",
    ['a t</g><g id="1">', 'a <g id="1">t', 'a <g id="1">t</g><g id="1">t</g>', "a t", "a\x07"],
)
def test_a_unit_whose_tags_the_model_breaks_is_left(tmp_path, broken):
    text = OLD.format('<trans-unit><source>a <g id="1">tree</g></source></trans-unit>')
    assert fill_all(xml.fill, text, tmp_path, translate=lambda source: broken) == (text, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('<!DOCTYPE x [\n<!ENTITY a "b">]><x>&a;</x>', "entities"),
        (
            '<?xml version="1.0"?><!-- <x> --><!DOCTYPE x [<!ENTITY a SYSTEM "file:///x">]><x/>',
            "entities",
        ),
        ("<xliff>\n<b>a\x07</b></xliff>", "0x07.*line 2"),
        ("<xliff>\n<b></xliff>", "line 2"),
        ("<tmx/>", "<tmx>, expected <xliff>"),
        ("", "no element"),
        ('<?xml version="1.0" encoding="GBK"?><x/>', "iconv"),
    ],
)
def test_what_is_no_xml_of_ours_is_named_with_its_line(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        fill_all(xml.fill, text, tmp_path)
