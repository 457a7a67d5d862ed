"""Writes a train step's programs beside what TensorFlow makes of them: see `exported_in_jax.py`.

    python benchmarks/exported_check.py --output=check
    python benchmarks/exported_check.py --output=check_smooth --activation=swish --tokens=2048

The folder then holds the programs of `exported_step.py`, and check.npz: what the update's program
reads, in order; behind it, for the same weights and sentences, what TensorFlow's XLA gives on this
machine as sums and gradients; and the trainer's state and report after that update. All in float32
and with dropout. Some updates have been made before, so that Adam's moments are not 0.

ReLU has a corner. Where a unit of a feed-forward network is so near to 0 that rounding decides its
side, one unit of one token changes the gradients of its layer and of all below by some 1e-3 of
their norms. The default is so few tokens that this does not happen; --activation=swish has no
corner, however many tokens there are.
"""

import argparse
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from exported_step import dropout_seeds, shape_of, train_step, write_programs
from gpu_training import random_sentences
from t2t_repro.training.learning_rate import TransformerSchedule
from t2t_repro.training.train_step import TrainStep
from t2t_repro.whole_files import whole_file
from work import SIZES

DTYPE = "float32"
UPDATES = 3
"""Made before the one that is compared."""

# The first updates change the weights already: by far more than a float32 weight is rounded by.
WARMUP_STEPS, CONSTANT = 20, 0.2


def main() -> None:
    """Writes the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--size", choices=SIZES, default="check")
    parser.add_argument("--activation", default="relu", help="LayerConfig.activation")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--length", type=int, default=16)
    options = parser.parse_args()
    size = SIZES[options.size]._replace(dropout=options.dropout)
    shape = shape_of(options.tokens, options.length)
    schedule = TransformerSchedule(size.d_model, WARMUP_STEPS, CONSTANT)
    step = train_step(size, DTYPE, activation=options.activation, schedule=schedule)
    write_programs(options.output, step, shape, size, DTYPE)
    generator = np.random.default_rng(1)
    for number in range(UPDATES + 1):
        source, target = (
            random_sentences(generator, size, options.tokens, options.length) for _ in range(2)
        )
        if number < UPDATES:
            step(number, source[None], target[None], shape.slots)
    inputs = [*state(step), UPDATES, dropout_seeds(step, UPDATES), source, target]
    read = [np.array(x) for x in inputs]
    sums, gradients = step.slice_gradients(
        tf.constant(UPDATES, tf.int64),
        0,
        source[None],
        target[None],
        tf.constant(shape.slots),
        tf.constant(1 / np.count_nonzero(target), tf.float32),
    )
    report = step(UPDATES, source[None], target[None], shape.slots)[:5]
    given = [np.array(x) for x in (*sums, *gradients, *state(step), *report)]
    # Whole or not at all: `prepare.py` takes what is there for done.
    with whole_file(options.output / "check.npz") as aside:
        np.savez_compressed(aside, *read, *given)


def state(step: TrainStep) -> list[NDArray[np.float32]]:
    """Weights, and Adam's moments m and v: what an update replaces, in the program's order."""
    optimizer = step.optimizer
    variables = (*step.updated, *optimizer._momentums, *optimizer._velocities)
    return [np.array(variable.numpy()) for variable in variables]


if __name__ == "__main__":
    main()
