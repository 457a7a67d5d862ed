"""What is known to be wrong with the tags in front of a line."""

import pytest

from t2t_repro.text.tags import Tags

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
