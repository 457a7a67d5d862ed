"""What it costs to train on several replicas: 8 logical devices of one CPU beside a single one.

    python benchmarks/replicas.py [--sizes quickstart tiny] [--rounds=5]

The same global batches, cut into 8 slices, go to 8 logical devices under a MirroredStrategy, a
slice each, and to one device, which takes the slices one after the other: what the former take
longer is the overhead of the strategy. One device that takes each batch whole shows what slicing
costs. Without XLA. Every layout is a process of its own; all get warm, then each does a round in
turn. Prints a JSON line a layout and a Markdown table in the end.
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
from numpy.typing import NDArray

from alternation import Worker, running_worker
from work import DEFAULT_DIRECTORY, LABEL_SMOOTHING, LEARNING_RATE, SIZES, ModelSize
from worker import Round, serve


class Layout(NamedTuple):
    """How a global batch is computed.

    Attributes:
        devices: logical ones, a replica on each.
        micro_batches: of a global batch.
    """

    devices: int
    micro_batches: int

    def __str__(self) -> str:
        """As it stands in results."""
        count = self.micro_batches // self.devices
        return f"{self.devices} device{'s' * (self.devices > 1)} × {count} slice{'s' * (count > 1)}"


class Cost(NamedTuple):
    """What an update takes, medians of the rounds.

    Attributes:
        seconds: of wall clock.
        cpu_seconds: of all threads.
    """

    seconds: float
    cpu_seconds: float


WHOLE, ONE, MANY = Layout(1, 1), Layout(1, 8), Layout(8, 8)
LAYOUTS = (WHOLE, ONE, MANY)
LENGTHS = (16, 32, 64)
TOKENS = {"quickstart": 4096, "tiny": 4096, "smoke": 512}
"""Target tokens of a global batch; none is padding."""


def main() -> None:
    """Measures every size, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", choices=TOKENS, default=["quickstart", "tiny"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="of each batch in a round")
    parser.add_argument("--quick", action="store_true", help="a tiny model, to see that it runs")
    parser.add_argument("--log_dir", type=Path, default=DEFAULT_DIRECTORY / "logs")
    parser.add_argument("--worker", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve(lambda: make_round(options.sizes[0], Layout(*options.worker), options.steps))
        return
    if options.quick:
        options.sizes, options.rounds, options.steps = ["smoke"], 2, 1
    costs = {size: measure(size, options) for size in options.sizes}
    print(f"\n{table(costs)}")


def measure(size: str, options: argparse.Namespace) -> dict[Layout, Cost]:
    """Measures all layouts of a model size in alternation, and prints a JSON line for each."""
    rounds: dict[Layout, list[dict[str, float]]] = {layout: [] for layout in LAYOUTS}
    with ExitStack() as stack:
        workers = {layout: start(stack, size, layout, options) for layout in LAYOUTS}
        for worker in workers.values():
            worker.answer()
        for _ in range(options.rounds):
            for layout, worker in workers.items():
                rounds[layout].append(worker.do_round())
    costs = {}
    for layout, done in rounds.items():
        wall, cpu = (
            statistics.median(one[what] / one["amount"] for one in done)
            for what in ("seconds", "cpu_seconds")
        )
        costs[layout] = Cost(wall, cpu)
        rates = [one["amount"] / one["seconds"] for one in done]
        labels = {"benchmark": "replicas", "case": f"{size}, {layout}", "unit": "steps/s"}
        numbers = {"value": 1 / wall, "min": min(rates), "max": max(rates), "cpu_s": cpu}
        rounded = {name: float(f"{number:.4g}") for name, number in numbers.items()}
        print(json.dumps({**labels, **rounded}, ensure_ascii=False), flush=True)
    return costs


def start(stack: ExitStack, size: str, layout: Layout, options: argparse.Namespace) -> Worker:
    """Starts the process of a layout; it ends with the stack."""
    command = [sys.executable, __file__, f"--sizes={size}", f"--steps={options.steps}"]
    command += ["--worker", *map(str, layout)]
    log = options.log_dir / f"replicas_{size}_{layout.devices}_{layout.micro_batches}.log"
    return stack.enter_context(running_worker(command, log))


def make_round(size: str, layout: Layout, steps: int) -> Round:
    """Updates on every batch, so many times; the loss is waited for after every one."""
    from peers.ours import random_model
    from t2t_repro.model.loss import CrossEntropy
    from t2t_repro.training.devices import choose_strategy
    from t2t_repro.training.optimizer import adam
    from t2t_repro.training.train_step import TrainStep

    with choose_strategy(cpu_replicas=layout.devices).scope():
        model = random_model(SIZES[size], "float32")
        optimizer = adam(LEARNING_RATE)
        step = TrainStep(
            model,
            optimizer,
            seed=1,
            loss=CrossEntropy(LABEL_SMOOTHING),
            micro_batches=layout.micro_batches,
        )
    batches: Any = random_batches(SIZES[size], TOKENS[size], layout.micro_batches)

    def do_round() -> float:
        for number in range(steps):
            for batch in batches:
                loss = float(step(number, *batch).loss)
                if not 0.0 < loss < 20.0:
                    raise RuntimeError(f"the loss is {loss}, expected nats per token")
        return steps * len(batches)

    return do_round


def random_batches(
    size: ModelSize, tokens: int, micro_batches: int
) -> list[list[NDArray[np.int32]]]:
    """Source and target, [slices, rows, length] random ids each, the same however they are cut."""
    generator = np.random.default_rng(1)
    batches = []
    for length in LENGTHS:
        ids = generator.integers(3, size.vocab_size, (2, tokens // length, length), np.int32)
        batches.append([side.reshape(micro_batches, -1, length) for side in ids])
    return batches


def overhead(cost: float, base: float) -> str:
    """How much more than `base` it is."""
    return f"{cost / base - 1:+.0%}"


def table(costs: Mapping[str, Mapping[Layout, Cost]]) -> str:
    """Steps a second, the overhead of the strategy and that of slicing, as Markdown."""
    columns = ["model", *(f"{layout}, steps/s" for layout in LAYOUTS)]
    columns += ["strategy's overhead", "in CPU seconds", "slicing's overhead", "in CPU seconds"]
    rows = [columns, ["---"] + ["---:"] * (len(columns) - 1)]
    for size, found in costs.items():
        cells = [size, *(f"{1 / found[layout].seconds:.2f}" for layout in LAYOUTS)]
        for layout, base in ((MANY, ONE), (ONE, WHOLE)):
            pairs = zip(found[layout], found[base], strict=True)
            cells += [overhead(cost, of) for cost, of in pairs]
        rows.append(cells)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    main()
