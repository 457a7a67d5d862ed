"""The trees that our bracket F1 is held against EVALB's on, and how the two are compared."""

import random
import re
from collections import Counter

import pytest

import evalb
from t2t_repro.parse import NO_TREE
from t2t_repro.parsing.bracket_f1 import count_brackets
from t2t_repro.parsing.linear_trees import delinearise, linearise
from t2t_repro.parsing.trees import ParsedSentence, bracketed, read_trees
from tests.parsing.test_trees import TREEBANK

GOLDS = [sentence for path in sorted(TREEBANK.rglob("*_*")) for _, sentence in read_trees(path)]
GOLD = ParsedSentence(tuple("abcdef"), delinearise("S NP DT NN /NP VP VB ADVP RB /ADVP /VP . /S"))


def test_both_programs_get_the_same_tree():
    chance = random.Random(1)
    kinds: Counter[str] = Counter()
    for gold in GOLDS * 20:
        output = evalb._damaged(gold, chance)
        kinds[output.damage] += 1
        if output.brackets in ("", NO_TREE):
            continue
        tree = delinearise(output.symbols)
        words = tuple(re.findall(r" ([^ ()]+)\)", output.brackets))
        assert output.brackets == bracketed(ParsedSentence(words, tree))
        assert words == gold.words or set(words) == {"other"}
    assert set(kinds) == {"missing", "0 damages", "2 damages", "4 damages", *evalb._DAMAGES}


@pytest.mark.parametrize("name", evalb._DAMAGES)
def test_a_damage_changes_what_it_says(name):
    chance = random.Random(2)
    gold = linearise(GOLD.tree)
    damaged = []
    for _ in range(40):
        symbols = gold.split()
        evalb._DAMAGES[name](symbols, chance)
        damaged.append(" ".join(symbols))
    counts = [one for one in count_brackets(damaged, [gold] * 40) if one.valid]
    assert any(line != gold for line in damaged)
    if name in {"another tag", "ADVP and PRT exchanged"}:
        assert all(one.complete for one in counts)
    if name in {"another label", "brackets removed", "brackets added", "ADVP and PRT exchanged"}:
        assert len(counts) == 40
    if name in {"another label", "brackets removed", "brackets added"}:
        assert sum(one.complete for one in counts) < 20


def test_a_difference_is_shown_and_counted(capsys):
    outputs = [evalb.Hypothesis("S", "(())", "missing")] * 3
    right = evalb.Verdict("valid", 4, 4, 5)
    ours = [right, right, evalb.Verdict("error", 0, 0, 0)]
    # Left out by both is alike, for whatever reason.
    theirs = [right, right, evalb.Verdict("skip", 0, 0, 0)]
    assert evalb._differences(ours, theirs, outputs) == 0
    assert "sentence " not in capsys.readouterr().out
    theirs[1] = right._replace(matched=3)
    theirs[2] = right
    assert evalb._differences(ours, theirs, outputs) == 2
    printed = capsys.readouterr().out
    assert "sentence 2 (missing)" in printed
    assert "| missing | error | valid | 1 |" in printed


def test_what_evalb_has_no_room_for_is_left_out():
    words = "".join(f" (NN w{i}) (, ,)" for i in range(199))
    assert evalb._has_room(f"(TOP (S{words}))")
    assert not evalb._has_room(f"(TOP (S{words} (NN more)))")
    assert evalb._has_room(f"{'(NP ' * 199}(NN dog){')' * 199}")
    assert not evalb._has_room(f"{'(NP ' * 200}(NN dog){')' * 200}")
    assert not evalb._has_room(f"(TOP (NN {'x' * 5000}))")
