"""Reads the variables of a model.bin, the weights of a CTranslate2 model.

    u32 version, 6; name of the specification; u32 its revision
    u32 number of variables, each: name, u8 rank, u32 sizes, u8 type, u32 bytes, the values
    u32 number of aliases, each: name, name of a variable

A name has u16 bytes, of which the last one is NUL. All numbers are little-endian. A matrix of
integers has a scale by which its rows, or all of them, are divided: the variable `NAME_scale`.
"""

from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

_TYPES = "<f4", "i1", "<i2", "<i4", "<f2", tf.bfloat16.as_numpy_dtype
_KIND = 6, "TransformerSpec", 7


def read_model_bin(path: Path) -> dict[str, NDArray]:
    """Reads all variables, which stay on the disk if they are no integers; aliases share them.

    Raises:
        ValueError: the file is damaged, or of another kind.
    """
    reader = _Reader(np.memmap(path, mode="r"))
    found = reader.number("<u4"), reader.name(), reader.number("<u4")
    if found != _KIND:
        raise ValueError(
            "version {}, {} of revision {}, expected {}, {} and {}, which CTranslate2 3 and 4 "
            "write for models of translation: convert the model again".format(*found, *_KIND)
        )
    arrays = {reader.name(): reader.array() for _ in range(reader.number("<u4"))}
    for name in [name for name in arrays if f"{name}_scale" in arrays]:
        arrays[name] = (arrays[name].T / arrays.pop(f"{name}_scale")).T
    for _ in range(reader.number("<u4")):
        alias = reader.name()
        arrays[alias] = arrays[reader.name()]
    return arrays


class _Reader:
    """Reads a file from its beginning to its end."""

    def __init__(self, content: NDArray[np.uint8]) -> None:
        self.content = content

    def bytes(self, length: int) -> NDArray[np.uint8]:
        found, self.content = self.content[:length], self.content[length:]
        if len(found) < length:
            raise ValueError("it ends too early")
        return found

    def number(self, kind: str) -> int:
        return int(self.bytes(np.dtype(kind).itemsize).view(kind)[0])

    def name(self) -> str:
        name = self.bytes(self.number("<u2")).tobytes()
        if name.find(b"\0") != len(name) - 1:
            raise ValueError("it has a name without an end")
        return name[:-1].decode()

    def array(self) -> NDArray:
        sizes = [self.number("<u4") for _ in range(self.number("u1"))]
        kind = _TYPES[self.number("u1")]
        return self.bytes(self.number("<u4")).view(kind).reshape(sizes)
