"""Versions of a model that would stop a server, or take the machine from it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from t2t_repro.formats.saved_model.warm_up import WARM_UP_FILE, Request, write_warm_up

_FLOATS = tf.TensorSpec([None], tf.float32)


class _Endless(tf.Module):
    """Answers never, where it is asked anything but 0; each request by itself."""

    @tf.function(input_signature=[_FLOATS], autograph=False)
    def translate(self, x):
        turns = tf.while_loop(lambda x: tf.reduce_any(x > 0), lambda x: [tf.abs(x)], [x])
        # Of a size that nobody knows: requests are not computed together.
        return {"y": tf.reshape(turns[0], [-1, tf.size(x) // tf.maximum(tf.size(x), 1)])}


class _Greedy(tf.Module):
    """Takes a hundred gigabytes, and fills them."""

    @tf.function(input_signature=[_FLOATS], autograph=False)
    def translate(self, x):
        size = tf.cast(tf.reduce_max(x), tf.int32)
        return {"y": x + tf.reduce_sum(tf.fill([size, size], 1.5))}


def _write(module: tf.Module, version: Path, asked: float) -> None:
    tf.saved_model.save(module, str(version), {"serving_default": module.translate})
    write_warm_up(
        version, [Request("serving_default", {"x": np.array([asked], np.float32)})], "made"
    )


def endless(asked: float) -> Callable[[Path], None]:
    """Writes a version whose warm-up asks it for 0, which ends, or for more, which does not."""
    return lambda version: _write(_Endless(), version, asked)


def with_fifo(name: str | Path) -> Callable[[Path], None]:
    """Writes a version one of whose files is a pipe that nobody writes to."""

    def write(version: Path) -> None:
        _write(_Endless(), version, 0.0)
        (version / name).unlink()
        os.mkfifo(version / name)

    return write


BAD_VERSIONS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a warm-up that never ends": (endless(1.0), "not loaded and warmed up"),
    "a warm-up that takes all memory": (
        lambda path: _write(_Greedy(), path, 150_000.0),
        "OOM when allocating",
    ),
    "a FIFO for the warm-up": (with_fifo(WARM_UP_FILE), "neither a file"),
    "a FIFO for the graph": (with_fifo("saved_model.pb"), "no such file"),
    "a FIFO for the variables": (with_fifo("variables/variables.index"), "neither a file"),
}
"""How each is written, and why it is refused."""


def add(export_dir: Path, number: int, write: Callable[[Path], None]) -> None:
    """Adds a version, whole at once."""
    aside = export_dir / f".{number}"
    write(aside)
    aside.rename(export_dir / str(number))


def copy_of(version: Path) -> Callable[[Path], None]:
    """Writes a version as a copy of another."""

    def write(path: Path) -> None:
        shutil.copytree(version, path)

    return write
