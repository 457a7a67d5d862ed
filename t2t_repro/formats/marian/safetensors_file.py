"""Hugging Face's files of weights, model.safetensors: a header in JSON, then the bare numbers.

8 bytes, the header's length; the header, {"name": {"dtype", "shape", "data_offsets"}, ...}; the
tensors one behind the other, little-endian, rows first.
"""

import json
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# As their own library writes it: its readers find all numbers at addresses that CPUs like.
_ALIGNMENT = 8


def write_safetensors(path: Path, tensors: Mapping[str, NDArray[np.float32]]) -> None:
    """Writes float32 tensors; the same ones give the same file.

    Args:
        path: of the file.
        tensors: by name.

    Raises:
        OSError: it cannot be written.
    """
    # Readers of old want to know for which library.
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + 4 * tensor.size
        shape = list(tensor.shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor, "<f4").data)
