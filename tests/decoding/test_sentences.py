"""Lines are translated sentence by sentence, and nothing but the sentences changes."""

import re
import time
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from t2t_repro.decoding.kept import kept
from t2t_repro.decoding.search import Translation
from t2t_repro.decoding.sentence_split import split
from t2t_repro.decoding.sentences import find_long, translate_sentences, translate_split
from t2t_repro.decoding.settings import BeamSearch
from tests.decoding.stand_in import StandIn


def upper(texts, longest=12):
    """Translates as a model that takes so many characters."""
    for text in texts:
        assert text.strip() == text != ""
        cut = len(text) > longest
        found = "lost" if cut and " " in text else text[:longest].upper()
        yield Translation(found, -1.0, truncated=cut)


PARTS = st.sampled_from([*'aA.!?。("«\n\r\t \xa0\u3000\x85\x1c', "Dr. ", ". B", "e\u0301"])


@given(st.lists(PARTS, max_size=20).map("".join), st.sampled_from(["en", "fr", "zh", "?"]))
@example("Plan A\xa0. b", "fr")
def test_nothing_is_lost(line, language):
    pieces = list(split(line, language))
    assert "".join(text + blank for text, blank in pieces) == line
    assert all(text == text.strip() and (not blank or blank.isspace()) for text, blank in pieces)


@pytest.mark.parametrize(
    ("language", "line", "sentences"),
    [
        ("en", " Dr. Li ran.\u3000 Why?\tYes. ", ["", "Dr. Li ran.", "Why?", "Yes."]),
        ("ja", "こんにちは。元気です。", ["こんにちは。", "元気です。"]),
        ("?", "One.  Two.", ["One.", "Two."]),
        ("en", "a title\n\nand text", ["a title", "and text"]),
        # The numbers of a list are in front of sentences.
        ("en", "Go: 1. Milk. 2. Nut.\n3. Eggs.", ["Go:", "1. Milk.", "2. Nut.", "3. Eggs."]),
        ("en", " \t ", [""]),
        ("de", "Der 5. Teil. Sie ist 5. Dann", ["Der 5. Teil.", "Sie ist 5.", "Dann"]),
        ("de_AT", "Es kam am 3. Oktober z. B. an.", ["Es kam am 3. Oktober z. B. an."]),
        ("deu", "Es kam am 3. Oktober an.", ["Es kam am 3. Oktober an."]),
        ("pt-BR", "Falei com a Profa. Souza.", ["Falei com a Profa. Souza."]),
        ("en", "See vol. 4 of Yan et al. [2004] here.", ["See vol. 4 of Yan et al. [2004] here."]),
        ("en", "So ASP.NET, foo.Bar or a?Id=3. Yes", ["So ASP.NET, foo.Bar or a?Id=3.", "Yes"]),
        ("en", "*Yes.* So.\u202c Go.😀 No", ["*Yes.*", "So.\u202c", "Go.😀", "No"]),
        ("cs", "Dne 5. října přišel. Ano.", ["Dne 5. října přišel.", "Ano."]),
        ("nl", "Mevr. de Vries komt. Ja.", ["Mevr. de Vries komt.", "Ja."]),
        ("nl", "Zie blz. 5, d.w.z. hier. Ja.", ["Zie blz. 5, d.w.z. hier.", "Ja."]),
        ("sv", "Det är t.ex. kl. 5 nu. Ja.", ["Det är t.ex. kl. 5 nu.", "Ja."]),
        ("pl", "Mamy m.in. psy. Św. Jan, rys. 3.", ["Mamy m.in. psy.", "Św. Jan, rys. 3."]),
        ("pl", "W 2010 r. było. Tak.", ["W 2010 r. było.", "Tak."]),
        ("ja", "３．５です。はい。", ["３．５です。", "はい。"]),
    ],
)
def test_sentences_change_and_white_space_stays(language, line, sentences):
    assert [text for text, _ in split(line, language)] == sentences
    score = -float(len([*filter(None, sentences)]))
    (row,) = translate_sentences([line], language, partial(upper, longest=99))
    assert row.score == score
    assert row.text.casefold() == line.casefold()


@pytest.mark.parametrize(
    "sentences",
    [["See https://x.org/A.B?C today.", "Go."], ["Ask Dr. Li <i>now.</i>", "<b>Or?</b>"]],
)
def test_an_address_is_in_one_sentence_which_may_end_before_a_tag(sentences):
    assert [text for text, _ in split(" ".join(sentences), "en")] == sentences


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("1. A tree.", ["A tree."]),
        ("*A tree.* 😊", ["A tree."]),
        ("~~A tree.~~", ["A tree."]),
        ("<i>A tree.</i> Yes.\u202c (2) Go\u202c", ["A tree.", "Yes.", "Go"]),
        ("&nbsp;A tree.\\n", ["A tree."]),
        ("A tree.\\n", ["A tree."]),
        ("--- 00:14.167 --> 00:16.083 🌷🌷 123. %s", []),
        ("# The <b>tree</b>!", ["The <b>tree</b>!"]),
        ("See {a} (www.x.org). www.y.org", ["See {a} (www.x.org)."]),
        ('", or press & (', ["or press"]),
        ('– " « Yes », he', ['" « Yes », he']),
        ("<20> A tree.", ["A tree."]),
        ("\ufeff>>de<<\nA tree. A cat.", [">>de<<\nA tree.", ">>de<<\nA cat."]),
    ],
)
def test_a_model_gets_sentences_without_marks(line, asked):
    copy = StandIn(lambda text: text.removeprefix(">>de<<\n"))
    (row,) = translate_sentences([line], "en", copy)
    assert (row.text, copy.asked) == (line.removeprefix("\ufeff>>de<<"), asked)


@pytest.mark.parametrize(("count", "kept_letters"), [(4, 66), (8, 350)])
def test_a_long_text_of_whose_translation_a_part_is_lost_is_halved(count, kept_letters):
    forgetful = StandIn(lambda text: text[:kept_letters].upper())
    line = ("The red bird sees a tree and the blue house sees it, " * count).strip()
    (row,) = translate_sentences([line], "en", forgetful)
    assert row.text == line.upper()
    brief = StandIn(lambda text: re.sub("[aeiou]", "", text))
    assert translate_sentences([line], "en", brief) == brief([line])


def test_what_is_too_long_is_split_at_white_space_only():
    part = "bb ccc\u3000dd eee"
    lines = [part, " ".join([part] * 8), "x" * 13 + " yy. Z.", "x" * 13]
    rows = translate_sentences(lines, "en", upper)
    assert [row.text for row in rows[:2]] == [line.upper() for line in lines[:2]]
    assert rows[2:] == [
        Translation("X" * 12 + " YY. Z.", -3.0, truncated=True),
        Translation("X" * 12, -1.0, truncated=True),
    ]


def test_the_code_of_a_language_is_in_front_of_all_sentences_and_their_parts():
    lines = ["<2de> Bb. Aa ccc dd. ", ">>de<< Bb. Bb.", "Bb. x"]
    asked = []

    def remembered(texts):
        asked.extend(texts)
        return upper(texts)

    rows = translate_sentences(lines, "en", remembered)
    # Each is translated once.
    assert len({*asked}) == len(asked) > 4
    assert [row.text for row in rows] == [
        "<2DE> BB. <2DE> AA CCC <2DE> DD. ",
        ">>DE<< BB. >>DE<< BB.",
        "BB. X",
    ]


KEPT = [
    *re.findall(
        r"\S+",
        "https://x.org/a_(b)?c=1#d WWW.x.de/ ann.b+1@x-y.org [X12X] {name} {0:.2f} {user.name} %s "
        "{name!r} %(n)s %1$s %.2f %i %ld %5d %-10s %@ {{count}} ${name} %{n} $t(key.path) $1 @paul "
        "__count__ :amount :smile: <ph/> </i> <0> <big> --option -o /etc/fstab ~/x.conf C:\\dir\\x "
        "docs/a.md &amp; <sup> #tag @:a.b @.lower:key @:(key) @:{key} $HOME$ %1% me@x:~/a$ a.Bar() "
        "``x`` ](a.md) \\n \\u2068 <?x?> 😀 → \u2068 ##a## [[a]] %%a%% %1!s! $HOME/bin "
        "git@x.org:a/b.git x.co.uk @@name@@ a.yaml a-b.tar.gz .git/x 10.0.0.1:80 @Müller "
        ":a::b: [1] [x] mailto:me@x.org jö@ü.de #a#b %TEMP%\\a ⏰ {1> <1}",
    ),
    "<%= a %>",
    "%(a b)s",
    "{{ a b }}",
    '<x id="1"/>',
    "{g, select, a {{n, plural, one {# page of {m}} other {pages}}} other {b}}",
]
ADDRESSES = st.sampled_from(KEPT)
BETWEEN = st.sampled_from([" ", ". Then ", " (or ", ") and ", "、", "請看", ": go to “", "! "])


@given(st.lists(st.tuples(ADDRESSES, BETWEEN), min_size=1, max_size=9))
def test_addresses_come_through(parts):
    line = "<2de> See " + "".join(map("".join, parts))
    (row,) = translate_sentences([line], "en", StandIn(lambda text: "lost"))
    rest = row.text
    for address, _ in parts:
        _, found, rest = rest.partition(address)
        assert found
    assert not re.search("See|Then|go|and|請", row.text)

    copy = StandIn(lambda text: text.removeprefix("<2de> "))
    (row,) = translate_sentences([line], "en", copy)
    assert row.text == line[6:]
    # What is kept already is translated as a whole.
    sentences = {text for text, _ in split(line[6:], "en")}
    assert all(any(text.removeprefix("<2de> ") in one for one in sentences) for text in copy.asked)


@given(st.lists(st.tuples(ADDRESSES, BETWEEN), max_size=5), st.randoms())
def test_any_model_keeps_as_often_as_the_line(parts, random):
    line = "2. *See* " + "".join(map("".join, parts)) + "!"

    def bad(texts):
        for text in texts:
            words = [*text.split(), *random.sample(KEPT, k=2)] * 2
            yield Translation(" ".join(random.sample(words, k=random.randrange(5))), -1.0)

    (row,) = translate_sentences([line], "en", bad)
    assert (kept(row.text), row.text[:4]) == (kept(line), "2. *")


@pytest.mark.parametrize(
    ("line", "translations", "expected"),
    [
        ("See %s. Go.", {"See %s.": "%s %s", "See": "Hi %s", "Go.": "Oh."}, "Hi %s. Oh."),
        ("Go.", {"Go.": "%s"}, "Go."),
        ("_www.x.org", {"_www.x.org": "lost"}, "_www.x.org"),
        ("Go, %s!", {"Go, %s!": "Geh", "Go": "Geh,"}, "Geh, %s!"),
        (
            "Do <link>Go</link>\\nto",
            {"Do <link>Go</link>\\nto": "x", "Do": "Tu", "Go": "Geh", "to": "zu"},
            "Tu <link>Geh</link>\\nzu",
        ),
        # With the text beside it, a translation is another placeholder.
        (">>de<< Pay{a}.", {">>de<< Pay{a}.": "Hi.", ">>de<< Pay": "$"}, "Pay{a}."),
        ("Add…", {"Add…": "Neu..."}, "Neu…"),
        ("(Add… or go)", {"(Add… or go)": "(Neu... oder)"}, "(Neu… oder)"),
        ("Add… or...", {"Add… or...": "Neu... oder..."}, "Neu... oder..."),
    ],
)
def test_what_a_model_adds_is_removed_and_an_ellipsis_stays_one(line, translations, expected):
    (row,) = translate_sentences([line], "en", StandIn(translations.__getitem__))
    assert row.text == expected


@pytest.mark.parametrize("thing", KEPT)
def test_what_is_kept_is_found_whole(thing):
    assert kept(f"the ({thing}) or {thing}、 {thing}.") == [thing] * 3


def test_prose_is_not_kept():
    prose = (
        "50 % der, 100%ig, 50%-ige; and/or he/she; at 10:30:15: Schüler:innen - well-known -I am",
        "$15 or $1.50 or $5 million; km/h 1/2 10/12/2020 z.B. U.S.A. Tom & Jerry a < b > c x -- y",
        "<news> wait...what std::vector C/C++ 24/7 ;-) 1.000.000.000 12.10.2020 [...]",
    )
    assert not any(map(kept, prose))


@pytest.mark.parametrize("unit", ["あ。", "{a:", "http://(", "%0", "@a.", "\n"])
def test_time_is_linear(unit):
    def seconds(length):
        start, text = time.process_time(), "a" + unit * (length // len(unit))
        translate_sentences([text], "ja", StandIn(lambda text: "B"))
        return time.process_time() - start

    assert seconds(240_000) < 9 * seconds(60_000)


def test_a_part_between_addresses_ends_as_in_the_source():
    lines = ["<2de> See www.x.de (or me@x.de). It is 5.", "www.x.de? Now", "{name}"]
    rows = translate_sentences(lines, "en", StandIn(lambda text: "So."))
    expected = ["So www.x.de (So me@x.de). So.", "www.x.de? So.", "{name}"]
    assert [row.text for row in rows] == expected


@pytest.mark.parametrize(("translation", "gap"), [("Hi.", " "), ("嗨。", ""), ("네.", " ")])
def test_a_language_with_blanks_gets_them(translation, gap):
    (found,) = translate_sentences(["“你好。”你好。"], "zh", StandIn(lambda text: translation))
    assert found.text == gap.join([translation] * 2)


def test_each_sentence_is_translated_as_alone(make):
    translator = make(BeamSearch(4))
    sentences = ["The red bird sees a tree.", "A blue house.", "x" * 99]
    long = "The red bird sees a tree and " * 3
    alone = [best for best, *_ in translator.translate(sentences)]
    rows = translate_split(translator, ["  ".join(sentences), "", *sentences[1:], long], "en")
    assert rows[0].text == "  ".join(one.text for one in alone)
    assert rows[0].score == pytest.approx(sum(one.score for one in alone), rel=1e-4)
    assert [row.text for row in rows[1:4]] == ["", *(one.text for one in alone[1:])]
    assert [row.truncated for row in rows] == [True, False, False, True, False]
    assert translator.translate([long])[0][0].truncated
    assert all(one.text for one in alone)
    finished = [one.finished for one in alone]
    assert [row.finished for row in rows[:4]] == [all(finished), True, *finished[1:]]


def test_sentences_longer_than_those_of_the_training_are_halved(make, monkeypatch):
    translator = make(BeamSearch(2), trained_length=12)
    assert find_long(translator, ["<i>a</i> tree", "the red bird " * 5]) == {"the red bird " * 5}
    copy, long = StandIn(str), partial(find_long, translator)
    (row,) = translate_sentences(["the red bird " * 9], "en", copy, long)
    assert row == Translation("the red bird " * 9, -float(len(copy.asked)))
    assert not long(copy.asked)
    monkeypatch.setattr(translator, "aligns", False)
    assert long(["a tree", "<i>a</i> tree"]) == {"<i>a</i> tree"}
