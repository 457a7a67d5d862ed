"""What would end a run hours later, looked at before it begins."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import keras
import tensorflow as tf
from absl import logging

from t2t_repro.data.batch_shapes import BatchShape
from t2t_repro.decoding.batch_plan import available_memory, gigabytes
from t2t_repro.errors import UserError
from t2t_repro.files import nearest_folder
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.training.activation_memory import activation_bytes
from t2t_repro.training.compiled_memory import compiled_bytes

_FLOAT_BYTES = 4

# Shares of a GPU's memory. A display takes a little; TensorFlow wants the rest.
_GPU_IN_USE, _GPU_TAKEN = 0.1, 0.5


def check_writable(folder: Path) -> None:
    """Sees whether a file can be made in a folder, or in what it would be made in.

    Raises:
        UserError: it cannot.
    """
    try:
        with tempfile.TemporaryFile(dir=nearest_folder(folder)):
            pass
    except OSError as error:
        raise UserError(
            f"cannot write to {folder} ({error.strerror}): mend its permissions, or give another "
            "--model_dir."
        ) from error


def check_gpus() -> None:
    """Sees whether other programs use the GPUs; to be asked before TensorFlow takes their memory.

    Over half of a GPU's memory in use is an error, over a tenth a warning. Without nvidia-smi
    nothing is said.

    Raises:
        UserError: a GPU is taken.
    """
    if not tf.config.list_physical_devices("GPU"):
        return
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    query = ["--query-gpu=index,memory.used,memory.total", "--format=csv,noheader,nounits"]
    command = ["nvidia-smi", *([f"--id={visible}"] if visible else []), *query]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return
    for line in done.stdout.splitlines():
        index, used, total = (field.strip() for field in line.split(","))
        if not (used.isdecimal() and total.isdecimal()):
            continue
        share = int(used) / int(total)
        text = (
            f"{share:.0%} of the memory of GPU {index} is in use already: end what runs there (see "
            "nvidia-smi), or set CUDA_VISIBLE_DEVICES to GPUs that are free"
        )
        _refuse_or_warn(text, is_certain=share > _GPU_TAKEN, is_likely=share > _GPU_IN_USE)


def check_disk(
    directory: ModelDirectory, variables: Sequence[keras.Variable | tf.Variable], count: int
) -> None:
    """Holds the size of all checkpoints that are to come against the free space.

    Args:
        directory: of the run.
        variables: that a checkpoint holds.
        count: how many are to come; see `Checkpoints.to_come`.

    Raises:
        UserError: there is too little.
    """
    size = sum(tf.DType(v.dtype).size * v.shape.num_elements() for v in map(_value, variables))
    free = shutil.disk_usage(nearest_folder(directory.path)).free
    if count * size > free:
        raise UserError(
            f"{count} checkpoints of {gigabytes(size)} are to come, but {directory.path} has "
            f"{gigabytes(free)} free: make room, lower Checkpoints.keep, or give a --model_dir on "
            "another disk."
        )


def check_memory(
    model: Transformer,
    shapes: Sequence[BatchShape],
    slices_per_replica: int,
    replicas: int,
    jit_compile: bool,
) -> None:
    """Holds an estimate of what an update needs against the memory that is available on a CPU.

    Gradients are certain to be made; less memory than they take is an error. The activations of
    the largest shape are estimated (see `activation_bytes` and `compiled_bytes`); less than that is
    a warning.

    Args:
        model: the Transformer; it and the optimizer's moments are in memory already.
        shapes: of the slices.
        slices_per_replica: that each takes, one after the other.
        replicas: that work at the same time.
        jit_compile: whether XLA compiles the forward and backward pass.

    Raises:
        UserError: there is too little for certain.
    """
    available = available_memory()
    if available is None or tf.config.list_physical_devices("GPU"):
        return
    # Every replica holds the sum over its slices and the gradients being added to it.
    sums = replicas * (2 if slices_per_replica > 1 else 1)
    gradients = _FLOAT_BYTES * model.count_params() * sums
    most = replicas * max(
        compiled_bytes(model, shape, on_gpu=False)
        if jit_compile
        else activation_bytes(model, shape)
        for shape in shapes
    )
    needed = gradients + most
    text = (
        f"an update needs about {gigabytes(needed)} of memory ({gigabytes(gradients)} for "
        f"gradients), but {gigabytes(available)} are available: lower Batches.tokens_per_batch, "
        "raise TrainStep.micro_batches, give LayerConfig.recompute = True, or end other programs"
    )
    _refuse_or_warn(text, is_certain=gradients > available, is_likely=needed > available)


def _refuse_or_warn(text: str, is_certain: bool, is_likely: bool) -> None:
    """What is certain to end the run is an error, what may end it a warning."""
    if is_certain:
        raise UserError(f"{text}.")
    if is_likely:
        logging.warning("train: %s", text)


def _value(variable: keras.Variable | tf.Variable) -> tf.Variable:
    return variable.value if isinstance(variable, keras.Variable) else variable
