"""HTML: markup stays, and nothing is lost."""

import random
from time import process_time

import pytest

from t2t_repro.documents.html import html_of, split_html


@pytest.mark.parametrize(
    "kept",
    [
        "<script>if (a<b) { tree }</script>",
        "<pre>a <b>tree</b>\n <pre>x</pre> y</pre>",
        "<div lang=en translate=no>a <div>b</div> <br translate='no'> c</div>",
        '<i translate="NO">a tree',
        "<!-- a > b -->",
        "<a title='x > y' href=it's>",
        "<!-- a tree",
        "<p class='x notranslate'>a tree</p>",
        "<a href=/><i>https://</i>x.org/<b>a</b></a>",
        "@<b>paul</b>, :<i>smile</i>: {<b>name</b>} a@<b>b.org</b>",
        "<img class=notranslate> <b>(</b>",
        "<?php if ($a->b) { echo 'a tree'; } ?>",
        "<%= a > tree %>",
        "<p {% if a > b %}class=tree{% endif %} <% a -> tree %>>",
        "<textarea>a tree\n\n b</textarea>",
    ],
)
def test_what_is_not_a_sentence_stays(kept):
    pieces = [*split_html(f"a tree {kept}")]
    assert [text for _, text in pieces if text] == ["a tree"]


def test_a_text_without_letters_stays():
    html = "&nbsp;See <a>it</a>! <code>x</code> &amp; <b>go</b>: (<i>A &lt;\n B</i>), https://x.org&nbsp;1"
    texts = ["\xa0See <a=0>it</a=1>!", "go", "A < B", "), https://x.org\xa01"]
    assert [text for _, text in split_html(html) if text] == texts


def test_text_is_escaped():
    assert html_of('a < b & "c"\xa0') == 'a &lt; b &amp; "c"\xa0'
    with_code = "{{> a}} &gt;&nbsp;{% b > c %}"
    assert html_of("{{> a}} >\xa0{% b > c %}", with_code) == with_code


def test_an_element_that_stays_ends_without_its_end_tag_as_in_html():
    html = (
        "<ul><li translate=no>a</b><ul><li>b<li>c</ul></p>d<li>tree</ul><p translate=no>a<div>tree"
        "</div><table><tr translate=no><td>a<td><p>b<tr><td>tree</table><dl><dt translate=no>a<dd>"
        "tree<dd translate=no>b</dl><div translate=no><p>a</section>b</div>tree<p translate=no>a <b"
        " translate=yes>tree <code>b</code> <i translate=no>c</i> tree</b> d</p>tree"
    )
    assert [text for _, text in split_html(html) if text] == ["tree"] * 8


@pytest.mark.parametrize("unit", ["a {{", "<p <% "])
def test_time_is_linear(unit):
    start = process_time()
    assert [html_of(text, piece) for piece, text in split_html(unit * 10_000)]
    assert process_time() - start < 5


@pytest.mark.parametrize(
    ("number", "character"),
    [("9" * 5000, "\ufffd"), (f"{65:05000}", "A"), (f"x{'f' * 5000}", "\ufffd"), ("0", "\ufffd")],
)
def test_numbers_of_characters_have_any_length(number, character):
    (text,) = [text for _, text in split_html(f"a &#{number}; b") if text]
    assert text == f"a {character} b"


def test_broken_html_loses_nothing():
    draw = random.Random(1)
    parts = [*"<>/!-=&;'\" \n", "a", "tree", "<p", "</p>", "<!--", "-->", "<pre>", "</pre>", "&#x"]
    for _ in range(2000):
        html = "".join(draw.choices(parts, k=20))
        assert "".join(piece for piece, _ in split_html(html)) == html
