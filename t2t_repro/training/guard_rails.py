"""Checks before a run that there is room for its checkpoints and that they can be written."""

import math
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import keras
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.files import nearest_folder

_GB = 1e9


def check_writable(folder: Path) -> None:
    """Checks that a file can be written in a folder, or where the folder would be made.

    Raises:
        UserError: it cannot.
    """
    try:
        with tempfile.TemporaryFile(dir=nearest_folder(folder)):
            pass
    except OSError as error:
        raise UserError(
            f"cannot write to {folder} ({error.strerror}): change its permissions, or give another "
            "--model_dir."
        ) from error


def check_disk(folder: Path, variables: Sequence[keras.Variable | tf.Variable], count: int) -> None:
    """Checks that the checkpoints to come fit on the disk.

    Args:
        folder: the model directory.
        variables: those that a checkpoint holds.
        count: how many are to come; see `Checkpoints.to_come`.

    Raises:
        UserError: there is too little free space.
    """
    size = sum(tf.as_dtype(v.dtype).size * math.prod(v.shape) for v in variables)
    free = shutil.disk_usage(nearest_folder(folder)).free
    if count * size > free:
        raise UserError(
            f"{count} checkpoints of {size / _GB:.3g} GB are to come, but {folder} has "
            f"{free / _GB:.3g} GB free: make room, lower Checkpoints.keep, or give a --model_dir "
            "on another disk."
        )
