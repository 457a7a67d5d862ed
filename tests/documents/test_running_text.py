"""Subtitles and HTML: times and markup stay."""

import pytest

from t2t_repro.documents.running_text import fill_html, fill_subtitles
from t2t_repro.errors import UserError
from tests.documents.filling import fill_all


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_each_speaker_of_a_cue_is_translated_and_wrapped(tmp_path, newline):
    cue = "1\n00:00:01,000 --> 00:00:02,500 X1:1\n"
    text = (
        f'\ufeff{cue}the tree and the house and\nthe river <font color="red">tree</font>\n\n'
        f"{cue}- A tree.\n<i>- A tree?</i>\n{{\\an8}}- A tree\n>> A tree\n"
        " 2 \n00:01:00,000 --> 00:02:00,000\n42\n\n"
    )
    expected = (
        f'\ufeff{cue}éüä éöää aßd éüä üousä aßd éüä öiväö\n<font color="red">éöää</font>\n\n'
        f"{cue}- A éöää.\n<i>- A éöää?</i>\n{{\\an8}}- A éöää\n>> A éöää\n"
        " 2 \n00:01:00,000 --> 00:02:00,000\n42\n\n"
    )
    text += "1\n0 --> 1\n日本，\n語\n7\n1 --> 2\nA tree --> B\n[tree]\n"
    expected += "1\n0 --> 1\n日本，語\n7\n1 --> 2\nA éöää --> B\n[éöää]\n"
    before, after = (one.replace("\n", newline) for one in (text, expected))
    assert fill_all(fill_subtitles, before, tmp_path) == (after, 0)


@pytest.mark.parametrize("text", ["WEBVTT\n\nX --> Y\n", "1\r0 --> 1\rA tree\r", "A tree\n"])
def test_what_is_not_subrip_is_refused(tmp_path, text):
    with pytest.raises(UserError, match="SubRip"):
        fill_all(fill_subtitles, text, tmp_path)


def test_html_keeps_its_markup(tmp_path):
    html = '<html lang="en"><p title="t">A <b>tree</b> &amp; %s.</p><pre>tree</pre></html>'
    new = '<html lang="en"><p title="t">A <b>éöää</b> &amp; %s.</p><pre>tree</pre></html>'
    assert fill_all(fill_html, html, tmp_path) == (new, 0)
