"""Training steps a second with XLA on and off, and what compiling costs, cold and from the cache.

    python benchmarks/xla.py [--sizes quickstart base] [--precision=float32] [--repetitions=3]

On the GPU where there is one, on the CPU otherwise. Prints a JSON line for every measurement and a
Markdown table in the end. Each measurement is a process of its own: "off"; "cold", XLA with an
empty cache on disk; "warm", XLA with what "cold" left there.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

CHECKOUT = Path(__file__).resolve().parents[1]
# vocabulary, layers, d_model, d_ff, heads; padded target tokens a batch
SIZES = {
    "quickstart": (2_000, 2, 128, 512, 4, 4096),
    "base": (8_000, 6, 512, 2048, 8, 1024),
}
LENGTHS = (16, 32, 64)
MODES = ("off", "cold", "warm")


def measure(size: str, precision: str, mode: str, cache: Path, tokens: int, steps: int) -> None:
    """Prints the results of one model and one mode as JSON lines; runs in a process of its own."""
    from t2t_repro.training.xla_cache import keep_programs

    keep_programs(cache, str(cache))
    import tensorflow as tf

    from t2t_repro.data.slice_shapes import SliceShape

    step = make_step(size, precision, jit_compile=mode != "off")
    shapes = [SliceShape(tokens // length, length, length, tokens, tokens) for length in LENGTHS]
    began, cpu = time.monotonic(), time.process_time()
    step.compile(shapes)
    result = {
        "benchmark": "xla",
        "case": f"{size}, {precision}",
        "mode": mode,
        "device": "GPU" if tf.config.list_logical_devices("GPU") else "CPU",
    }
    seconds = {"value": time.monotonic() - began, "cpu_s": time.process_time() - cpu}
    name = {"what": f"compile {len(shapes)} shapes"}
    print(json.dumps({**result, **name, **seconds, "unit": "s"}), flush=True)
    rng = np.random.default_rng(0)
    for shape in shapes:
        rows, *lengths = shape[:3]
        batch = [rng.integers(2, 2_000, (1, rows, length), np.int32) for length in lengths]
        batch.append(np.array(shape.slots, np.int32))
        for number in range(2):
            float(step(number, *batch).loss)
        began, cpu = time.monotonic(), time.process_time()
        for number in range(steps):
            loss = step(number, *batch).loss
        float(loss)
        wall, cpu = time.monotonic() - began, time.process_time() - cpu
        name = {"what": f"{rows} × {lengths[0]}"}
        speed = {"value": steps / wall, "cpu_s": cpu / steps, "unit": "steps/s"}
        print(json.dumps({**result, **name, **speed}), flush=True)


def make_step(size: str, precision: str, jit_compile: bool) -> Any:
    """A TrainStep of a new model."""
    from t2t_repro.layers.layer_config import LayerConfig
    from t2t_repro.models.transformer import Transformer
    from t2t_repro.training.optimizer import adam
    from t2t_repro.training.train_step import TrainStep

    vocab, layers, d_model, d_ff, heads, _ = SIZES[size]
    config = LayerConfig(d_model=d_model, d_ff=d_ff, num_heads=heads)
    model = Transformer(vocab, layers, config, dtype=precision)
    model.build()
    optimizer = adam(learning_rate=1e-4)
    return TrainStep(model, optimizer, seed=1, jit_compile=jit_compile)


def run(size: str, mode: str, cache: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measures in a process of its own, and passes its lines on."""
    tokens = options.tokens or SIZES[size][-1]
    worker = [sys.executable, __file__, f"--precision={options.precision}", "--sizes", size]
    worker += [f"--steps={options.steps}", f"--tokens={tokens}", f"--worker={mode}", cache]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("TF_XLA_FLAGS", None)
    out = subprocess.run(
        worker, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    print(out, end="", flush=True)
    return [json.loads(line) for line in out.splitlines()]


def main() -> None:
    """Measures everything in alternation, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--precision", choices=("float32", "mixed_bfloat16"), default="float32")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10, help="timed steps of a shape")
    parser.add_argument("--tokens", type=int, help="padded target tokens of a batch")
    parser.add_argument("--worker", choices=MODES, help=argparse.SUPPRESS)
    parser.add_argument("cache", nargs="?", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        measure(
            options.sizes[0],
            options.precision,
            options.worker,
            Path(options.cache),
            options.tokens,
            options.steps,
        )
        return
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _ in range(options.repetitions):
        for size in options.sizes:
            with tempfile.TemporaryDirectory() as cache:
                for mode in MODES:
                    for line in run(size, mode, cache, options):
                        what = f"{line['what']} ({line['unit']})"
                        found[line["case"], what][mode].append(line["value"])
    print("\n| model | rows × length | XLA off | XLA, cold | XLA, warm |\n|---|---|---|---|---|")
    for (case, what), values in found.items():
        medians = " | ".join(f"{statistics.median(values[mode]):.2f}" for mode in MODES)
        print(f"| {case} | {what} | {medians} |")


if __name__ == "__main__":
    main()
