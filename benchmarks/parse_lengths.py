"""How good parses are, by the length of their sentences.

    python benchmarks/parse_lengths.py --trees=test.tree.gz --symbols=test.symbols

The symbols are what `t2t_repro.evaluate --output` wrote for these trees, a line a tree. Scores are
those of `evaluate`: see `t2t_repro.parsing.bracket_f1`.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from one_line import mistakes_in_one_line
from t2t_repro.data.line_files import read_lines
from t2t_repro.evaluation.scores import Score
from t2t_repro.parsing.bracket_f1 import bracket_f1, share_of_trees, strict_bracket_f1
from t2t_repro.parsing.linear_trees import linearise
from t2t_repro.parsing.trees import read_trees

LONGEST = (5, 10, 20, 30, 40, None)
"""How many words the longest sentence of a column has, punctuation among them; the last: any."""

_SCORES: dict[str, Callable[[Sequence[str], Sequence[str]], Score]] = {
    "outputs that are trees, %": share_of_trees,
    "F1 of those that count": bracket_f1,
    "F1, the others as failures": strict_bracket_f1,
}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", type=Path, required=True, help="A file of gold trees.")
    parser.add_argument("--symbols", type=Path, required=True, help="Outputs for them.")
    arguments = parser.parse_args()
    trees = [sentence.tree for _, sentence in read_trees(arguments.trees)]
    outputs = list(read_lines(arguments.symbols))
    if len(outputs) != len(trees):
        sys.exit(f"{len(outputs)} lines of symbols, expected {len(trees)}, one a tree")
    words = [len(tree.tags) for tree in trees]
    print("\n".join(table(words, outputs, [linearise(tree) for tree in trees])))


def table(words: Sequence[int], outputs: Sequence[str], references: Sequence[str]) -> list[str]:
    """Scores the sentences of each length.

    Args:
        words: of each sentence.
        outputs: linearised trees.
        references: likewise.

    Returns:
        lines of Markdown: a column a range of lengths, without those that no sentence has.
    """
    columns = [column(number) for number in words]
    kept = [number for number in range(len(LONGEST)) if number in columns]
    rows = {"sentences": [f"{columns.count(number):,}" for number in kept]}
    for title, metric in _SCORES.items():
        rows[title] = [
            f"{metric(*_of_column(number, columns, outputs, references)).value:.1f}"
            for number in kept
        ]
    head = [_title(number) for number in kept]
    lines = [["words", *head], ["---"] * (len(kept) + 1), *([k, *v] for k, v in rows.items())]
    return [f"| {' | '.join(line)} |" for line in lines]


def column(words: int) -> int:
    """The column of a sentence of so many words."""
    return next(i for i, most in enumerate(LONGEST) if most is None or words <= most)


def _of_column(
    number: int, columns: Sequence[int], outputs: Sequence[str], references: Sequence[str]
) -> tuple[list[str], list[str]]:
    mine = [i for i, column_ in enumerate(columns) if column_ == number]
    return [outputs[i] for i in mine], [references[i] for i in mine]


def _title(number: int) -> str:
    most = LONGEST[number]
    least = (LONGEST[number - 1] or 0) + 1 if number else 1
    return f"{least} or more" if most is None else f"{least} to {most}"


if __name__ == "__main__":
    mistakes_in_one_line(main)
