"""What is on the page: all weights, nothing from outside, and no text that could act."""

import json
import re
from html.parser import HTMLParser

import numpy as np

from t2t_repro.attention.maps import AttentionMap, as_html

NASTY = """</script><script>alert(1)</script> <!-- "quotes" 'single' & &amp; \u2028 \udcff \\ ]]>"""


def attention(kind, layers=2, heads=3, queries=("a", "b"), keys=("x", "y", "z")):
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(len(keys)), (layers, heads, len(queries)))
    return AttentionMap(
        kind, kind.title(), "rows", "columns", list(queries), list(keys), weights.astype("f4")
    )


class Reader(HTMLParser):
    """The elements of a page as a browser's parser finds them."""

    def __init__(self, page):
        super().__init__()
        self.elements = []
        self.scripts = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.elements and self.elements[-1][0] == "script" and data.strip():
            self.scripts[-1] += data

    @property
    def data(self):
        return json.loads(self.scripts[0])


def test_the_page_holds_every_weight_to_a_thousandth():
    maps = [attention("encoder"), attention("cross", queries="cde")]
    data = Reader(as_html(maps, "a model", "x y z", "a b", "given")).data
    assert (data["model"], data["source"], data["target"]) == ("a model", "x y z", "a b")
    assert data["target_origin"] == "given"
    for ours, given in zip(data["kinds"], maps, strict=True):
        assert (ours["queries"], ours["keys"]) == (given.queries, given.keys)
        weights = np.array(ours["weights"]) / data["scale"]
        np.testing.assert_allclose(weights, given.weights, atol=0.5001 / 1000)


def test_the_page_needs_nothing_from_outside():
    page = as_html([attention("encoder")], "m", "s", "t", "given")
    for tag, attributes in Reader(page).elements:
        for name in ("src", "href", "action", "srcset", "data"):
            assert attributes.get(name, "data:,") == "data:,", tag
    assert not re.search(r"https?:|//\w+\.|@import|url\(|import\(|fetch\(", page)
    assert "default-src 'none'" in page


def test_text_of_any_kind_is_harmless():
    nasty = attention("cross", queries=[NASTY, "__DATA__"], keys=[NASTY, "$&", "$`"])
    plain = as_html([attention("cross")], "m", "s", "t", "o")
    page = as_html([nasty], *[NASTY] * 4)
    found, expected = Reader(page), Reader(plain)
    assert found.elements == expected.elements
    assert found.scripts[1:] == expected.scripts[1:]
    assert found.data["source"] == NASTY
    assert found.data["kinds"][0]["queries"] == [NASTY, "__DATA__"]
    assert found.data["kinds"][0]["keys"] == [NASTY, "$&", "$`"]
    # Nothing in the data can end the script, or begin a comment in it.
    assert not set("<>&") & set(found.scripts[0])
    page.encode("utf-8")
    # Nor does the script make markup of it.
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", page)
