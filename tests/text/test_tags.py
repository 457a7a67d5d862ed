"""What is known to be wrong with the tags in front of a line."""

import pytest

from t2t_repro.text.tags import Tags, languages_in_front

SPECIAL = ["<pad>", "</s>", "<unk>", "<0x0A>"]
OPUS = [">>deu<<", ">>fra<<", ">>zho_Hans<<", "a"]
MIXTURE = ["<2de>", "<2fr>", "<news>", "a"]


@pytest.mark.parametrize(
    ("pieces", "line", "named"),
    [
        (OPUS, ">>deu<< a", []),
        (OPUS, " >>deu<<a >>xyz<<", []),
        (OPUS, "\ufeff>>deu<< a", []),
        (OPUS, "a >>deu<<", [">>deu<<", ">>fra<<", ">>zho_Hans<<"]),
        (OPUS, ">>ger<< a", [">>ger<<", ">>deu<<", ">>fra<<", ">>zho_Hans<<"]),
        (OPUS, ">>zho<<", [">>zho<<", ">>zho_Hans<<"]),
        (OPUS, " ", []),
        (MIXTURE, "<2de> <news> a", []),
        (MIXTURE, "<news> <2fr> a", []),
        (MIXTURE, "<news> a", ["<2de>", "<2fr>"]),
        (MIXTURE, "<2de> <new> a", ["<new>", "<news>"]),
        (MIXTURE, "<2de> <br> <b>a</b>", []),
        (["<news>"], "a", []),
        (["a"], ">>deu<< <2de> a", []),
    ],
)
def test_a_wrong_or_missing_code_is_named_with_those_that_exist(pieces, line, named):
    fault = Tags([*SPECIAL, *pieces]).fault(line)
    tags = {word.strip(",") for word in fault.split() if word[0] in "<>"}
    assert tags >= {*named}
    assert bool(tags) == bool(named)


@pytest.mark.parametrize(
    ("line", "front"),
    [(" <news> <2de> <b>a</b>", "<news> <2de> "), ("<b>a</b>", ""), (">>Hallo<<, sagte er.", "")],
)
def test_the_tags_in_front_go_up_to_the_last_language_s(line, front):
    assert languages_in_front(line) == front


def test_each_of_ten_faults_is_logged_where_it_is_first(caplog):
    tags = Tags([*SPECIAL, *MIXTURE])
    tags.warn(["a", "b"], None)
    for first in (5, 1):
        tags.warn(["<2de> a", "a", *(f"<2x{n}>" for n in range(20))], first)
    places = ["a text", *(f"line {number}" for number in range(7, 16))]
    assert [message.split(":")[0] for message in caplog.messages] == places


@pytest.mark.parametrize("count", [0, 60, 61])
def test_the_first_sixty_languages_are_logged(count, caplog):
    caplog.set_level("INFO", logger="absl")
    Tags([*SPECIAL, *(f">>a{number}<<" for number in range(count))]).log()
    assert (caplog.text.count(">>"), caplog.text.count("...")) == (min(count, 60), count > 60)
