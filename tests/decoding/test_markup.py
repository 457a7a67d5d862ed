"""Markup follows the words: nothing is lost or doubled, and well-formed text stays well-formed."""

import random
import re
from types import SimpleNamespace

import pytest

from t2t_repro.decoding.kept import kept
from t2t_repro.decoding.markup import elements, insert_markup
from t2t_repro.decoding.search import Translation
from t2t_repro.decoding.sentences import find_aligner, translate_sentences
from t2t_repro.decoding.translator import Translator
from t2t_repro.documents.html import html_of, split_html
from t2t_repro.text.subword_model import shared
from tests.decoding.stand_in import StandIn

WORDS = ["tree", "a", "Go.", "(so)", "Yes:", "%s", "5", "un-do", '"x"', "it! On", "é&amp;", "你好"]
EMPTY = ["<br>", '<wbr id="1"/>', "<br/>", "<i></i>", "<u> <br></u>"]
TAGS = [("<b>", "</b>"), ('<a href="x">', "</a>"), ("<i>", "</i>")]


def tree(draw, depth=0):
    parts = []
    for _ in range(draw.randrange(1, 5)):
        if draw.random() < 0.5 and depth < 3:
            parts.append(tree(draw, depth + 1).join(draw.choice(TAGS)))
        else:
            parts.append(draw.choice(WORDS[: draw.choice([-1, None])] + EMPTY[: draw.randrange(6)]))
    return draw.choice([" ", " ", " ", ""]).join(parts)


@pytest.mark.parametrize("kind", ["text", "html", "no alignment"])
def test_any_translation_and_alignment_keeps_well_formed_text(kind):
    draw = random.Random(1)

    def translate(texts):
        for text in texts:
            # With tags, in any order.
            words = re.findall(r"<[^>]*>|[^\s<]+", text) + ["ja", "(nein)"][: draw.randrange(3)]
            translation = " ".join(draw.sample(words, k=len(words)))
            yield Translation(translation, 0.0, truncated=draw.random() < 0.05)

    def align(sources, targets):
        for source, target in zip(sources, targets, strict=True):
            yield {n: draw.randrange(len(source.split())) for n, _ in enumerate(target.split())}

    def translated(text):
        aligner = align if kind != "no alignment" else None
        (row,) = translate_sentences([text], "en", translate, align=aligner)
        assert kept(row.text) == kept(text)
        return row.text

    for _ in range(1500):
        line = tree(draw)
        pieces = split_html(line) if kind == "html" else [(line, line)]
        write = html_of if kind == "html" else lambda text, piece: text
        found = "".join(write(translated(text), piece) if text else piece for piece, text in pieces)
        assert sorted(re.findall("<[^>]*>", found)) == sorted(re.findall("<[^>]*>", line))
        assert len(elements(found)) == len(elements(line))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # Words have the numbers of their source words.
        ("Go to <b>the <i>blue</i> car</b>.", "Geh:0 zum:1 <b>Auto:4 <i>blau:3</i></b>."),
        ("<b>Note:</b> (<i>it</i>) is", "<b>Nota:0:</b> so:2 (<i>es:1</i>)"),
        ("a <b>b c</b> d", "v:1 w:0 u:0 <b>x:1 y:3 z:2</b> d:3"),
        ("Use <wbr/> in <br>it!", "<wbr/> In:1 <br>es:2 nimm:0!"),
        ("Use <x/>the file<x/> in it!", "<x/>Die:1 Datei:2<x/> in:3 ihm:4 nimm:0!"),
        ("Use it <wbr/>!", "Es:1 nimm:0 <wbr/>!"),
        ("Go<b> on</b> now", "Jetzt:2 los:0 <b>an:1</b>"),
        ("Use <br/><b><wbr/>it</b>!", "<br/><b><wbr/>Es:1</b> nimm:0!"),
        ("Use <x/> for <i></i>it!", "<x/> Für:1 <i></i>es:2 nimm:0!"),
        ("<b>Save <i>%s</i></b> now", "jetzt:2 <b><i>%s:1</i> spare:0</b>"),
        ("<b>Go <i>(on)</i></b> now", "jetzt:2 (<b><i>an:1)</i> los:0</b>"),
        ("<b>It</b> <i>is</i>", "<i>Ist:1</i> <b>es:0</b>"),
        # Nothing aligns with an element, or words have no blanks.
        ("Go <b>on</b> now", ""),
        ("<b>Go</b> on", "走:0 开:1"),
    ],
)
def test_markup_goes_around_the_words_that_align(line, expected):
    words = re.sub(" <wbr/>(?=!)|<[^>]*>", "", expected or "Los:0 jetzt:2").split()
    links = {n: int(re.findall(r"\d", word)[0]) for n, word in enumerate(words)}
    found = insert_markup(line, re.sub(r":\d", "", " ".join(words)), links)
    assert found == re.sub(r":\d", "", expected if "走" not in expected else "")


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("<b>One.</b> Two <i>are</i> here. ", ["One.", "Two are here."]),
        ("(1) <p><b>Go</b> on: <i>it</i></p>", ["Go on: it"]),
        (">>de<< Go <b>on</b>", [">>de<< Go on"]),
        # A tag cuts a word, an ill-formed text, and one without alignment: in parts.
        ("Hit Ctrl+<b>C</b>", ["Hit Ctrl+<b>C</b>", "Hit Ctrl", "C"]),
        ("Go <b>on <i>x</b> y</i>", ["Go <b>on <i>x</b> y", "Go", "on", "x", "y"]),
        ("no <b>links</b> here", ["no links here", "no", "links", "here"]),
    ],
)
def test_a_model_gets_sentences_without_markup(line, asked):
    translate = StandIn(lambda text: re.sub("^>>de<< |</?[bi]>", "", text))

    def align(sources, targets):
        for source, target in zip(sources, targets, strict=True):
            shift = len(source.split()) - len(target.split())
            yield {n: n + shift for n, _ in enumerate(target.split()) if "links" not in source}

    (row,) = translate_sentences([line], "en", translate, align=align)
    assert (row.text, translate.asked) == (line.removeprefix(">>de<< "), asked)


def test_only_one_model_aligns_and_a_tag_is_no_word(model, subwords):
    translator = Translator([model], shared(subwords))
    align = find_aligner(translator, "the a")
    assert align
    (links,) = align(["red bird"], ["a tree sees"])
    (line,) = translator.align(["the a red bird"], ["a tree sees"])
    assert " ".join(f"{source + 2}-{target}" for target, source in links.items()) == line
    assert find_aligner(Translator([model, model], shared(subwords))) is None
    assert find_aligner(SimpleNamespace(align=None, aligns=False)) is None
