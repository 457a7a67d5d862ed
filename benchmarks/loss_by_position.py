"""Where in a sentence one model's loss is above another's.

    python benchmarks/loss_by_position.py --base base_1.json base_2.json --other other_1.json

The files are what `t2t_repro.score --tokens` wrote for the same pairs. Several seeds of one model
are averaged. The loss is -log P of a subword, in nats; positions count the target's from 0.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from one_line import mistakes_in_one_line
from t2t_repro.data.line_files import read_lines
from t2t_repro.errors import UserError

FIRST = (0, 1, 2, 4, 8, 12, 16, 20, 25, 30)
"""The first position of every line of the table."""


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("base", "other"):
        parser.add_argument(f"--{name}", type=Path, nargs="+", required=True, help="Scores.")
    arguments = parser.parse_args()
    losses = read_losses([*arguments.base, *arguments.other])
    seeds = len(arguments.base)
    print("\n".join(table(_means(losses[:seeds]), _means(losses[seeds:]))))


def read_losses(files: Sequence[Path]) -> list[list[NDArray[np.float64]]]:
    """Reads the loss of every subword.

    Args:
        files: of `score --tokens`, for the same pairs.

    Returns:
        of each file an array a pair: [target length].

    Raises:
        UserError: a file is something else, or of other pairs than the first.
    """
    losses = [_read(file) for file in files]
    lengths = [[len(pair) for pair in pairs] for pairs in losses]
    for file, found in zip(files, lengths, strict=True):
        if found != lengths[0]:
            raise UserError(
                f"{file} has other subwords than {files[0]}, expected scores of the same pairs."
            )
    return losses


def table(base: Sequence[NDArray[np.float64]], other: Sequence[NDArray[np.float64]]) -> list[str]:
    """Compares the losses at each range of positions.

    Args:
        base: an array a pair: [target length].
        other: likewise.

    Returns:
        lines of Markdown: how many subwords there are, other - base in nats a subword with its
        95 % interval over subwords, and the share of the whole difference.
    """
    differences = np.concatenate([b - a for a, b in zip(base, other, strict=True)])
    ranges = np.searchsorted(FIRST, np.concatenate([np.arange(len(a)) for a in base]), "right") - 1
    lines = ["| position | subwords | other - base | share of all |", "|---|---|---|---|"]
    whole = differences.sum()
    for number, title in enumerate(_titles()):
        here = differences[ranges == number]
        if len(here) > 1:
            width = 1.96 * here.std(ddof=1) / len(here) ** 0.5
            share = round(100 * here.sum() / whole)
            lines.append(
                f"| {title} | {len(here):,} | {here.mean():+.3f} ± {width:.3f} | {share} % |"
            )
    lines.append(f"| all | {len(differences):,} | {differences.mean():+.3f} | 100 % |")
    return lines


def _read(file: Path) -> list[NDArray[np.float64]]:
    lines = list(read_lines(file))
    try:
        return [-np.array(json.loads(line)["log_probabilities"]) for line in lines]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file} is not what `t2t_repro.score --tokens` writes.") from error


def _means(seeds: Sequence[Sequence[NDArray[np.float64]]]) -> list[NDArray[np.float64]]:
    return [np.mean(pair, axis=0) for pair in zip(*seeds, strict=True)]


def _titles() -> list[str]:
    ends = [*(first - 1 for first in FIRST[1:]), None]
    return [_title(*both) for both in zip(FIRST, ends, strict=True)]


def _title(first: int, last: int | None) -> str:
    if last is None:
        return f"{first} or more"
    return str(first) if first == last else f"{first} to {last}"


if __name__ == "__main__":
    mistakes_in_one_line(main)
