"""Compares the speed of this checkout with that of another one, in alternation.

    python benchmarks/make_work.py
    git worktree add /tmp/before <commit>
    python benchmarks/before_after.py --before=/tmp/before --cases="training base float32"

Both run with the Python that runs this, each its own code and its own benchmarks/. A case is a task
(training or decoding), a size and a dtype; decoding may name beam and variant of the peer "ours":
"decoding tiny float32 beam=1 ours@saved_model". Prints the rate of every round, and the median of
the ratios after / before, round by round.
"""

import argparse
import statistics
import sys
from functools import partial
from pathlib import Path

from alternation import alternate
from environments import OURS
from work import DEFAULT_DIRECTORY

HERE = Path(__file__).resolve().parents[1]
CASES = "training base float32,training tiny float32,decoding base float32,decoding tiny float32"


def main() -> None:
    """Measures every case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="the other checkout")
    parser.add_argument("--cases", default=CASES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=2)
    parser.add_argument("--log_dir", type=Path, default=DEFAULT_DIRECTORY / "logs")
    parser.add_argument("--work", type=Path, default=DEFAULT_DIRECTORY / "work")
    arguments = parser.parse_args()
    cases = arguments.cases.split(",")
    for case in cases:
        if len(case.split()) < 3:
            parser.error(f"--cases: {case!r}, expected task, size and dtype: training base float32")
    if not (arguments.before / "benchmarks" / "worker.py").is_file():
        parser.error(f"--before: {arguments.before} is no checkout: it has no benchmarks/worker.py")
    for case in cases:
        measure(case, arguments)


def measure(case: str, arguments: argparse.Namespace) -> None:
    """Compares both checkouts in one case."""
    task, size, dtype, *rest = case.split()
    beam = next((word for word in rest if word.startswith("beam=")), "beam=4")
    peer = next((word for word in rest if word.startswith(OURS)), OURS)
    options = [f"--task={task}", f"--peer={peer}", f"--size={size}", f"--dtype={dtype}"]
    options += [f"--{beam}", f"--batches={arguments.batches}", f"--work={arguments.work}"]
    print(f"{case}:", flush=True)
    commands = {
        name: partial(_command, checkout, options)
        for name, checkout in (("before", arguments.before.resolve()), ("after", HERE))
    }
    measured = alternate(commands, arguments.rounds, arguments.log_dir)
    rates = {one.peer: one.rates for one in measured}
    if len(rates) < len(commands):
        raise SystemExit(f"error: {case} cannot be compared")
    ratios = [after / before for before, after in zip(*map(rates.get, commands), strict=True)]
    print(
        f"{case}: after / before {statistics.median(ratios):.3f} "
        f"({min(ratios):.3f} to {max(ratios):.3f}, {arguments.rounds} rounds)",
        flush=True,
    )


def _command(checkout: Path, options: list[str]) -> list[Path | str]:
    """Returns what starts a worker that imports a checkout."""
    script = checkout / "benchmarks" / "worker.py"
    return ["env", f"PYTHONPATH={checkout}", sys.executable, script, *options]


if __name__ == "__main__":
    main()
