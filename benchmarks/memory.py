"""Memory of a slice's forward and backward pass: our estimate beside XLA's own analysis.

    python benchmarks/memory.py --sizes gpu_base gpu_big         # for the device that there is
    python benchmarks/memory.py --gpu=H100 --lengths 208 16      # for a GPU that is not there

Prints Markdown. XLA compiles the train step's program (on a CPU one to two minutes a row) and says
what memory it will take; nothing is run. For a GPU that is not there TensorFlow writes the program,
and XLA compiles it as JAX has it, in an environment of its own (`compile_ahead.py`). "Estimate" and
"XLA" are what lies beside weights and gradients; the last column counts gradients too, as the check
before a run does.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from cost import GB
from environments import DEFAULT_ENV_DIR, make_environment
from exported_step import train_step, write_programs
from gpu_ahead import compile_for
from gpus import GPUS
from t2t_repro.data.batch_shapes import BatchShape
from t2t_repro.model.kernels.gpu import has_gpu
from t2t_repro.training.compiled_memory import compiled_bytes
from t2t_repro.training.train_step import TrainStep
from work import SIZES, ModelSize

# Long, middling and short sentences: three of the six shapes for an eighth of a batch that the
# 68,256 pairs of EXPERIMENTS.md have.
SHAPES = (
    BatchShape(24, 208, 224, 2845, 3125),
    BatchShape(101, 48, 48, 3022, 3125),
    BatchShape(447, 16, 16, 3125, 3104),
)
FLOAT_BYTES = 4
COLUMNS = ("size", "dtype", "rows × lengths", "estimate", "XLA", "XLA / estimate", "with gradients")

Peak = Callable[[TrainStep, BatchShape], int]
"""What XLA says that a slice takes, weights and gradients too, in bytes."""


def main() -> None:
    """Prints a row for every size, dtype and shape."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["gpu_base", "gpu_big"])
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    lengths = [shape.source_length for shape in SHAPES]
    parser.add_argument("--lengths", nargs="+", type=int, choices=lengths, default=lengths)
    parser.add_argument("--recompute", action="store_true", help="LayerConfig.recompute")
    parser.add_argument("--gpu", choices=GPUS, help="compile for it, ahead")
    parser.add_argument("--env_dir", type=Path, default=DEFAULT_ENV_DIR)
    arguments = parser.parse_args()
    shapes = [shape for shape in SHAPES if shape.source_length in arguments.lengths]
    jax = make_environment(arguments.env_dir, "jax") if arguments.gpu else None
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for name in arguments.sizes:
        for dtype in arguments.dtypes:
            size, peak = SIZES[name], of_this_device
            if jax:
                peak = partial(of_gpu, jax, arguments.gpu, size, dtype)
            step = train_step(size, dtype, arguments.recompute)
            first = f"`{name}`" + ", `recompute`" * arguments.recompute
            for numbers in rows(step, shapes, has_gpu() or bool(jax), peak):
                print(f"| {first} | `{dtype}` | {numbers} |", flush=True)


def rows(step: TrainStep, shapes: Sequence[BatchShape], on_gpu: bool, peak: Peak) -> Iterator[str]:
    """Yields the cells of a row for every shape, from the shape on."""
    of_weights = FLOAT_BYTES * step.model.count_params()
    for shape in shapes:
        estimate = compiled_bytes(step.model, shape, on_gpu)
        found = peak(step, shape) - 2 * of_weights
        cells = (
            f"{shape.rows} × {shape.source_length}, {shape.target_length}",
            f"{estimate / GB:.2f} GB",
            f"{found / GB:.2f} GB",
            f"{found / estimate:.2f}",
            f"{(of_weights + found) / (of_weights + estimate):.2f}",
        )
        yield " | ".join(cells)


def of_this_device(step: TrainStep, shape: BatchShape) -> int:
    """By TensorFlow's XLA, for the device that there is."""
    return step.slice_gradients.peak_bytes(shape)


def of_gpu(
    jax: Path, gpu: str, size: ModelSize, dtype: str, step: TrainStep, shape: BatchShape
) -> int:
    """By the XLA of JAX, for a GPU that is not there."""
    with tempfile.TemporaryDirectory() as folder:
        write_programs(Path(folder), step, shape, size, dtype, ["gradients"])
        found = compile_for(jax, Path(folder), gpu, "gradients")
    return found["arguments"] + found["outputs"] + found["temporaries"]


if __name__ == "__main__":
    main()
