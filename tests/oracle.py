"""Reference values of the original Tensor2Tensor: see t2t_reference/README.md."""

import os
from pathlib import Path

import numpy as np
import tensorflow as tf

VARIANTS = ("paper", "v3")


def oracle_folder(variant: str) -> Path:
    return Path(__file__).with_name("t2t_reference") / variant


def oracle_arrays(variant: str) -> dict[str, np.ndarray]:
    """Inputs and outputs, and the checkpoint's variables, by their names."""
    folder = oracle_folder(variant)
    with np.load(folder / "values.npz") as arrays:
        values = dict(arrays)
    checkpoint = tf.train.load_checkpoint(os.fspath(folder / "checkpoint"))
    names = checkpoint.get_variable_to_shape_map()
    return values | {name: checkpoint.get_tensor(name) for name in names}
