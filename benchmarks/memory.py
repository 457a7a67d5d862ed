"""Memory of a slice's forward and backward pass: our estimate beside XLA's own analysis.

    python benchmarks/memory.py [--experiments base_ende big_ende] [--precisions float32]

Prints Markdown. XLA compiles the train step's program for the device that there is (a GPU, or this
CPU) and says what memory it will take; nothing is run. On a CPU a row takes one to two minutes.
What is compared is what lies beside weights and gradients.
"""

import argparse
from collections.abc import Iterator

from cost import EXPERIMENTS, GB, Experiment
from t2t_repro.data.slice_shapes import SliceShape
from t2t_repro.kernels.gpu import has_gpu
from t2t_repro.models.transformer import Transformer
from t2t_repro.training.compiled_memory import compiled_bytes
from t2t_repro.training.optimizer import adam
from t2t_repro.training.train_step import TrainStep

# Long, middling and short sentences: three of the six shapes for an eighth of a batch that the
# 68,256 pairs of EXPERIMENTS.md have.
SHAPES = (
    SliceShape(24, 208, 224, 2845, 3125),
    SliceShape(101, 48, 48, 3022, 3125),
    SliceShape(447, 16, 16, 3125, 3104),
)


def main() -> None:
    """Prints a row for every experiment, precision and shape."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [experiment.name for experiment in EXPERIMENTS]
    parser.add_argument("--experiments", nargs="+", choices=names, default=names)
    parser.add_argument("--precisions", nargs="+", default=["float32", "mixed_bfloat16"])
    arguments = parser.parse_args()
    print("| experiment | precision | rows × lengths | estimate | XLA | XLA / estimate |")
    print("|---|---|---|---|---|---|")
    for experiment in EXPERIMENTS:
        if experiment.name in arguments.experiments:
            for precision in arguments.precisions:
                for row in rows(experiment, precision, SHAPES):
                    print(row, flush=True)


def rows(experiment: Experiment, precision: str, shapes: tuple[SliceShape, ...]) -> Iterator[str]:
    """Yields a row of the table for every shape."""
    vocab_size, layers, config = experiment.shape[:3]
    model = Transformer(vocab_size, layers, config, dtype=precision)
    model.build()
    step = TrainStep(model, adam(learning_rate=1e-4), seed=1, jit_compile=True)
    # What goes in and what comes out, in float32.
    held = 2 * 4 * model.count_params()
    for shape in shapes:
        estimate = compiled_bytes(model, shape, has_gpu())
        peak = step.slice_gradients.peak_bytes(shape) - held
        cells = (
            f"`{experiment.name}`",
            f"`{precision}`",
            f"{shape.rows} × {shape.source_length}, {shape.target_length}",
            f"{estimate / GB:.1f} GB",
            f"{peak / GB:.1f} GB",
            f"{peak / estimate:.2f}",
        )
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
