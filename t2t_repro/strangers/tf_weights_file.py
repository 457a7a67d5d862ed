"""Weights of a TensorFlow model of the transformers library, before its version 5: tf_model.h5.

HDF5 is asked where the numbers lie, and for nothing else: they are read as they are. What it could
do besides is refused: links to other files, numbers that lie outside, in pieces or compressed.
"""

import math
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from t2t_repro.strangers.weights_file import (
    MAX_RANK,
    Shape,
    checked_size,
    damaged,
    read_at,
)

_MAX_DEPTH = 20
_MAX_MEMBERS = 20_000
_KERNEL, _LAST = "kernel", {
    "kernel": "weight",
    "gamma": "weight",
    "embeddings": "weight",
    "weight": "weight",
    "beta": "bias",
    "bias": "bias",
}  # fmt: skip
"""PyTorch's name for what Keras calls the weights of a layer."""


class TFWeightsFile:
    """Weights in a tf_model.h5; see `WeightsFile`.

    Args:
        path: of the file.

    Attributes:
        path: of the file.
        shapes: of every tensor, by the name that PyTorch's model has for it.

    Raises:
        UserError: it is no such file, or says what is not true of it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shapes: dict[str, Shape] = {}
        self._places: dict[str, tuple[int, str, Shape, bool]] = {}
        self._members = 0
        try:
            self._size = checked_size(path)
            with h5py.File(path, "r") as file:
                self._walk(file, "", 0)
        # Of a damaged file h5py raises errors of half a dozen kinds.
        except (OSError, ValueError, KeyError, RuntimeError, TypeError, MemoryError) as error:
            raise damaged(path, "tf_model.h5", error) from error

    def _walk(self, group: Any, below: str, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise ValueError("its groups are nested too deeply")
        for key in group:
            # A group may lie in many others, and these too, so that there is no end of names.
            self._members += 1
            if self._members > _MAX_MEMBERS:
                raise ValueError(f"it has more than {_MAX_MEMBERS:,} tensors and groups")
            # Others lead to another place, or another file of this machine.
            if type(group.get(key, getlink=True)) is not h5py.HardLink:
                raise ValueError(f"{below + key!r} is a link")
            member = group[key]
            if isinstance(member, h5py.Group):
                self._walk(member, f"{below}{key}/", depth + 1)
            else:
                self._add(below + key, member)

    def _add(self, name: str, dataset: Any) -> None:
        begin = _place(name, dataset)
        shape = tuple(int(length) for length in dataset.shape)
        numbers = math.prod(shape)
        if len(shape) > MAX_RANK or begin + numbers * dataset.dtype.itemsize > self._size:
            raise ValueError(f"{name!r} of the shape {shape} does not lie in it")
        found, is_kernel = _pytorch_name(name)
        if found in self.shapes:
            raise ValueError(f"it has {found!r} twice")
        self._places[found] = (begin, dataset.dtype.str, shape, is_kernel)
        self.shapes[found] = shape[::-1] if is_kernel else shape

    def read(self, name: str) -> NDArray[np.float32]:
        """Reads a tensor; a kernel has the inputs last, as PyTorch has it.

        Raises:
            UserError: it cannot be read.
        """
        begin, dtype, shape, is_kernel = self._places[name]
        try:
            content = read_at(self.path, begin, math.prod(shape) * np.dtype(dtype).itemsize)
        except (OSError, ValueError) as error:
            raise damaged(self.path, "tf_model.h5", error) from error
        value = np.frombuffer(content, dtype).astype(np.float32).reshape(shape)
        return value.T if is_kernel else value


def _place(name: str, dataset: Any) -> int:
    """Where the numbers of a dataset begin, which lie in the file as they are."""
    if not isinstance(dataset, h5py.Dataset) or dataset.dtype not in (np.float32, np.float16):
        raise ValueError(f"{name!r} is of another type than float32 and float16")
    plan = dataset.id.get_create_plist()
    begin = dataset.id.get_offset()
    if plan.get_layout() != h5py.h5d.CONTIGUOUS or plan.get_external_count() or begin is None:
        raise ValueError(f"{name!r} does not lie in it as it is")
    return int(begin)


def _pytorch_name(name: str) -> tuple[str, bool]:
    """What PyTorch's model calls a tensor, and whether it is a kernel.

    Keras's names begin with those of the model and of its parts, each once more with those within.
    """
    path = re.sub(r":\d+$", "", name).split("/")
    *parts, last = path
    if last == "final_logits_bias":
        return last, False
    if parts and parts[-1] in ("shared", "model.shared") and last in _LAST:
        return "model.shared.weight", False
    stacks = [place for place, part in enumerate(parts) if part in ("encoder", "decoder")]
    if not stacks or last not in _LAST:
        return ".".join(path), False
    return ".".join(["model", *parts[stacks[-1] :], _LAST[last]]), last == _KERNEL
