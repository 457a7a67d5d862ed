"""Holds this checkout against another one of the same project, in alternation.

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
from contextlib import ExitStack
from pathlib import Path

from alternation import Worker, running_worker
from environments import OURS
from work import DEFAULT_DIRECTORY

HERE = Path(__file__).resolve().parents[1]
CASES = ",".join(
    f"{task} {size} {dtype}{beam}"
    for task, beams in (("training", [""]), ("decoding", [" beam=4", " beam=1"]))
    for size in ("base", "tiny")
    for dtype in ("float32", "bfloat16")
    for beam in beams
)


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
    with ExitStack() as stack:
        workers = [
            warm_worker(
                stack,
                checkout / "benchmarks" / "worker.py",
                checkout,
                options,
                arguments.log_dir / f"{name}.log",
            )
            for name, checkout in (("before", arguments.before.resolve()), ("after", HERE))
        ]
        compare(case, workers, arguments.rounds)


def compare(case: str, workers: list[Worker], rounds: int) -> None:
    """Prints the rates of two workers, before and after, round by round, and the ratios' median."""
    ratios = []
    for number in range(rounds):
        # Each goes first as often as the other.
        order = workers if number % 2 else workers[::-1]
        rates = {worker: rate_of(worker) for worker in order}
        before, after = (rates[worker] for worker in workers)
        print(f"  {case}: {before:.4g} before, {after:.4g} after", flush=True)
        ratios.append(after / before)
    print(
        f"{case}: after / before {statistics.median(ratios):.3f} "
        f"({min(ratios):.3f} to {max(ratios):.3f}, {rounds} rounds)",
        flush=True,
    )


def warm_worker(
    stack: ExitStack, script: Path, checkout: Path, options: list[str], log: Path
) -> Worker:
    """Starts a worker that imports a checkout, and waits until it is warm.

    Raises:
        SystemExit: the checkout cannot do what is asked for.
    """
    path = {"PYTHONPATH": str(checkout)}
    worker = stack.enter_context(running_worker([sys.executable, script, *options], log, path))
    answer = worker.answer()
    if "unsupported" in answer:
        raise SystemExit(f"error: {checkout} cannot do that: {answer['unsupported']}")
    return worker


def rate_of(worker: Worker) -> float:
    """The amount a second of one round of a worker."""
    found = worker.do_round()
    return found["amount"] / found["seconds"]


if __name__ == "__main__":
    main()
