"""Averages checkpoints: `python -m t2t_repro.average --model_dir=... --last=5`.

The paper averages the last 5 checkpoints of the base model and the last 20 of the big one
(section 6.1). The result goes to model_dir/averaged.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
from absl import flags, logging

from t2t_repro.command_line.flags import FLAGS, define_import, define_path
from t2t_repro.command_line.program import import_tensorflow, run
from t2t_repro.runs.model_directory import ModelDirectory

if TYPE_CHECKING:
    from t2t_repro.model.transformer import Transformer


def main() -> None:
    """Averages the last --last checkpoints of --model_dir into model_dir/averaged."""
    directory = ModelDirectory(FLAGS.model_dir)
    checkpoints = directory.last_checkpoints(FLAGS.last)
    last_step = max(checkpoints)
    # Late: mistakes in flags are reported before the seconds in which TensorFlow is imported.
    import_tensorflow()
    from t2t_repro.config.gin_files import import_modules
    from t2t_repro.runs.weights import save_weights

    # FLAGS.import would be a syntax error.
    import_modules(getattr(FLAGS, "import"))
    model = directory.new_model(checkpoints[last_step])
    with directory.held("average"):
        average_weights(model, checkpoints.values())
        save_weights(model, directory.averaged, last_step)
    logging.info(f"averaged {_description(checkpoints)}, into {directory.averaged}")


def _description(steps: Collection[int]) -> str:
    """Describes what is averaged: "2 checkpoints (fewer than --last=5), steps 1000 to 2000"."""
    fewer = f" (fewer than --last={FLAGS.last})" if len(steps) < FLAGS.last else ""
    return f"{len(steps)} checkpoints{fewer}, steps {min(steps)} to {max(steps)}"


def average_weights(model: "Transformer", checkpoints: Collection[str]) -> None:
    """Sets a model's weights to their mean over checkpoints (paper, section 6.1).

    Args:
        model: the model; its weights are replaced.
        checkpoints: paths, each of a checkpoint of this model.

    Raises:
        UserError: a checkpoint is of another model, or damaged.
    """
    from t2t_repro.runs.weights import load_weights

    # In float64, so that the mean of N copies is the copy.
    sums = [np.zeros(weight.shape, np.float64) for weight in model.trainable_variables]
    for path in checkpoints:
        load_weights(model, path)
        for total, weight in zip(sums, model.trainable_variables, strict=True):
            # In place: `total` is the array in `sums`.
            total += weight.numpy()
    for total, weight in zip(sums, model.trainable_variables, strict=True):
        weight.assign((total / len(checkpoints)).astype(np.float32))


def cli() -> None:
    """Defines the flags, reads the command line, and averages the checkpoints."""
    define_path("model_dir", "The model directory of a training run.", is_required=True)
    define_import()
    flags.DEFINE_integer("last", 5, "How many of the last checkpoints are averaged.")
    run(main)


if __name__ == "__main__":
    cli()
