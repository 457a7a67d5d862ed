"""Measures the layers of the paper's Table 1: time and memory against n, d, k and r.

    python benchmarks/layer_complexity.py --out=docs/layer_complexity     (pip install '.[plots]')

One layer, forward and backward, float32, `--batch` sequences of n vectors of width d. Every
measurement runs in a process of its own, so that its peak of memory is its own. A line of JSON for
each goes to OUT/results.jsonl, Table 1 with the exponents that were measured to OUT/table.md, and
the plot with the crossings to OUT/plot.png. What is there already is not measured again.
"""

import argparse
import json
import math
import multiprocessing
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Before any fork: a child that imports TensorFlow itself takes seconds longer.
import keras
import tensorflow as tf

from t2t_repro.analysis.layer_complexity import table_1
from t2t_repro.layers.attention import MultiHeadAttention
from t2t_repro.layers.masks import neighbourhood_mask

LAYERS = ("self-attention", "restricted", "recurrent", "convolutional", "separable")
COLOURS = dict(zip(LAYERS, ("C0", "C1", "C2", "C3", "C4"), strict=True))
DEFAULTS = {"n": 256, "d": 256, "k": 3, "r": 16}
SWEEPS = {
    "n": (16, 32, 64, 128, 256, 512, 1024, 2048),
    "d": (64, 128, 256, 512, 1024),
    "k": (3, 5, 9, 17),
    "r": (4, 16, 64, 256),
}
CONCERNED = {
    "n": LAYERS,
    "d": LAYERS,
    "k": ("convolutional", "separable"),
    "r": ("restricted", "self-attention"),
}
"""Which layers a size changes; self-attention beside r, for what restriction should save."""

QUICK_SWEEPS = {"n": (8, 16), "d": (16, 32), "k": (3, 5), "r": (4, 8)}


def main() -> None:
    """Measures what is missing, then writes table and plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    options = parser.parse_args()
    sweeps: dict[str, tuple[int, ...]] = {**(QUICK_SWEEPS if options.quick else SWEEPS)}
    options.out.mkdir(parents=True, exist_ok=True)
    results = measure_all(options.out / "results.jsonl", sweeps, options.batch, options.repeats)
    (options.out / "table.md").write_text(report(results), encoding="utf-8")
    plot(results, options.out / "plot.png")
    print(report(results))


def measure_all(
    path: Path, sweeps: dict[str, tuple[int, ...]], batch: int, repeats: int
) -> list[dict[str, Any]]:
    """Runs every measurement that `path` does not hold yet, one after the other."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    results = [json.loads(line) for line in lines]
    processes = multiprocessing.get_context("fork")
    with path.open("a", encoding="utf-8") as file:
        for swept, values in sweeps.items():
            for layer in CONCERNED[swept]:
                for value in values:
                    case = {"swept": swept, "layer": layer, "batch": batch}
                    case |= DEFAULTS | {swept: value}
                    if any(case.items() <= result.items() for result in results):
                        continue
                    with processes.Pool(1) as pool:
                        results.append(case | pool.apply(measure, (case, repeats)))
                    print(json.dumps(results[-1]), file=file, flush=True)
    return results


def measure(case: dict[str, Any], repeats: int) -> dict[str, float]:
    """Times forward and backward of one layer: medians of seconds, and MB above the start."""
    # What TensorFlow takes once, whatever is computed, is no layer's memory.
    step_of(case | {"n": 8, "d": 16})()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step = step_of(case)
    step()
    walls, cpus = [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        step()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    middle = repeats // 2
    return {
        "seconds": sorted(walls)[middle],
        "cpu_seconds": sorted(cpus)[middle],
        "megabytes": (peak - before) / 1024,
    }


def step_of(case: dict[str, Any]) -> Callable[[], Any]:
    """Forward and backward of one layer, as a graph, on random input."""
    layer, call = make_layer(case)
    x = tf.random.normal([case["batch"], case["n"], case["d"]])
    call(x)

    @tf.function
    def step(x: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(call(x) ** 2)
        return tape.gradient(loss, [x, *(w.value for w in layer.trainable_variables)])

    return lambda: step(x)


def make_layer(case: dict[str, Any]) -> tuple[keras.layers.Layer, Callable]:
    """A layer and how it is called on [batch, n, d]."""
    n, d, k = case["n"], case["d"], case["k"]
    if case["layer"] in ("self-attention", "restricted"):
        attention = MultiHeadAttention(8, d // 8, d // 8)
        if case["layer"] == "self-attention":
            return attention, attention
        mask = neighbourhood_mask(n, case["r"])
        return attention, lambda x: attention(x, attention_mask=mask)
    layer = {
        "recurrent": lambda: keras.layers.LSTM(d, return_sequences=True),
        "convolutional": lambda: keras.layers.Conv1D(d, k, padding="same"),
        "separable": lambda: keras.layers.SeparableConv1D(d, k, padding="same"),
    }[case["layer"]]()
    return layer, layer


def series(
    results: list[dict[str, Any]], swept: str, layer: str, what: str
) -> list[tuple[int, float]]:
    """(value of the swept size, measurement), in order."""
    found = [r for r in results if r["swept"] == swept and r["layer"] == layer]
    return sorted((r[swept], r[what]) for r in found)


def exponent(points: list[tuple[int, float]]) -> float:
    """Growth between the last two points: 2 where doubling the size quadruples the cost."""
    (x, a), (y, b) = points[-2:]
    return math.log(b / a) / math.log(y / x)


def crossing(ours: list[tuple[int, float]], other: list[tuple[int, float]]) -> str:
    """From which measured size on `ours` costs more than `other`."""
    there = dict(other)
    cheaper = [x for x, cost in ours if cost <= there[x]]
    dearer = [x for x, _ in ours if x > max(cheaper, default=0)]
    return f"from {dearer[0]} on" if dearer else "nowhere measured"


def report(results: list[dict[str, Any]]) -> str:
    """Table 1, and below it what was measured, as Markdown."""
    grows = [f"CPU time grows as {size}^" for size in SWEEPS]
    lines = [table_1(**DEFAULTS), "", f"| layer | {' | '.join(grows)} |", "|---|---|---|---|---|"]
    for layer in LAYERS:
        cells = [
            f"{exponent(series(results, size, layer, 'cpu_seconds')):.2f}"
            if layer in CONCERNED[size]
            else "–"
            for size in SWEEPS
        ]
        lines.append(f"| {layer} | {' | '.join(cells)} |")
    lines += ["", f"Self-attention takes longer than others, by n at d = {DEFAULTS['d']}:", ""]
    ours = series(results, "n", "self-attention", "cpu_seconds")
    for layer in LAYERS[1:]:
        other = series(results, "n", layer, "cpu_seconds")
        lines.append(f"- than {layer}: {crossing(ours, other)}")
    return "\n".join(lines) + "\n"


def plot(results: list[dict[str, Any]], path: Path) -> None:
    """Draws CPU seconds and memory against each size, on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, rows = pyplot.subplots(2, len(SWEEPS), figsize=(4 * len(SWEEPS), 7), squeeze=False)
    for axes, what in zip(rows, ("cpu_seconds", "megabytes"), strict=True):
        for axis, swept in zip(axes, SWEEPS, strict=True):
            for layer in CONCERNED[swept]:
                points = series(results, swept, layer, what)
                axis.plot(*zip(*points, strict=True), marker="o", label=layer, color=COLOURS[layer])
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            fixed = ", ".join(f"{s} = {v}" for s, v in DEFAULTS.items() if s != swept)
            axis.set_xlabel(f"{swept}   ({fixed})", fontsize=8)
            axis.set_ylabel(what.replace("_", " "))
            axis.grid(alpha=0.3)
    rows[0][0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
