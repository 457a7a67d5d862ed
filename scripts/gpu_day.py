"""Measures this project on a machine with a GPU: `python scripts/gpu_day.py --output=gpu.jsonl`.

Every case trains by the trainer's own code, in a process of its own, on random words. One JSON line
each:

    losses    base without dropout in float32, on the GPU with kernels and XLA: the greatest
              difference of its losses from the CPU's by the plain formulas, if that case has
              run; also with one of both
    speed     base and big as the paper trains them, in bfloat16 and in float32: tokens a second,
              and the most memory of the GPU that was in use

Without a GPU the same cases run on the CPU. --tiny makes the models small, to try the script out.
About 20 minutes on an H100. A case that fails is a line with its error.
"""

import argparse
import json
import os
import random
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]
GIN = """
include 'gin/{size}.gin'
prepare.corpus = @TextFilesCorpus()
TextFilesCorpus.train = ('{folder}/train.source', '{folder}/train.target')
TextFilesCorpus.dev = ('{folder}/dev.source', '{folder}/dev.target')
SubwordTraining.vocab_size = 2000
Transformer.vocab_size = 40960
Batches.max_shapes = 1
TrainingSchedule.log_every = 1
BeamSearch.beam_size = 1
Translator.max_extra_length = 0
"""
TINY = (
    "d_model = 32",
    "LayerConfig.d_ff = 64",
    "LayerConfig.num_heads = 2",
    "Transformer.num_layers = 1",
    "Transformer.vocab_size = 2048",
    "Batches.tokens_per_batch = 2048",
)
EXACT = (
    "LayerConfig.dropout = 0.0",
    "train.deterministic = True",
    "TransformerSchedule.warmup_steps = 10",
)
LOSS_STEPS, SPEED_STEPS = 5, 40


def main() -> None:
    """Runs all cases, or one of them in this process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("gpu.jsonl"))
    parser.add_argument("--tiny", action="store_true", help="small models, to try this out")
    parser.add_argument("--only", default="", help="the cases whose names have this in them")
    parser.add_argument("--case", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(train(options.case)))
        return
    with tempfile.TemporaryDirectory(prefix="gpu-day-") as name, options.output.open("a") as output:
        for line in results(Path(name), TINY if options.tiny else (), options.only):
            print(json.dumps(line), file=output, flush=True)
            print(json.dumps(line), flush=True)


def results(folder: Path, bindings: Sequence[str], only: str) -> Any:
    """Yields the line of every case whose name has `only` in it."""
    write_corpus(folder)
    expected: list[float] = []
    for case, size, own, environment in cases():
        if only not in case:
            continue
        found = run(folder, size, [*bindings, *own], environment)
        if "CPU" in case:
            expected = found.get("losses", [])
        if expected and case.startswith("losses") and "losses" in found:
            pairs = zip(found["losses"], expected, strict=True)
            found["greatest_difference"] = max(abs(ours - theirs) for ours, theirs in pairs)
        yield {"case": case, **found}


def cases() -> Iterator[tuple[str, str, list[str], dict[str, str]]]:
    """Yields name, size, bindings and environment of every case; the first is the reference."""
    exact = [*EXACT, f"TrainingSchedule.steps = {LOSS_STEPS}"]
    # Products in float32, not in TF32.
    kernels = {"NVIDIA_TF32_OVERRIDE": "0"}
    formulas = kernels | {"T2T_REPRO_PLAIN": "1"}
    xla, no_xla = "use_xla.jit_compile = True", "use_xla.jit_compile = False"
    cpu = formulas | {"CUDA_VISIBLE_DEVICES": ""}
    yield "losses: CPU, formulas", "base", [*exact, no_xla], cpu
    yield "losses: kernels and XLA", "base", [*exact, xla], kernels
    yield "losses: kernels", "base", [*exact, no_xla], kernels
    yield "losses: XLA", "base", [*exact, xla], formulas
    yield "losses: formulas", "base", [*exact, no_xla], formulas
    steps = f"TrainingSchedule.steps = {SPEED_STEPS}"
    for size in ("base", "big"):
        for precision in ("mixed_bfloat16", "float32"):
            for pieces in (8, 1):
                own = [f"train.precision = '{precision}'", f"TrainStep.micro_batches = {pieces}"]
                name = f"speed: {size} {precision}, {pieces} micro-batches"
                yield name, size, [steps, *own], {}


def run(
    folder: Path, size: str, bindings: Sequence[str], environment: dict[str, str]
) -> dict[str, Any]:
    """Trains in a process of its own; returns what it reports, or its error."""
    (folder / "experiment.gin").write_text(
        GIN.format(size=size, folder=folder) + "\n".join(bindings) + "\n"
    )
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), f"--case={folder}"],
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)} | environment,
        capture_output=True,
        text=True,
    )
    seconds = round(time.monotonic() - began, 1)
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    if not lines:
        return {"error": done.stderr.splitlines()[-1:], "seconds": seconds}
    return {**json.loads(lines[-1]), "seconds": seconds}


def train(folder: Path) -> dict[str, Any]:
    """Trains the experiment of a folder; returns its losses, speed and memory."""
    import tensorflow as tf
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with tempfile.TemporaryDirectory(dir=folder) as model_dir:
        flags = [f"--gin_file={folder}/experiment.gin", f"--data_dir={folder}/data"]
        sys.argv = ["trainer", *flags, f"--model_dir={model_dir}"]
        try:
            runpy.run_module("t2t_repro.trainer", run_name="__main__", alter_sys=True)
        except SystemExit as end:
            if end.code:
                raise
        events = EventAccumulator(f"{model_dir}/tensorboard", {"tensors": 0}).Reload()

    def values(tag: str) -> list[float]:
        return [float(tf.make_ndarray(each.tensor_proto)) for each in events.Tensors(tag)]

    gpus = tf.config.list_physical_devices("GPU")
    found: dict[str, Any] = {
        "device": "GPU" if gpus else "CPU",
        "losses": values("train/loss"),
        # The first updates compile.
        "tokens_per_second": round(statistics.median(values("train/real_tokens_per_second")[3:])),
    }
    if gpus:
        details = tf.config.experimental.get_device_details(gpus[0])
        found["device"] = details["device_name"]
        peak = tf.config.experimental.get_memory_info("GPU:0")["peak"]
        found["peak_mib"] = round(peak / 2**20)
    return found


def write_corpus(folder: Path) -> None:
    """Writes sentences of random words; a target has as many as its source."""
    generator = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(generator.choices(letters, k=generator.randint(2, 8))) for _ in range(4000)]
    for split, count in (("train", 20_000), ("dev", 20)):
        lengths = [generator.randint(30, 45) for _ in range(count)]
        for side in ("source", "target"):
            lines = (" ".join(generator.choices(words, k=length)) for length in lengths)
            (folder / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
