"""The paper's Table 1: what a layer costs that maps n vectors of width d to n vectors of width d.

    pip install -e '.[plots]'
    python paper/layer_complexity.py --out=docs/layer_complexity

Measures each layer forward and backward, float32, each measurement in a process of its own, so that
its peak of memory is its own. Writes results to OUT/results.jsonl, the table with the fitted
exponents to OUT/table.md, and a plot to OUT/plot.png. Known results are not measured again.
"""

import argparse
import json
import math
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Imported before any fork: a child that imports TensorFlow itself takes seconds longer.
import keras
import numpy as np
import tensorflow as tf

from t2t_repro.model.attention import MultiHeadAttention
from t2t_repro.model.restricted_attention import RestrictedSelfAttention

HEADS = 8
DEFAULTS = {"n": 512, "d": 256, "k": 3, "r": 64}
SWEEPS = {
    "n": (64, 128, 256, 512, 1024, 2048, 4096),
    "d": (64, 128, 256, 512, 1024),
    "k": (3, 5, 9, 17, 33),
    "r": (16, 32, 64, 128, 256, 512),
}
QUICK_SWEEPS = {"n": (8, 16, 32), "d": (16, 32, 64), "k": (3, 5), "r": (4, 8)}
LAYERS = {
    "self-attention": ("n² · d", "1", "1", "nd"),
    "restricted": ("r · n · d", "1", "n / r", "ndr"),
    "recurrent": ("n · d²", "n", "n", "nd"),
    "convolutional": ("k · n · d²", "1", "log_k(n)", "ndk"),
    "separable": ("k · n · d + n · d²", "1", "log_k(n)", "ndk"),
}
"""Table 1 (and section 4 for separable convolutions): complexity per layer, sequential operations,
maximum path length; and the sizes that the complexity depends on."""
FITTED = 3
"""An exponent is fitted to this many measurements, the largest: small ones are overhead."""

Result = dict[str, Any]


def complexity(layer: str, n: int, d: int, k: int, r: int) -> float:
    """Returns the operations of Table 1's formula."""
    return {
        "self-attention": n**2 * d,
        "restricted": min(r, n) * n * d,
        "recurrent": n * d**2,
        "convolutional": k * n * d**2,
        "separable": k * n * d + n * d**2,
    }[layer]


def path_length(layer: str, n: int, k: int, r: int) -> float:
    """Returns the maximum path length between two positions; convolutions are dilated."""
    convolution = max(1.0, math.log(n, k))
    return {
        "self-attention": 1,
        "restricted": n / min(r, n),
        "recurrent": n,
        "convolutional": convolution,
        "separable": convolution,
    }[layer]


def main() -> None:
    """Measures what is missing, then writes table and plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "results.jsonl"
    sweeps = QUICK_SWEEPS if options.quick else SWEEPS
    results = measure_all(path, sweeps, options.batch, options.repeats)
    (options.out / "table.md").write_text(table(results), encoding="utf-8")
    plot(results, options.out / "plot.png")
    print(table(results))


def measure_all(
    path: Path, sweeps: dict[str, tuple[int, ...]], batch: int, repeats: int
) -> list[Result]:
    """Runs every measurement that `path` does not hold yet; returns all of them."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    known = [json.loads(line) for line in lines]
    results = []
    processes = multiprocessing.get_context("fork")
    with path.open("a", encoding="utf-8") as file:
        for swept, values in sweeps.items():
            for layer in (name for name, row in LAYERS.items() if swept in row[3]):
                for value in values:
                    case = {"swept": swept, "layer": layer, "batch": batch, **DEFAULTS}
                    # What a neighbourhood saves shows on long sequences only.
                    case |= {"n": 2048, "r": value} if swept == "r" else {swept: value}
                    found = next((one for one in known if case.items() <= one.items()), None)
                    if not found:
                        with processes.Pool(1) as pool:
                            found = case | pool.apply(measure, (case, repeats))
                        print(json.dumps(found), file=file, flush=True)
                    results.append(found)
    return results


def measure(case: Result, repeats: int) -> dict[str, float]:
    """Times forward and backward of one layer: median seconds, and MB above the start."""
    step_of(case | {"n": 8, "d": 16})()  # What TensorFlow itself takes is no layer's memory.
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step = step_of(case)
    step()
    seconds: list[float] = []
    while len(seconds) < repeats and sum(seconds) < 2.0:
        began = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": statistics.median(seconds), "megabytes": (peak - before) / 1024}


def step_of(case: Result) -> Callable[[], Any]:
    """Makes forward and backward of one layer, as a graph, on random input."""
    layer = make_layer(case)
    x = tf.random.normal([case["batch"], case["n"], case["d"]])
    layer.build(x.shape)

    @tf.function
    def step(x: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(layer(x) ** 2)
        return tape.gradient(loss, [x, *(w.value for w in layer.trainable_variables)])

    return lambda: step(x)


def make_layer(case: Result) -> keras.layers.Layer:
    """Makes a layer that maps [batch, n, d] to [batch, n, d]."""
    d, k = case["d"], case["k"]
    heads = (HEADS, d // HEADS, d // HEADS)
    return {
        "self-attention": lambda: MultiHeadAttention(*heads),
        "restricted": lambda: RestrictedSelfAttention(*heads, case["r"]),
        "recurrent": lambda: keras.layers.LSTM(d, return_sequences=True),
        "convolutional": lambda: keras.layers.Conv1D(d, k, padding="same"),
        "separable": lambda: keras.layers.SeparableConv1D(d, k, padding="same"),
    }[case["layer"]]()


def series(
    results: list[Result], swept: str, layer: str, what: str
) -> tuple[list[float], list[float]]:
    """Returns the swept sizes and the measurements, in order."""
    found = sorted(
        (r[swept], r[what]) for r in results if (r["swept"], r["layer"]) == (swept, layer)
    )
    return [x for x, _ in found], [y for _, y in found]


def exponent(sizes: list[float], costs: list[float]) -> float:
    """Returns the slope on logarithmic axes, where 2 means that doubling costs four times."""
    points = [(x, y) for x, y in zip(sizes, costs, strict=True) if y > 0][-FITTED:]
    xs, ys = np.log(points).T if points else (np.zeros(0), np.zeros(0))
    return float(np.polyfit(xs, ys, 1)[0]) if len(xs) > 1 else math.nan


def table(results: list[Result]) -> str:
    """Writes Table 1 with the measured exponents of time and memory, as Markdown."""
    measured = [f"{size}^: {what}" for size in SWEEPS for what in ("time", "memory")]
    columns = ["layer", "complexity", "sequential", "path", "formula at the defaults", *measured]
    lines = [
        f"Defaults: {DEFAULTS}.",
        "",
        f"| {' | '.join(columns)} |",
        "|---" * len(columns) + "|",
    ]
    for layer, (formula, sequential, path, _) in LAYERS.items():
        n, k, r = (DEFAULTS[size] for size in "nkr")
        value = f"{complexity(layer, **DEFAULTS):.1e}, path {path_length(layer, n, k, r):.3g}"
        cells = [layer, f"O({formula})", f"O({sequential})", f"O({path})", value]
        for swept in SWEEPS:
            for what in ("seconds", "megabytes"):
                slope = exponent(*series(results, swept, layer, what))
                cells.append("–" if math.isnan(slope) else f"{slope:.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def plot(results: list[Result], path: Path) -> None:
    """Draws seconds and memory against each size."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5 * len(SWEEPS), 8), layout="tight")
    rows = figure.subplots(2, len(SWEEPS), squeeze=False)
    for axes, what in zip(rows, ("seconds", "megabytes"), strict=True):
        for axis, swept in zip(axes, SWEEPS, strict=True):
            for layer in LAYERS:
                axis.plot(*series(results, swept, layer, what), marker=".", label=layer)
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.set_xlabel(swept)
            axis.set_ylabel(what)
            axis.grid(alpha=0.3)
    rows[0][0].legend(fontsize=8)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
