"""Translations that cycle are found, and what may be repeated stays."""

import pytest

from t2t_repro.decoding.repetition import without_cycles
from t2t_repro.decoding.sentences import translate_sentences
from tests.decoding.stand_in import StandIn


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("never", "nunca jamás nunca jamás nunca jamás", "nunca jamás"),
        ("enrolled", "matriculados matriculados matriculados.", "matriculados."),
        ("Hello", "Merhaba Merhaba", "Merhaba"),
        ("BLACK", "SCHWARZ SCHWARZ Schwarz", "SCHWARZ"),
        ("dressed", "vest vestida vest vest vest vest", "vest vestida vest"),
        ("What it is", "(笑声) (掌声) (掌声)(掌声) (掌声)", "(笑声) (掌声)"),
        ("quase quase", "almost almost almost almost", "almost"),
        ("Courier mail server", "servidor de correio de correio", "servidor de correio"),
        ("very, very good", "muito, muito bom", None),
        ("No! No! No!", "Nein! Nein! Nein!", None),
        ("hahahaha", "ha ha ha ha", None),
        ("Hello", "abcdef abcdef", "abcdef"),
        ("Hello", "so wunderbar wunderbar", None),
        ("Hello", "go go go on", "go on"),
        ("Hello", "go I go I go.", "go I go I go."),
        ("We wash.", "Nous nous lavons.", None),
        ("children", "anak-anak", None),
        ("discuss", "讨论讨论", None),
        ("The mean of it", "Die Mitte: Die Mitte davon", None),
        ("10 x 10", "10 10 10 10 10 10", None),
    ],
)
def test_one_of_what_a_translation_repeats_stays(source, translation, expected):
    assert without_cycles(translation, source) == (expected or translation)


def test_a_cycle_is_translated_again_in_parts():
    translate = StandIn(lambda text: "salad salad salad" if "SALAD" in text else text)
    (row,) = translate_sentences(["A GREEN SALAD TODAY!"], "en", translate)
    assert row.text == "A GREEN salad TODAY!"
    assert translate.asked == ["A GREEN SALAD TODAY!", "A GREEN", "SALAD TODAY!", "SALAD", "TODAY!"]
