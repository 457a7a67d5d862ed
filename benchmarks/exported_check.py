"""Writes a train step's program beside what TensorFlow makes of it: see `exported_in_jax.py`.

    python benchmarks/exported_check.py --output=check --size=quickstart

The folder then holds the programs of `exported_step.py`, and check.npz: the inputs of the
gradients' program, in order, and behind them what TensorFlow's XLA, on this machine, gives for
them: sums and gradients, in float32 and with dropout. Few tokens, so that no unit of a feed-forward
network is so near to 0 that rounding decides ReLU's side: one such unit of one token changes the
gradients of all layers below by some 1e-3 of their norms.
"""

import argparse
from pathlib import Path

import numpy as np
import tensorflow as tf

from exported_step import dropout_seeds, shape_of, train_step, write_programs
from gpu_training import random_sentences
from work import SIZES

DTYPE = "float32"
STEP = 3


def main() -> None:
    """Writes the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--size", choices=SIZES, default="quickstart")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--length", type=int, default=16)
    options = parser.parse_args()
    size = SIZES[options.size]._replace(dropout=options.dropout)
    shape = shape_of(options.tokens, options.length)
    step = train_step(size, DTYPE)
    write_programs(options.output, step, shape, size, DTYPE)
    generator = np.random.default_rng(1)
    source, target = (
        random_sentences(generator, size, options.tokens, options.length) for _ in range(2)
    )
    sums, gradients = step.slice_gradients(
        tf.constant(STEP, tf.int64),
        0,
        source[None],
        target[None],
        tf.constant(shape.slots),
        tf.constant(1 / np.count_nonzero(target), tf.float32),
    )
    inputs = [*step.updated, dropout_seeds(step, STEP), source, target]
    arrays = [np.asarray(x) for x in (*inputs, *sums, *gradients)]
    np.savez_compressed(options.output / "check.npz", *arrays)


if __name__ == "__main__":
    main()
