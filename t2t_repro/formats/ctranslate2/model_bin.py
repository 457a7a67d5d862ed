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

from t2t_repro.formats.byte_reader import ByteReader

# Dtypes, in the order of CTranslate2's numbers for types.
_TYPES = "<f4", "i1", "<i2", "<i4", "<f2", tf.bfloat16.as_numpy_dtype
_HEADER = 6, "TransformerSpec", 7


def read_model_bin(path: Path) -> dict[str, NDArray]:
    """Reads all variables by name, and aliases as further names.

    Matrices of integers are dequantized, and their scales left out. All others stay on the disk,
    memory-mapped.

    Raises:
        ValueError: the file is damaged, or of another kind or version.
        LookupError: a variable has an unknown type, or an alias names no variable.
    """
    reader = ByteReader(np.memmap(path, mode="r"))
    header = reader.read_number("<u4"), _read_name(reader), reader.read_number("<u4")
    if header != _HEADER:
        problem = f"its version, specification and revision are {header}, expected {_HEADER}"
        raise ValueError(f"{problem}: convert the model again with CTranslate2 3 or 4")
    arrays = {_read_name(reader): _read_values(reader) for _ in range(reader.read_number("<u4"))}
    # A list, since the loop removes the scales from `arrays`.
    for name in [name for name in arrays if f"{name}_scale" in arrays]:
        # Transposed, so that a vector of scales divides rows.
        arrays[name] = (arrays[name].T / arrays.pop(f"{name}_scale")).T
    for _ in range(reader.read_number("<u4")):
        alias = _read_name(reader)
        arrays[alias] = arrays[_read_name(reader)]
    return arrays


def _read_name(reader: ByteReader) -> str:
    """Reads a name after its length."""
    return reader.read_name(reader.read_number("<u2"))


def _read_values(reader: ByteReader) -> NDArray:
    """Reads the rank, sizes, type and values of a variable; returns the values, in this shape."""
    sizes = [reader.read_number("<u4") for _ in range(reader.read_number("u1"))]
    dtype = _TYPES[reader.read_number("u1")]
    return reader.read_array("u1", reader.read_number("<u4")).view(dtype).reshape(sizes)
