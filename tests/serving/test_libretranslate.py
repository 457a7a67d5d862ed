"""LibreTranslate's protocol: served = translated, nothing is lost, and its errors."""

import json
import re
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
from aiohttp import FormData

from t2t_repro.decoding.sentences import translate_split
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.serving.libretranslate import Direction, read_directions, read_document
from t2t_repro.serving.predict import Answers
from t2t_repro.serving.server import Server
from t2t_repro.text.tags import Tags
from tests.serving.test_server import OPTIONS, PREDICT, answers

TEXT = "The red bird.  A tree. \r\n\r\n  a cloud\n"


@pytest.fixture(scope="module")
def server(translator):
    pairs = (("en", "de", ""), ("fr", "de", ""), ("de", "en", "the"), ("xx", "zh-Hans", ""))
    directions = [Direction(*pair, translator) for pair in pairs]
    return Server(translator, OPTIONS, directions, workers=2)


def ask(server, body, **values):
    """Returns status and answer, for a body or for values over a usual request."""
    if body is None:
        body = json.dumps({"q": "a tree", "source": "en", "target": "de"} | values)
    ((status, text),) = answers(server, ("POST", "/translate", body))
    return status, json.loads(text)


def translated(server, q, **values):
    status, answer = ask(server, None, q=q, **values)
    assert status == 200, answer
    return answer["translatedText"]


def in_sentences(translator, *texts):
    return [row.text for row in translate_split(translator, texts, "en")]


def test_forms_are_answered_as_json_and_fields_may_stand_in_the_url(server, translator):
    form = FormData({"q": TEXT, "source": "EN"}, default_to_multipart=True)
    (expected,) = in_sentences(translator, TEXT)
    ((_, text),) = answers(server, ("POST", "/translate?target=de", form()))
    assert json.loads(text) == {"translatedText": expected}
    texts = [TEXT, "", "the river"]
    assert translated(server, texts) == in_sentences(translator, *texts)


def test_breaks_of_lines_stay(server):
    breaks = r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]"
    text = "house\n\n\r\nthe river\rx\u2028a\x85b\n"
    assert re.findall(breaks, translated(server, text)) == re.findall(breaks, text)


def test_alternatives_are_the_next_of_the_beam(server, translator):
    found, sentence = translator.translate(["a blue house", "A tree."], 4)
    texts = [one.text for one in found]
    assert len({*texts}) == 4
    asked = {"q": ["a blue house", "A tree.  A tree."], "alternatives": "2"}
    status, answer = ask(server, None, **asked)
    assert (status, answer["translatedText"][0]) == (200, texts[0])
    assert answer["alternatives"][0] == texts[1:3]
    joined = ["  ".join([one.text] * 2) for one in sentence]
    assert [answer["translatedText"][1], *answer["alternatives"][1]] == joined[:3]


def test_the_tag_stands_before_every_sentence(server, translator):
    lines = ["the A tree.", "the The bird."]
    expected = " ".join(best.text for best, *_ in translator.translate(lines))
    assert translated(server, "A tree. The bird.", source="de", target="en") == expected


def test_the_mark_of_a_shortcut_key_is_not_translated(server, translator):
    (plain,) = in_sentences(translator, "The tree")
    assert translated(server, "T_he tree").replace("_", "", 1) == plain


def test_a_word_that_is_too_long_stays(server, translator):
    word = "x" * 1000
    (house,) = in_sentences(translator, "a blue house")
    assert word in translated(server, f"a blue house {word}")
    assert translated(server, f"{word}\na blue house") == f"{word}\n{house}"


def test_the_log_says_what_is_cut_off(translator, caplog):
    settings = replace(translator.settings, max_extra_length=0)
    cut = Translator(translator.models, translator.subwords, settings)
    direction = Direction("en", "de", "", cut)
    for translate in (direction.translate, Answers(cut).translate, Answers(cut, "en").translate):
        caplog.clear()
        translate(["The red bird sees a tree."])
        assert "1 texts: the translation is cut off" in caplog.text


def test_what_clients_ask_first(server):
    found = answers(server, ("GET", "/languages"), ("GET", "/frontend/settings"))
    languages, settings = (json.loads(text) for _, text in found)
    assert {one["code"]: (one["name"], one["targets"]) for one in languages} == {
        "en": ("English", ["de"]),
        "de": ("German", ["en"]),
        "fr": ("French", ["de"]),
        "xx": ("xx", ["zh-Hans"]),
        "zh-Hans": ("Simplified Chinese", []),
    }
    assert (settings["charLimit"], settings["keyRequired"]) == (2000, False)
    assert settings["language"]["target"]["name"] == "German"


def test_auto_is_the_only_source(server):
    status, answer = ask(server, None, source="auto", target="zh-Hans", q=["a", "b"])
    assert status == 200
    assert answer["detectedLanguage"] == [{"confidence": 0, "language": "xx"}] * 2
    assert ask(server, None, source="auto", target="de")[0] == 400


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"q": ""}, 400),
        ({"source": ""}, 400),
        ({"q": ["a", 5]}, 400),
        ({"q": "\ud800"}, 400),
        ({"q": ["a", *[""] * 30, " " * 1999]}, 200),
        ({"q": ["a"] * 33}, 400),
        ({"q": "a tree. " * 300}, 400),
        ({"q": "a" * 2**20}, 413),
        ({"source": None}, 400),
        ({"target": "fr"}, 400),
        ({"format": "xml"}, 400),
        ({"alternatives": "many"}, 400),
    ],
)
def test_what_is_wrong_has_a_status_and_a_reason(server, values, status):
    found, answer = ask(server, None, **values)
    assert found == status
    assert ("error" in answer) == (status != 200)


FORM, FORM_DATA = "application/x-www-form-urlencoded", "Multipart/Form-Data; boundary="
HEAD = "--x7\r\nContent-Disposition: form-data; name="
PARTS = f'{HEAD}"q"\r\nContent-Type: text/plain; charset=punycode\r\n\r\nä\r\n\r\n--x\r\n{HEAD}'
PARTS += "target\r\n\r\n\r\n--x7--\r\n"


@pytest.mark.parametrize(
    ("body", "content_type", "url", "fields"),
    [
        ("", "", "q=a+tree", {"q": "a tree"}),
        ("q=b&q=%C3%A4\n", f"{FORM}; charset=punycode", "", {"q": ["b", "ä"]}),
        ("q=b&target=de", FORM, "q=a&source=en", {"q": "a", "source": "en", "target": "de"}),
        ('{"q": "b"}', "application/json", "q=a&source=en", {"q": "b", "source": "en"}),
        (PARTS, f'{FORM_DATA}"x7"', "", {"q": "ä\r\n\r\n--x", "target": ""}),
        (PARTS.encode("latin-1"), f"{FORM_DATA}x7", "", None),
        (PARTS, "multipart/form-data", "", None),
        (b"q=\xff", FORM, "", None),
        ("q=a", FORM, "q=%FF", None),
        ("&q=a" * 1001, FORM, "", None),
        ("[]", "", "", None),
    ],
)
def test_fields_are_those_of_the_url_and_of_json_or_a_form(body, content_type, url, fields):
    body = body if isinstance(body, bytes) else body.encode()
    with pytest.raises(UserError) if fields is None else nullcontext():
        assert read_document(body, content_type, url) == fields


def test_with_a_key_only_who_knows_it_is_answered(translator):
    options = OPTIONS._replace(api_key="schlüssel")
    server = Server(translator, options, [Direction("en", "de", "", translator)], workers=2)
    keys = ("schlüssel", None, "other", ["schlüssel"])
    assert [ask(server, None, api_key=key)[0] for key in keys] == [200, 403, 403, 403]
    body = json.dumps({"inputs": ["a"]})
    for key, status in (("Bearer schlüssel", 200), ("bearer schlüssel", 200), ("Bearer", 403)):
        found = answers(server, ("POST", PREDICT, body), Authorization=key)
        assert found[0][0] == status


def test_markup_stays_and_its_text_is_translated(server, translator):
    html = '<p title="a tree">{}\n <b>{}</b>&nbsp;<br/>5 &amp; 6</p>\n<Code>a <i>b</i></code>{}'
    texts = ["A <tree>. The  bird", "stone", "the\nriver"]
    plain = ["A <tree>. The bird", "stone", "the river"]
    source = html.format("A &lt;tree&gt;. The  bird", *texts[1:])
    escaped = (
        one.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        for one in in_sentences(translator, *plain)
    )
    assert translated(server, source, format="html") == html.format(*escaped)


def with_pieces(*pieces):
    return SimpleNamespace(tags=Tags(["<pad>", "</s>", "<unk>", *pieces]))


def test_directions_have_the_tags_of_their_models():
    opus = with_pieces("a", ">>deu<<", ">>zho_Hans<<")
    mixture = with_pieces("<2de>", "<2en>", "<b>")
    texts = ["en-*", "en-en,de-en", "de-pt-BR,en-es-419,sr-latn-zh_cn"]
    found = read_directions(texts, [opus, mixture, with_pieces("a")])
    assert [(one.name, one.tag) for one in found] == [
        ("en-de", ">>deu<<"),
        ("en-zh-Hans", ">>zho_Hans<<"),
        ("en-en", "<2en>"),
        ("de-en", "<2en>"),
        ("de-pt-BR", ""),
        ("en-es-419", ""),
        ("sr-latn-zh_cn", ""),
    ]
    names = "en-zh", "en-zh-hans", "en-deu"
    tags = [read_directions([name], [opus])[0].tag for name in names]
    assert [one.name for one in read_directions(["zh-*"], [opus])] == ["zh-de"]
    assert tags == [">>zho_Hans<<", ">>zho_Hans<<", ">>deu<<"]
    for wrong in ["en", "en-fr", "EN-de", "", "en-de,", "en-de,en-de", "en_de", "xx-de"]:
        with pytest.raises(UserError):
            read_directions([wrong], [opus])
    with pytest.raises(UserError):
        read_directions(["en-*"], [with_pieces("a")])
