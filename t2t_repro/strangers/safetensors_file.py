"""Weights in a file of safetensors: the length of a header, the header in JSON, and all tensors.

The library of that name gives NumPy no bfloat16, and all of a file or none of its bytes.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from t2t_repro.strangers.weights_file import (
    MAX_BYTES,
    MAX_RANK,
    MAX_TENSORS,
    Shape,
    checked_size,
    damaged,
    read_at,
)

_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 2**24
_METADATA = "__metadata__"
_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
"""The types that weights may have, and how large a number of each is."""


class SafetensorsFile:
    """Weights in a file of safetensors; see `WeightsFile`.

    Args:
        path: of the file.

    Attributes:
        path: of the file.
        shapes: of every tensor, by its name.

    Raises:
        UserError: it is none, or says what is not true of it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shapes: dict[str, Shape] = {}
        self._places: dict[str, tuple[int, str]] = {}
        try:
            size = checked_size(path)
            length = int.from_bytes(read_at(path, 0, _LENGTH_BYTES), "little")
            if length > min(size - _LENGTH_BYTES, _MAX_HEADER_BYTES):
                raise ValueError(f"its header claims {length:,} bytes")
            header = json.loads(read_at(path, _LENGTH_BYTES, length).decode("utf-8"))
            self._place(header, _LENGTH_BYTES + length, size)
        except (OSError, ValueError, RecursionError) as error:
            raise damaged(path, "file of safetensors", error) from error

    def _place(self, header: Any, first: int, size: int) -> None:
        """Notes where every tensor lies, in a file of `size` bytes behind the byte `first`."""
        if not isinstance(header, dict) or len(header) > MAX_TENSORS:
            raise ValueError("its header is no table of tensors")
        entries = [
            (*_entry(name, entry), name) for name, entry in header.items() if name != _METADATA
        ]
        end = 0
        for begin, after, dtype, shape, name in sorted(entries):
            # As the format has it: one behind the other, without overlaps and without gaps.
            if begin != end:
                raise ValueError(f"{name!r} begins at byte {begin:,}, expected {end:,}")
            self.shapes[name], self._places[name] = shape, (first + begin, dtype)
            end = after
        if first + end != size:
            raise ValueError(f"it has {size:,} bytes, its header tells of {first + end:,}")

    def read(self, name: str) -> NDArray[np.float32]:
        """Reads a tensor, whatever type it has.

        Raises:
            UserError: it cannot be read.
        """
        (begin, dtype), shape = self._places[name], self.shapes[name]
        try:
            content = read_at(self.path, begin, math.prod(shape) * _BYTES[dtype])
        except (OSError, ValueError) as error:
            raise damaged(self.path, "file of safetensors", error) from error
        return _as_float32(content, dtype).reshape(shape)


def _entry(name: str, entry: Any) -> tuple[int, int, str, Shape]:
    """Where a tensor begins and ends, its type and its shape."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{name!r} is not described as a tensor")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _BYTES:
        raise ValueError(f"{name!r} has the type {dtype!r}")
    if not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2:
        raise ValueError(f"{name!r} has the shape {shape!r} and lies at {offsets!r}")
    begin, end = offsets
    if end - begin != math.prod(shape) * _BYTES[dtype]:
        raise ValueError(f"{name!r} of {dtype} {shape} does not lie at {offsets}")
    return begin, end, dtype, tuple(shape)


def _are_counts(numbers: Any) -> bool:
    return (
        isinstance(numbers, list)
        and len(numbers) <= MAX_RANK
        and all(type(number) is int and 0 <= number <= MAX_BYTES for number in numbers)
    )


def _as_float32(content: bytes, dtype: str) -> NDArray[np.float32]:
    if dtype == "BF16":
        # The upper half of a float32.
        return (np.frombuffer(content, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(content, "<f4" if dtype == "F32" else "<f2").astype(np.float32)
