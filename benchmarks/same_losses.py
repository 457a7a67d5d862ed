"""Whether updates on a GPU give the losses that they give on a CPU.

    python benchmarks/same_losses.py --write=losses.json       # on a CPU, ahead
    python benchmarks/same_losses.py --expected=losses.json    # on the GPU

The same model of random weights, in float32, with dropout, makes the same updates on the same few
random batches, whose loss falls fast. On a GPU it is compiled by XLA, and products are computed
once in float32 and once in TF32, the default there. A JSON line for either: the largest relative
difference of a loss.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import tensorflow as tf

from peers.ours import random_model
from t2t_repro.files import write_whole
from t2t_repro.model.loss import CrossEntropy
from t2t_repro.training.devices import use_xla
from t2t_repro.training.learning_rate import TransformerSchedule
from t2t_repro.training.optimizer import adam
from t2t_repro.training.train_step import TrainStep
from work import LABEL_SMOOTHING, PAD_ID, SIZES

ROWS, LENGTH = 16, 24
BATCHES = 4
WARMUP_STEPS = 20


def main() -> None:
    """Writes the losses, or holds them against those that were written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--write", type=Path)
    kind.add_argument("--expected", type=Path)
    parser.add_argument("--size", choices=SIZES, default="base", help="with --write")
    parser.add_argument("--steps", type=int, default=20, help="with --write")
    options = parser.parse_args()
    if options.write:
        found = {"size": options.size, "losses": losses(options.size, options.steps)}
        write_whole(options.write, json.dumps(found).encode())
        return
    expected = json.loads(options.expected.read_text(encoding="utf-8"))
    for is_tf32, name in ((False, "float32"), (True, "TF32")):
        tf.config.experimental.enable_tensor_float_32_execution(is_tf32)
        own = losses(expected["size"], len(expected["losses"]))
        labels = {"benchmark": "losses as on a CPU", "case": f"{expected['size']}, {name}"}
        value = {"value": difference(own, expected["losses"]), "unit": "relative difference"}
        device = {"gpus": len(tf.config.list_physical_devices("GPU")), "steps": len(own)}
        print(json.dumps({**labels, **value, **device, "losses": own}), flush=True)


def losses(size: str, steps: int) -> list[float]:
    """Makes so many updates; returns the loss of each."""
    model = random_model(SIZES[size], "float32")
    schedule = TransformerSchedule(SIZES[size].d_model, warmup_steps=WARMUP_STEPS, constant=0.2)
    step = TrainStep(model, adam(schedule), 1, use_xla(), CrossEntropy(LABEL_SMOOTHING))
    generator = np.random.default_rng(1)
    vocab_size = SIZES[size].vocab_size
    batches = [[sentences(generator, vocab_size)[None] for _ in range(2)] for _ in range(BATCHES)]
    capacity = [ROWS * LENGTH + 1] * 2  # one program of XLA for all of them
    found = []
    for number in range(steps):
        source, target = batches[number % BATCHES]
        found.append(float(step(number, source, target, capacity).loss))
    return found


def sentences(generator: np.random.Generator, vocab_size: int) -> np.ndarray:
    """Random ids, [rows, length], up to half of each of them PAD."""
    ids = generator.integers(3, vocab_size, (ROWS, LENGTH), np.int32)
    lengths = generator.integers(LENGTH // 2, LENGTH + 1, (ROWS, 1))
    return np.where(np.arange(LENGTH) < lengths, ids, PAD_ID)


def difference(found: list[float], expected: list[float]) -> float:
    """Returns the largest difference of two losses of a step, relative to the expected one.

    It is no number where a loss is none: Python's own `max` would pass over that.
    """
    return float(np.max(np.abs(np.array(found) / np.array(expected) - 1)))


if __name__ == "__main__":
    main()
