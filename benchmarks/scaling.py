"""What a training step costs as its size grows: seconds and memory beside the operations counted.

    python benchmarks/scaling.py [--out=docs/scaling.png] [--repetitions=5]

One size is varied at a time around `REFERENCE`: length (with as many tokens a batch, and with as
many rows), rows, d_model (d_ff = 4 d_model, heads of 64) and layers. Every point is a process of
its own, so that its peak of memory is its own. Prints a JSON line for each and a Markdown table in
the end, and draws a plot. Where the operations done in a second fall below half of the best of
their column, time does not follow the count: these points are marked as surprises.
"""

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

# Before any fork: a child that imports TensorFlow itself takes seconds longer.
from peers.ours import training_step
from t2t_repro.analysis.model_shape import ModelShape
from t2t_repro.analysis.operations import BACKWARD_AND_FORWARD, forward_operations
from t2t_repro.model.layer_config import LayerConfig
from work import Batch, ModelSize

HEAD_DEPTH = 64

PLOT, QUICK_PLOT = Path("docs/scaling.png"), Path("runs/quick/scaling.png")
"""A run of tiny sizes does not replace the picture of one that says something."""


class Case(NamedTuple):
    """A training step's sizes.

    Attributes:
        length: tokens of every source and every target sentence; none is padded.
        rows: sentence pairs of the batch.
        d_model: width.
        num_layers: of the encoder, and of the decoder.
        vocab_size: of source and target.
    """

    length: int
    rows: int
    d_model: int
    num_layers: int
    vocab_size: int

    @property
    def model(self) -> ModelSize:
        """The model's sizes."""
        heads = max(1, self.d_model // HEAD_DEPTH)
        d_ff = 4 * self.d_model
        return ModelSize(self.vocab_size, self.num_layers, self.d_model, d_ff, heads, dropout=0.1)

    @property
    def operations(self) -> float:
        """Operations of the step's matrix products, forward and backward."""
        size = self.model
        config = LayerConfig(size.d_model, size.d_ff, size.num_heads)
        shape = ModelShape(size.vocab_size, size.num_layers, config)
        forward = forward_operations(shape, self.length, self.length)
        return BACKWARD_AND_FORWARD * self.rows * forward.total

    def __str__(self) -> str:
        """As it stands in results."""
        return (
            f"length {self.length}, rows {self.rows}, d_model {self.d_model}, "
            f"layers {self.num_layers}"
        )


class Cost(NamedTuple):
    """What one step took.

    Attributes:
        seconds: of wall clock, the median.
        cpu_seconds: of all threads, the median.
        megabytes: the most memory of the process, above what it had before its first step.
        fixed_megabytes: what of it a step on two tokens took already: tracing, gradients.
    """

    seconds: float
    cpu_seconds: float
    megabytes: float
    fixed_megabytes: float


Series = Mapping[int, Case]
"""Cases by the one size in which they differ."""

REFERENCE = Case(length=32, rows=32, d_model=256, num_layers=2, vocab_size=4000)
VALUES = {
    "length": (8, 16, 32, 64, 128, 256),
    "rows": (2, 4, 8, 16, 32, 64, 128, 256),
    "d_model": (64, 128, 256, 512, 1024),
    "num_layers": (1, 2, 4, 8),
}
QUICK_REFERENCE = Case(length=4, rows=8, d_model=64, num_layers=1, vocab_size=4000)
QUICK_VALUES = {"length": (4, 8), "rows": (4, 8), "d_model": (64, 128), "num_layers": (1, 2)}


def main() -> None:
    """Measures every case once, then prints the table and draws the plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help=f"the plot; {PLOT} by default")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument(
        "--quick", action="store_true", help=f"tiny sizes, as a trial: {QUICK_PLOT}"
    )
    options = parser.parse_args()
    options.out = options.out or (QUICK_PLOT if options.quick else PLOT)
    around = (QUICK_REFERENCE, QUICK_VALUES) if options.quick else (REFERENCE, VALUES)
    swept = sweeps(*around)
    cases = dict.fromkeys(case for series in swept.values() for case in series.values())
    costs = {}
    for case in cases:
        costs[case] = measure_in_a_process(case, options.repetitions)
        print(json.dumps(result(case, costs[case])), flush=True)
    print(f"\n{table(swept, costs)}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    plot(swept, costs, options.out)


def sweeps(reference: Case, values: Mapping[str, Sequence[int]]) -> dict[str, Series]:
    """Varies one size at a time: for each, the cases by its value."""
    tokens = reference.length * reference.rows
    lengths = values["length"]
    same_tokens = {n: reference._replace(length=n, rows=max(1, tokens // n)) for n in lengths}
    return {
        f"length ({tokens} tokens)": same_tokens,
        f"length ({reference.rows} rows)": {n: reference._replace(length=n) for n in lengths},
        "rows": {n: reference._replace(rows=n) for n in values["rows"]},
        "d_model": {n: reference._replace(d_model=n) for n in values["d_model"]},
        "layers": {n: reference._replace(num_layers=n) for n in values["num_layers"]},
    }


def measure_in_a_process(case: Case, repetitions: int) -> Cost:
    """Measures in a process of its own."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(measure, (case, repetitions))


def measure(case: Case, repetitions: int) -> Cost:
    """Makes one step on two tokens, one as warm-up, and then those that are timed."""
    train = training_step(case.model, "float32")
    before = memory()
    train(random_batch(case._replace(length=1, rows=1)))
    fixed = peak_memory() - before
    batch = random_batch(case)
    train(batch)
    walls, cpus = [], []
    for _ in range(repetitions):
        wall, cpu = time.perf_counter(), time.process_time()
        train(batch)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    peak = peak_memory() - before
    return Cost(statistics.median(walls), statistics.median(cpus), peak, fixed)


def random_batch(case: Case) -> Batch:
    """Random ids, [rows, length] on either side, none of them PAD."""
    generator = np.random.default_rng(1)
    shape = (case.rows, case.length)
    ids = [generator.integers(3, case.vocab_size, shape).astype(np.int32) for _ in range(2)]
    return Batch(*ids)


def memory() -> float:
    """Megabytes that the process holds now (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def peak_memory() -> float:
    """Megabytes that the process held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def result(case: Case, cost: Cost) -> dict[str, str | float]:
    """The line of a case."""
    rate = {"value": round(gflops(case, cost), 2), "unit": "GFLOP/s"}
    labels = {"benchmark": "scaling", "case": str(case), **rate}
    numbers = {"gflop": case.operations / 1e9, **cost._asdict()}
    return {**labels, **{name: round(value, 4) for name, value in numbers.items()}}


def gflops(case: Case, cost: Cost) -> float:
    """Operations counted, in billions, for every second measured."""
    return case.operations / cost.seconds / 1e9


def surprises(series: Series, costs: Mapping[Case, Cost]) -> list[int]:
    """Values at which fewer than half the operations of the best are done in a second."""
    rates = {value: gflops(case, costs[case]) for value, case in series.items()}
    return [value for value, rate in rates.items() if rate < max(rates.values()) / 2]


def table(swept: Mapping[str, Series], costs: Mapping[Case, Cost]) -> str:
    """One row for each point of each sweep, as Markdown."""
    columns = ["varied", "value", "s", "CPU s", "GFLOP", "GFLOP/s", "surprise"]
    columns += ["MiB", "without fixed", "KiB a token"]
    rows = [columns, ["---"] + ["---:"] * (len(columns) - 1)]
    for name, series in swept.items():
        marked = surprises(series, costs)
        for value, case in series.items():
            cost = costs[case]
            own = cost.megabytes - cost.fixed_megabytes
            # Source and target.
            tokens = 2 * case.rows * case.length
            times = [f"{cost.seconds:.3f}", f"{cost.cpu_seconds:.3f}"]
            counts = [f"{case.operations / 1e9:.2f}", f"{gflops(case, cost):.1f}"]
            memories = [f"{cost.megabytes:.0f}", f"{own:.0f}", f"{own * 1024 / tokens:.1f}"]
            mark = "below half" if value in marked else ""
            rows.append([name, str(value), *times, *counts, mark, *memories])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def plot(swept: Mapping[str, Series], costs: Mapping[Case, Cost], path: Path) -> None:
    """Draws seconds, with those that the count alone would ask for, and memory."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, rows = pyplot.subplots(2, len(swept), figsize=(3.6 * len(swept), 6.5), squeeze=False)
    for (name, series), time_axis, memory_axis in zip(swept.items(), *rows, strict=True):
        values = list(series)
        found = [costs[case] for case in series.values()]
        best = max(gflops(case, costs[case]) for case in series.values())
        counted = [case.operations / best / 1e9 for case in series.values()]
        time_axis.plot(values, [cost.seconds for cost in found], marker="o", label="measured")
        label = f"operations counted, at {best:.0f} GFLOP/s"
        time_axis.plot(values, counted, linestyle="--", color="grey", label=label)
        time_axis.set_ylabel("seconds a step")
        own = [max(cost.megabytes - cost.fixed_megabytes, 1) for cost in found]
        memory_axis.plot(values, [cost.megabytes for cost in found], marker="o", label="peak")
        memory_axis.plot(values, own, marker=".", label="above a step of two tokens")
        memory_axis.set_ylabel("MiB")
        for axis in (time_axis, memory_axis):
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.set_xlabel(name)
            axis.legend(fontsize=7)
            axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
