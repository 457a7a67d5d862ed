"""Writes the train step as StableHLO, which XLA compiles for a GPU, with TensorFlow or without.

    python benchmarks/exported_step.py --output=programs --sizes=gpu_base,gpu_big

Neither a GPU nor data are needed. For every size, dtype and length there is a folder, such as
programs/gpu_base_bfloat16_384x64, with

    gradients.mlirbc  forward, loss and backward pass
    update.mlirbc     the whole step: those, the gradient's norm, and Adam
    description.json  sizes, and every program's inputs and outputs: names, shapes, dtypes, in order

A step takes one slice. TensorFlow has XLA compile the gradients' program, and makes the update, and
the seeds of dropout, outside of it. `step_in_jax.py` runs the programs.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import keras
import tensorflow as tf

from alternation import DTYPES, some_of
from peers.ours import random_model
from t2t_repro.data.slice_shapes import SliceShape
from t2t_repro.kernels import global_norm, gpu
from t2t_repro.training.learning_rate import TransformerSchedule
from t2t_repro.training.loss import CrossEntropy, LossSums
from t2t_repro.training.optimizer import LARGEST_NORM, adam
from t2t_repro.training.train_step import TrainStep
from work import LABEL_SMOOTHING, SIZES, ModelSize

LENGTHS = (24, 40, 64)
TOKENS = 25_000
PROGRAMS = ("gradients", "update")

Function = Callable[..., list[tf.Tensor]]


def main() -> None:
    """Writes the programs of every size, dtype and length."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("programs"))
    parser.add_argument("--sizes", type=some_of(SIZES), default="gpu_base,gpu_big")
    parser.add_argument("--dtypes", type=some_of(DTYPES), default="bfloat16")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--recompute", action="store_true", help="LayerConfig.recompute")
    parser.add_argument("--tokens", type=int, default=TOKENS, help="padded target tokens a step")
    arguments = parser.parse_args()
    for size in arguments.sizes:
        for dtype in arguments.dtypes:
            for length in arguments.lengths:
                shape = shape_of(arguments.tokens, length)
                name = f"{size}_{dtype}_{shape.rows}x{length}" + "_recompute" * arguments.recompute
                step = train_step(SIZES[size], dtype, arguments.recompute)
                write_programs(arguments.output / name, step, shape, SIZES[size], dtype)
                print(arguments.output / name, flush=True)


def shape_of(tokens: int, length: int) -> SliceShape:
    """A slice with a multiple of 8 rows of one length, and room for all of it to be tokens."""
    rows = max(8, tokens // length // 8 * 8)
    return SliceShape(rows, length, length, rows * length, rows * length)


def write_programs(
    folder: Path,
    step: TrainStep,
    shape: SliceShape,
    size: ModelSize,
    dtype: str,
    names: Sequence[str] = PROGRAMS,
) -> None:
    """Writes the programs of a step, and what they read and return, to a folder.

    Args:
        folder: is made.
        step: of the trainer.
        shape: of the step's slice.
        size: of the model, for the description.
        dtype: that it computes in, likewise.
        names: of the programs that are written.
    """
    weights = step.updated
    named = {
        "weight": [(variable.path, tuple(variable.shape), variable.dtype) for variable in weights],
        "m": [(f"m {variable.path}", tuple(variable.shape), "float32") for variable in weights],
        "v": [(f"v {variable.path}", tuple(variable.shape), "float32") for variable in weights],
        "gradient": [
            (f"d {variable.path}", tuple(variable.shape), "float32") for variable in weights
        ],
        "batch": [
            ("seeds", (len(step.model.non_trainable_variables), 2), "int64"),
            ("source", (shape.rows, shape.source_length), "int32"),
            ("target", (shape.rows, shape.target_length), "int32"),
        ],
        "sums": [(name, (), "float32") for name in ("loss", "nll", "tokens")],
        "report": [(name, (), "float32") for name in ("loss", "nll", "tokens", "norm", "rate")],
    }
    state = [*named["weight"], *named["m"], *named["v"]]
    programs = {
        "gradients": (
            _gradients(step, shape),
            [*named["weight"], *named["batch"]],
            [*named["sums"], *named["gradient"]],
        ),
        "update": (
            _update(step, shape),
            [*state, ("step", (), "int64"), *named["batch"]],
            [*state, *named["report"]],
        ),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        function, inputs, _ = programs[name]
        (folder / f"{name}.mlirbc").write_bytes(stablehlo(function, inputs))
    description = {
        "size": size._asdict(),
        "dtype": dtype,
        "shape": shape._asdict(),
        "weights": len(weights),
        "programs": {
            name: {"inputs": programs[name][1], "outputs": programs[name][2]} for name in names
        },
    }
    text = json.dumps(description, indent=1)
    (folder / "description.json").write_text(text, encoding="utf-8")


def train_step(
    size: ModelSize,
    dtype: str,
    recompute: bool = False,
    activation: str = "relu",
    schedule: TransformerSchedule | None = None,
) -> TrainStep:
    """The trainer's step, with the paper's optimizer, of a model of random weights.

    Args:
        size: of the model.
        dtype: "float32" or "bfloat16", that it computes in.
        recompute: see `LayerConfig`.
        activation: likewise.
        schedule: None is the paper's.
    """
    model = random_model(size, dtype, recompute, activation)
    optimizer = adam(schedule or TransformerSchedule(size.d_model))
    return TrainStep(model, optimizer, 1, jit_compile=True, loss=CrossEntropy(LABEL_SMOOTHING))


def dropout_seeds(step: TrainStep, number: int) -> tf.Tensor:
    """What the programs read as seeds [dropout layers, 2], in the update after so many."""
    return step.slice_gradients._dropout_seeds(tf.constant(number, tf.int64), 0)


def stablehlo(function: Function, inputs: Sequence[tuple]) -> bytes:
    """The StableHLO of a function of tensors, as TensorFlow lowers it for GPUs.

    Args:
        function: of tensors, to a list of them.
        inputs: name, shape and dtype of each.

    Returns:
        MLIR's bytecode: of its text, versions differ.
    """
    # In lists, TensorFlow would take no specification.
    signature = [tf.TensorSpec(shape, dtype) for _, shape, dtype in inputs]
    program = tf.function(function, input_signature=signature, jit_compile=True, autograph=False)
    with mock.patch.object(gpu, "has_gpu", return_value=True):
        written = program.experimental_get_compiler_ir(*signature)
    return written(stage="stablehlo_serialized", platform_name="GPU")


def _gradients(step: TrainStep, shape: SliceShape) -> Function:
    """(weights ..., seeds, source, target) → loss, nll, tokens, gradients ... of loss / tokens."""

    def gradients(*tensors: tf.Tensor) -> list[tf.Tensor]:
        *weights, seeds, source, target = tensors
        sums, found = _of_slice(step, shape, weights, seeds, source, target)
        return [*sums, *found]

    return gradients


def _update(step: TrainStep, shape: SliceShape) -> Function:
    """(weights ..., m ..., v ..., step, seeds, source, target) → weights, m, v, report."""
    count = len(step.updated)

    def update(*tensors: tf.Tensor) -> list[tf.Tensor]:
        *state, number, seeds, source, target = tensors
        weights, m, v = (state[first : first + count] for first in (0, count, 2 * count))
        sums, gradients = _of_slice(step, shape, weights, seeds, source, target)
        # Not that of `training.optimizer`, which looks again where squares overflow: XLA would hold
        # all gradients for a branch that a run never takes.
        norm = global_norm.global_norm(gradients)
        is_usable = tf.math.is_finite(sums.loss) & (norm <= LARGEST_NORM)
        rate = step.optimizer._learning_rate(number)
        # As long as a row of a weight: XLA updates weights of one shape in one kernel if they read
        # something in common that is no scalar.
        widths = {weight.shape[-1] for weight in weights}
        rates = {width: gpu.apart(tf.fill([width], rate))[0] for width in widths}
        of_each = [
            _adam(step.optimizer, number, rates[one[0].shape[-1]], *one)
            for one in zip(weights, m, v, gradients, strict=True)
        ]
        updated = [tensor for of_one in zip(*of_each, strict=True) for tensor in of_one]
        new = [tf.where(is_usable, *pair) for pair in zip(updated, state, strict=True)]
        return [*new, sums.loss / sums.tokens, sums.nll / sums.tokens, sums.tokens, norm, rate]

    return update


def _of_slice(
    step: TrainStep,
    shape: SliceShape,
    weights: list[tf.Tensor],
    seeds: tf.Tensor,
    source: tf.Tensor,
    target: tf.Tensor,
) -> tuple[LossSums, list[tf.Tensor]]:
    scale = 1.0 / tf.math.count_nonzero(target, dtype=tf.float32)
    slots = tf.constant(shape.slots, tf.int32)
    return step.slice_gradients._of_slice(weights, seeds, source, target, slots, scale)


def _adam(
    optimizer: keras.optimizers.Adam,
    number: tf.Tensor,
    rate: tf.Tensor,
    weight: tf.Tensor,
    m: tf.Tensor,
    v: tf.Tensor,
    gradient: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    beta_1, beta_2 = optimizer.beta_1, optimizer.beta_2
    t = tf.cast(number, tf.float32) + 1.0
    rate = rate * tf.sqrt(1.0 - beta_2**t) / (1.0 - beta_1**t)
    m = m + (1.0 - beta_1) * (gradient - m)
    v = v + (1.0 - beta_2) * (tf.square(gradient) - v)
    return weight - rate * m / (tf.sqrt(v) + optimizer.epsilon), m, v


if __name__ == "__main__":
    main()
