"""Whether our bracket F1 is EVALB's: both programs on the same trees, sentence by sentence.

    python benchmarks/evalb.py --evalb=EVALB/evalb --parameters=EVALB/COLLINS.prm \
        --trees=test.tree.gz
    python benchmarks/evalb.py ... --trees=test.tree.gz --symbols=symbols.txt

EVALB is yours to bring and to compile. Without symbols, the treebank's own trees are damaged, by a
seed: labels, brackets, tags and words, and whole outputs that are missing. With them, they are what
`t2t_repro.evaluate --output` wrote for these trees. EVALB then gets them as `t2t_repro.parse`
prints them, so that a sentence without a tree is "skipped" for EVALB and an "error" for us; both
leave it out.

Exits with 1 where a sentence is counted differently. EVALB's arrays have room for 200 words and 200
brackets; sentences with more are left out of the comparison, and counted.
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from one_line import mistakes_in_one_line
from t2t_repro.data.line_files import read_lines
from t2t_repro.errors import UserError
from t2t_repro.parse import NO_TREE, tree_of
from t2t_repro.parsing.bracket_f1 import BracketCounts, bracket_f1, count_brackets
from t2t_repro.parsing.linear_trees import delinearise, linearise
from t2t_repro.parsing.trees import ParsedSentence, bracketed, read_trees

# EVALB's MAX_WORD_IN_SENT and MAX_BRACKET_IN_SENT, and what it reads of a line.
_ROOM = 200
_LINE = 5000
_WORD = re.compile(r"\(([^ ()]+) [^ ()]+\)")
_NOT_KEPT = ("TOP", "-NONE-", ",", ":", "``", "''", ".")
# COLLINS.prm's CUTOFF_LEN.
_CUT = 40
_MOST_SHOWN = 20
# Those that COLLINS.prm treats in a way of their own, and those that it could be thought to.
_LABELS = ("NP", "VP", "ADVP", "PRT", "TOP", "NP-SBJ", "ADJP=2", "-LRB-", ",", ".", "X")
_TAGS = ("NN", "RB", "-LRB-", "HYPH", "POS", "$", ",", ":", ".", "``", "''", "-NONE-")


class Hypothesis(NamedTuple):
    """An output in both forms.

    Attributes:
        symbols: for us.
        brackets: for EVALB.
        damage: what was done to it.
    """

    symbols: str
    brackets: str
    damage: str


class Verdict(NamedTuple):
    """What a program says of one sentence; the numbers are 0 where it leaves it out."""

    status: str
    matched: int
    expected: int
    found: int


def main() -> None:
    """Compares, and prints what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--evalb", type=Path, required=True, help="The compiled program.")
    parser.add_argument("--parameters", type=Path, required=True, help="COLLINS.prm.")
    parser.add_argument("--trees", type=Path, required=True, help="A file of gold trees.")
    parser.add_argument("--symbols", type=Path, help="Outputs for them; damaged trees if not.")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    golds = [sentence for _, sentence in read_trees(arguments.trees)]
    if arguments.symbols:
        lines = list(read_lines(arguments.symbols))
        if len(lines) != len(golds):
            raise UserError(
                f"{arguments.symbols} has {len(lines)} lines, expected {len(golds)}, one a tree"
            )
        outputs = [_as_parsed(*pair) for pair in zip(golds, lines, strict=True)]
    else:
        chance = random.Random(arguments.seed)
        outputs = [_damaged(gold, chance) for gold in golds]
    pairs = [pair for pair in zip(golds, outputs, strict=True) if all(map(_has_room, _lines(pair)))]
    print(f"{len(pairs):,} sentences; too large for EVALB's arrays: {len(golds) - len(pairs)}")
    golds, outputs = [gold for gold, _ in pairs], [output for _, output in pairs]
    theirs, summaries = _evalb(arguments.evalb, arguments.parameters, pairs)
    references = [linearise(gold.tree) for gold in golds]
    symbols = [output.symbols for output in outputs]
    ours = list(map(_verdict, count_brackets(symbols, references)))
    for longest, summary in zip((None, _CUT), summaries, strict=True):
        print(f"ours   {bracket_f1(symbols, references, longest)}\nEVALB  {summary}")
    sys.exit(_differences(ours, theirs, outputs) > 0)


def _differences(
    ours: Sequence[Verdict], theirs: Sequence[Verdict], outputs: Sequence[Hypothesis]
) -> int:
    """Prints how often the two agree, by damage; returns how often they do not."""
    kinds: Counter[tuple[str, str, str]] = Counter()
    differing = 0
    for number, (mine, other, output) in enumerate(zip(ours, theirs, outputs, strict=True), 1):
        kinds[output.damage, mine.status, other.status] += 1
        is_out = "valid" not in (mine.status, other.status)
        if mine != other and not is_out:
            differing += 1
            if differing <= _MOST_SHOWN:
                print(f"sentence {number} ({output.damage}): ours {mine}, EVALB {other}")
                print(f"  {output.symbols}")
    print("| output | ours | EVALB | sentences |\n|---|---|---|---:|")
    for (damage, mine_is, other_is), count in sorted(kinds.items()):
        print(f"| {damage} | {mine_is} | {other_is} | {count:,} |")
    print(f"counted differently: {differing}")
    return differing


def _verdict(counts: BracketCounts) -> Verdict:
    if counts.valid:
        return Verdict("valid", counts.matched, counts.expected, counts.found)
    return Verdict("error" if counts.errors else "skip", 0, 0, 0)


def _evalb(
    program: Path, parameters: Path, pairs: Sequence[tuple[ParsedSentence, Hypothesis]]
) -> tuple[list[Verdict], list[str]]:
    """Runs EVALB; returns what it says of every sentence, of all, and of the short ones."""
    with tempfile.TemporaryDirectory() as folder:
        gold, test = Path(folder, "gold"), Path(folder, "test")
        lines = list(map(_lines, pairs))
        gold.write_text("".join(f"{of_gold}\n" for of_gold, _ in lines), encoding="utf-8")
        test.write_text("".join(f"{of_test}\n" for _, of_test in lines), encoding="utf-8")
        # By itself it gives up after ten errors.
        errors = 2 * len(pairs)
        command = [program.absolute(), "-p", parameters, "-e", errors, gold, test]
        done = subprocess.run([str(word) for word in command], capture_output=True, check=True)
    text = done.stdout.decode("utf-8", errors="replace")
    table, _, rest = text.partition("=== Summary ===")
    found = []
    for line in table.splitlines():
        cells = line.split()
        if len(cells) == 12 and cells[0].isdigit():
            status = ("valid", "error", "skip")[int(cells[2])]
            numbers = map(int, cells[5:8]) if status == "valid" else (0, 0, 0)
            found.append(Verdict(status, *numbers))
    if len(found) != len(pairs):
        told = f"EVALB told of {len(found)} sentences, expected {len(pairs)}"
        sys.exit(f"error: {told}: {done.stderr!r}")
    return found, [
        "; ".join(" ".join(line.split()) for line in part.splitlines() if " = " in line)
        for part in rest.split("-- len<=")
    ]


def _lines(pair: tuple[ParsedSentence, Hypothesis]) -> tuple[str, str]:
    """What EVALB reads of a sentence: the gold tree and the output."""
    return bracketed(pair[0]), pair[1].brackets


def _has_room(line: str) -> bool:
    tags = _WORD.findall(line)
    words = sum(tag not in _NOT_KEPT for tag in tags)
    brackets = line.count("(") - len(tags)
    return words < _ROOM and brackets < _ROOM and len(line.encode()) < _LINE - 1


def _as_parsed(gold: ParsedSentence, symbols: str) -> Hypothesis:
    brackets = tree_of(gold.words, symbols)
    return Hypothesis(symbols, brackets, "no tree" if brackets == NO_TREE else "a tree")


def _damaged(gold: ParsedSentence, chance: random.Random) -> Hypothesis:
    """Does up to four things to a tree; a few outputs are missing."""
    if chance.random() < 0.02:
        return Hypothesis("", chance.choice(("", NO_TREE)), "missing")
    symbols = linearise(gold.tree).split()
    done = chance.choices(list(_DAMAGES), k=chance.choice((0, 1, 1, 2, 4)))
    for name in done:
        symbols = symbols or ["NP"]
        _DAMAGES[name](symbols, chance)
    line = " ".join(symbols)
    brackets = tree_of(gold.words, line)
    if brackets == NO_TREE and chance.random() < 0.5:
        brackets = _of_other_words(line)
    return Hypothesis(line, brackets, done[0] if len(done) == 1 else f"{len(done)} damages")


def _of_other_words(line: str) -> str:
    """A tree as EVALB may see it from elsewhere, of words that are not the sentence's."""
    try:
        tree = delinearise(line)
    except ValueError:
        return NO_TREE
    return bracketed(ParsedSentence(("other",) * len(tree.tags), tree))


def _replace(symbols: list[str], chance: random.Random) -> None:
    symbols[chance.randrange(len(symbols))] = _any_symbol(chance)


def _insert(symbols: list[str], chance: random.Random) -> None:
    symbols.insert(chance.randrange(len(symbols) + 1), _any_symbol(chance))


def _delete(symbols: list[str], chance: random.Random) -> None:
    del symbols[chance.randrange(len(symbols))]


def _swap(symbols: list[str], chance: random.Random) -> None:
    """Moves a bracket by a word, or a word into another bracket."""
    place = chance.randrange(len(symbols))
    symbols[place : place + 2] = reversed(symbols[place : place + 2])


def _retag(symbols: list[str], chance: random.Random) -> None:
    places = [i for i, one in enumerate(symbols) if f"/{one}" not in symbols and one[0] != "/"]
    if places:
        symbols[chance.choice(places)] = chance.choice(_TAGS)


def _rename(symbols: list[str], chance: random.Random) -> None:
    """Gives a constituent another label."""
    start, end = _constituent(symbols, chance)
    if end:
        label = chance.choice(_LABELS)
        symbols[start], symbols[end] = label, f"/{label}"


def _remove(symbols: list[str], chance: random.Random) -> None:
    """Takes a constituent's brackets away."""
    start, end = _constituent(symbols, chance)
    if end:
        del symbols[end], symbols[start]


def _wrap(symbols: list[str], chance: random.Random) -> None:
    """Puts a constituent around another."""
    start, end = _constituent(symbols, chance)
    if end:
        label = chance.choice((symbols[start], *_LABELS))
        symbols.insert(end + 1, f"/{label}")
        symbols.insert(start, label)


def _exchange(symbols: list[str], chance: random.Random) -> None:
    """Calls some of a tree's adverb phrases particles, or the other way round."""
    old, new = chance.choice((("ADVP", "PRT"), ("PRT", "ADVP")))
    renamed = {old: new, f"/{old}": f"/{new}"}
    symbols[:] = [renamed.get(symbol, symbol) for symbol in symbols]


def _constituent(symbols: Sequence[str], chance: random.Random) -> tuple[int, int]:
    """Where a constituent opens and closes; (0, 0) where none is found."""
    end = chance.choice([0, *(i for i, one in enumerate(symbols) if one[0] == "/")])
    depth = 0
    for start in range(end, -1, -1):
        depth += (symbols[start] == symbols[end]) - (f"/{symbols[start]}" == symbols[end])
        if end and not depth:
            return start, end
    return 0, 0


def _any_symbol(chance: random.Random) -> str:
    label = chance.choice(_LABELS)
    return chance.choice((label, f"/{label}", chance.choice(_TAGS)))


_DAMAGES: dict[str, Callable[[list[str], random.Random], None]] = {
    "a symbol replaced": _replace,
    "a symbol too many": _insert,
    "a symbol missing": _delete,
    "symbols swapped": _swap,
    "another tag": _retag,
    "another label": _rename,
    "ADVP and PRT exchanged": _exchange,
    "brackets removed": _remove,
    "brackets added": _wrap,
}


if __name__ == "__main__":
    mistakes_in_one_line(main)
