"""Measures the layers of the paper's Table 1: time and memory against n, d, k and r.

    pip install -e '.[plots]'
    python benchmarks/layer_complexity.py --out=docs/layer_complexity

One Keras layer, forward and backward, float32, `--batch` sequences of n vectors of width d. Every
measurement runs in a process of its own, so that its peak of memory is its own. A line of JSON for
each goes to OUT/results.jsonl, Table 1 with the exponents and crossings that were measured to
OUT/table.md, and the plot to OUT/plot.png. What is there already is not measured again.
"""

import argparse
import json
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Before any fork: a child that imports TensorFlow itself takes seconds longer.
import keras
import tensorflow as tf

from layer_complexity_report import CONCERNED, SWEEPS, plot, report, sizes
from t2t_repro.model.attention import MultiHeadAttention
from t2t_repro.model.restricted_attention import RestrictedSelfAttention

QUICK_SWEEPS = {"n": (8, 16, 32), "d": (16, 32, 64), "k": (3, 5), "r": (4, 8)}
HEADS = 8
ENOUGH_SECONDS = 2.0
"""What one measurement may take before it is repeated no more."""


def main() -> None:
    """Measures what is missing, then writes table and plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--batch", type=int, default=1)
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
    """Runs every measurement that `path` does not hold yet, one after the other.

    Returns:
        these measurements alone: the file may hold others, of another batch or of other sizes.
    """
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    known = [json.loads(line) for line in lines]
    results = []
    processes = multiprocessing.get_context("fork")
    with path.open("a", encoding="utf-8") as file:
        for swept, values in sweeps.items():
            for layer in CONCERNED[swept]:
                for value in values:
                    case = {"swept": swept, "layer": layer, "batch": batch}
                    case |= sizes(swept, value)
                    found = next((one for one in known if case.items() <= one.items()), None)
                    if not found:
                        with processes.Pool(1) as pool:
                            found = case | pool.apply(measure, (case, repeats))
                        print(json.dumps(found), file=file, flush=True)
                    results.append(found)
    return results


def measure(case: dict[str, Any], repeats: int) -> dict[str, float]:
    """Times forward and backward of one layer: medians of seconds, and MB above the start."""
    # What TensorFlow takes once, whatever is computed, is no layer's memory.
    step_of(case | {"n": 8, "d": 16})()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step = step_of(case)
    step()
    walls: list[float] = []
    cpus: list[float] = []
    while len(walls) < repeats and sum(walls) < ENOUGH_SECONDS:
        wall, cpu = time.perf_counter(), time.process_time()
        step()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": statistics.median(walls),
        "cpu_seconds": statistics.median(cpus),
        "megabytes": (peak - before) / 1024,
    }


def step_of(case: dict[str, Any]) -> Callable[[], Any]:
    """Forward and backward of one layer, as a graph, on random input."""
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


def make_layer(case: dict[str, Any]) -> keras.layers.Layer:
    """A layer that maps [batch, n, d] to [batch, n, d]."""
    d, k = case["d"], case["k"]
    heads = (HEADS, d // HEADS, d // HEADS)
    return {
        "self-attention": lambda: MultiHeadAttention(*heads),
        "restricted": lambda: RestrictedSelfAttention(*heads, case["r"]),
        "recurrent": lambda: keras.layers.LSTM(d, return_sequences=True),
        "convolutional": lambda: keras.layers.Conv1D(d, k, padding="same"),
        "separable": lambda: keras.layers.SeparableConv1D(d, k, padding="same"),
    }[case["layer"]]()


if __name__ == "__main__":
    main()
