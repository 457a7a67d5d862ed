"""Runs a batch again whose loss or gradient could not be used, and looks where that begins."""

import math
import traceback
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.training.optimizer import LARGEST_NORM
from t2t_repro.training.train_step import TrainStep

# A hundred times a large batch's.
_MAX_BYTES = 2**28
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}

# It hands vectors on to where they are computed with.
_PLUMBING = "packing.py"


class BadBatch(NamedTuple):
    """What `Checkpoints.save_bad_batch` wrote.

    Attributes:
        step: number of updates before the batch.
        source: [slices, rows, source_length], token ids.
        target: [slices, rows, target_length], token ids.
    """

    step: int
    source: np.ndarray
    target: np.ndarray


def read_batch(file: Path) -> BadBatch:
    """Reads a batch.

    Raises:
        UserError: there is no such file, or it holds no batch.
    """
    try:
        _check_sizes(file)
        with np.load(file, allow_pickle=False) as arrays:
            batch = BadBatch(int(arrays["step"]), arrays["source"], arrays["target"])
        _check_batch(batch)
    # What zipfile, zlib and NumPy raise for damaged files is no short list.
    except Exception as error:
        raise UserError(
            f"--replay={file}: cannot be read ({type(error).__name__}); expected a file that the "
            "trainer wrote, <model_dir>/nonfinite/step-<n>.npz."
        ) from error
    return batch


def _check_sizes(file: Path) -> None:
    """Holds what the arrays say of their sizes against what the file has."""
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            if entry.file_size > _MAX_BYTES:
                raise ValueError(f"{entry.filename} has {entry.file_size} bytes")
            with archive.open(entry) as array:
                read_header = _HEADERS[np.lib.format.read_magic(array)]
                shape, _, dtype = read_header(array)
                if math.prod(shape) * dtype.itemsize != entry.file_size - array.tell():
                    raise ValueError(f"{entry.filename} has the shape {shape}")


def _check_batch(batch: BadBatch) -> None:
    for ids in (batch.source, batch.target):
        if ids.ndim != 3 or ids.dtype != np.int32 or not ids.size or ids.min() < 0:
            raise ValueError(f"ids of shape {ids.shape} and type {ids.dtype}")
    if batch.source.shape[:2] != batch.target.shape[:2] or batch.step < 0:
        raise ValueError(f"shapes {batch.source.shape} and {batch.target.shape}")


def replay(step: TrainStep, batch: BadBatch) -> list[str]:
    """Computes loss and gradients of a batch, without an update; lines to be read by a person.

    Args:
        step: of the weights before the batch, on one device, with as many slices as the batch.
        batch: to be run again.
    """
    weights, variables = step.model.trainable_variables, step.updated
    bad = [weight.path for weight in weights if not np.isfinite(weight.numpy()).all()]
    lines = [f"step {batch.step + 1}: weights not finite before it: {', '.join(bad) or 'none'}"]
    sums, gradients = step.gradients(*batch)
    loss, nll = (float(x / sums.tokens) for x in (sums.loss, sums.nll))
    lines.append(f"loss {loss:.6g}, nll {nll:.6g}, {int(sums.tokens)} target tokens")
    # Squares of what a float32 holds are float64.
    norms = [float(np.linalg.norm(gradient.numpy().astype(np.float64))) for gradient in gradients]
    norm = math.hypot(*norms)
    lines.append(f"gradient norm {norm:.6g}, by variable:")
    lines += [
        f"  {norm:12.6g}  {variable.path}" for norm, variable in zip(norms, variables, strict=True)
    ]
    if not math.isfinite(norm) or not math.isfinite(loss):
        names = [v.path for n, v in zip(norms, variables, strict=True) if not math.isfinite(n)]
        which = "all" if len(names) == len(variables) else ", ".join(names) or "none"
        return [
            *lines,
            f"loss: {'finite' if math.isfinite(loss) else 'not finite'}; gradients that are not "
            f"finite: {which}",
            _first_bad_operation(step, batch),
        ]
    if norm > LARGEST_NORM:
        largest = variables[int(np.argmax(norms))].path
        return [
            *lines,
            f"loss and gradients are finite, but the gradient's norm is beyond {LARGEST_NORM:g}: "
            "its square, which Adam averages, is too large for float32; the longest is that of "
            f"{largest}; lower the learning rate or bind adam.clip_norm",
        ]
    return [*lines, _first_bad_operation(step, batch)]


def _first_bad_operation(step: TrainStep, batch: BadBatch) -> str:
    """Runs the batch operation by operation, until one gives something that is not finite."""
    tf.config.run_functions_eagerly(True)
    tf.debugging.enable_check_numerics()
    try:
        step.gradients(*batch)
    except tf.errors.InvalidArgumentError as error:
        operation = str(error).split("eagerly-executing op", 1)[-1].split("(#")[0].strip(" \n\"'")
        frames = [
            f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
            for frame in traceback.extract_tb(error.__traceback__)
            if "t2t_repro" in (parts := Path(frame.filename).parts)
            and parts[-1] != _PLUMBING
            # Of Python 3.11 a list in brackets is a function of its own.
            and not frame.name.startswith("<")
        ]
        where = f" in {' > '.join(frames[-4:])}" if frames else ""
        return f"first not finite: the output of {operation}{where}"
    finally:
        tf.debugging.disable_check_numerics()
        tf.config.run_functions_eagerly(False)
    return (
        "everything is finite here, on one device and without XLA: what was not came from another "
        "device, another precision of its sums, or damaged memory"
    )
