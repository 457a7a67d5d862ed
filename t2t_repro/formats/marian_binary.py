"""Reads and writes Marian's binary files: weights (.bin), and lexical shortlists of students.

Weights, as marian-dev's src/common/binary.cpp writes them, little-endian:

    u64 version = 1, u64 n; of n tensors: u64 length of the name, type, rank, bytes of the data
    n names that end in NUL; n shapes of i32; u64 padding, and so many bytes; the data of n tensors

A tensor of 8 bits is int8 integers q and a float32 multiplier m: w = q · (1 / m), in float32. It is
stored transposed under its untransposed shape, unless it is a table of embeddings ("Wemb").
"""

import math
import re
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from t2t_repro.decoding.shortlist import ShortlistFile
from t2t_repro.files import write_whole
from t2t_repro.formats.byte_reader import ByteReader

# The name of a model's options, text in YAML.
OPTIONS = "special:model.yml"

# Marian's codes of types, and NumPy's dtypes by them; 0x0402 is float16.
_TEXT, _FLOAT32, _INT8, _INT16 = 0x0101, 0x0404, 0x4101, 0x4102
_TYPES = {_TEXT: "i1", 0x0402: "<f2", _FLOAT32: "<f4", _INT8: "i1", _INT16: "<i2"}
_ALIGNMENT = 256
_MAX_INT8 = 127

_SHORTLIST_MAGIC = 0xF11A48D5013417F5


def read_binary(data: bytes) -> dict[str, NDArray]:
    """Returns the tensors of a .bin file by name; `OPTIONS` has the bytes of a YAML text, as int8.

    Integer weights are dequantized to float32; floats keep their type.

    Raises:
        ValueError: the file is damaged, or has tensors for other processors.
    """
    reader = ByteReader(np.frombuffer(data, np.uint8))
    version, count = reader.read_array("<u8", 2).tolist()
    if version != 1:
        raise ValueError(f"version {version} of Marian's binary format, expected 1")
    headers = [reader.read_array("<u8", 4).tolist() for _ in range(count)]
    names = [reader.read_name(length) for length, *_ in headers]
    shapes = [reader.read_array("<i4", rank).tolist() for _, _, rank, _ in headers]
    # Skips the padding before the data.
    reader.read_array("u1", reader.read_number("<u8"))
    tensors = {}
    for name, shape, (_, type_code, _, size) in zip(names, shapes, headers, strict=True):
        tensors[name] = _tensor(name, shape, type_code, reader.read_array("u1", size))
    if len(reader.rest):
        raise ValueError(f"it has {len(reader.rest)} bytes after the last tensor")
    return tensors


def _tensor(name: str, shape: list[int], type_code: int, data: NDArray[np.uint8]) -> NDArray:
    """Returns a tensor from its bytes, which padding may follow; dequantizes integers to float32.

    Raises:
        ValueError: the type is unknown, a size is below 1, bytes are missing, or the multiplier is
            not between 1e-30 and 1e30.
    """
    if type_code not in _TYPES or min(shape, default=0) < 1:
        problem = f"{name} has type {type_code:#x} and shape {shape}"
        raise ValueError(f"{problem}, expected floats or intgemm's integers, and sizes from 1 on")
    reader = ByteReader(data)
    values = reader.read_array(_TYPES[type_code], math.prod(shape))
    if type_code not in (_INT8, _INT16):
        return values.reshape(shape)
    (multiplier,) = reader.read_array("<f4", 1)
    # Within these limits its inverse is finite, too; NaN is refused.
    if not 1e-30 < multiplier < 1e30:
        raise ValueError(f"{name} has the multiplier {multiplier}, expected 1e-30 to 1e30")
    weights = values.astype(np.float32) * (np.float32(1) / multiplier)
    # All integers but those of embeddings are stored transposed.
    return weights.reshape(shape) if "Wemb" in name else weights.reshape(shape[::-1]).T


def write_binary(path: Path, tensors: Mapping[str, NDArray], options: str) -> None:
    """Writes weights for intgemm, as marian-conv does: matrices in 8 bits, all else in float32.

    `tensors` are float32 weights by Marian's names, `options` the model's options in YAML.
    """
    text = options.encode() + b"\0"
    records = [_record(name, values) for name, values in sorted(tensors.items())]
    records.append((OPTIONS, _TEXT, (len(text),), text))
    # The sections of the file, each with an entry for every tensor.
    headers, names, shapes, data = bytearray(), bytearray(), bytearray(), bytearray()
    for name, type_code, shape, content in records:
        headers += struct.pack("<4Q", len(name) + 1, type_code, len(shape), len(content))
        names += name.encode() + b"\0"
        shapes += struct.pack(f"<{len(shape)}i", *shape)
        data += content
    start = struct.pack("<QQ", 1, len(records)) + headers + names + shapes
    # The data begin at a multiple of 256, after the 8 bytes of the padding's own size.
    padding = _ALIGNMENT - (len(start) + 8) % _ALIGNMENT
    write_whole(path, start + struct.pack("<Q", padding) + bytes(padding) + data)


def _record(name: str, values: NDArray) -> tuple[str, int, tuple[int, ...], bytes]:
    """Returns name, code of the type, shape and data of a tensor, as `write_binary` stores it.

    `values` are float32 weights. The data are padded to a multiple of 256 bytes.
    """
    # Tables of embeddings, and kernels such as "encoder_l1_self_Wq".
    is_matrix = "Wemb" in name or re.search("_W.?$", name)
    data = _quantized(name, values) if is_matrix else values.astype("<f4").tobytes()
    padding = bytes(-len(data) % _ALIGNMENT)
    return name, _INT8 if is_matrix else _FLOAT32, values.shape, data + padding


def _quantized(name: str, weights: NDArray) -> bytes:
    """Returns the bytes of a matrix in 8 bits and of its multiplier, 127 / max |w|.

    Weights that were read from 8 bits get the same integers and multiplier again. As in
    `read_binary`, the integers are transposed unless `name` is a table's.
    """
    estimate = np.float32(_MAX_INT8) / (np.abs(weights).max() or np.float32(1))
    # The multiplier that they were read with is the estimate, or at most 3 float32 numbers from
    # it: n more in its bits is the n-th next number. If none fits, the last 0 takes the estimate.
    for steps in (0, 1, -1, 2, -2, 3, -3, 0):
        multiplier = (estimate.view(np.int32) + np.int32(steps)).view(np.float32)
        integers = np.clip(np.rint(weights * multiplier), -_MAX_INT8, _MAX_INT8).astype(np.int8)
        if np.array_equal(integers * (np.float32(1) / multiplier), weights):
            break
    return (integers if "Wemb" in name else integers.T).tobytes() + struct.pack("<f", multiplier)


def read_shortlist(data: bytes) -> ShortlistFile:
    """Reads a lexical shortlist, as marian-dev's src/data/shortlist.cpp writes it.

        u64 magic, checksum, first, best, n + 1, m; n + 1 offsets u64; m ids u32

    The list of source id i is ids[offsets[i] : offsets[i + 1]], and the ids 0 to first - 1 are
    always allowed. `best` is a limit of the lists' length. The checksum is of all that follows it.
    All ids are Marian's.

    Raises:
        ValueError: the file is damaged, or is not a shortlist.
    """
    reader = ByteReader(np.frombuffer(data, np.uint8))
    magic, checksum = reader.read_array("<u8", 2).tolist()
    if magic != _SHORTLIST_MAGIC or _checksum(reader.rest) != checksum:
        raise ValueError("it is not a binary shortlist of Marian, or it is damaged")
    first, _, offset_count, id_count = reader.read_array("<u8", 4).tolist()
    offsets, ids = reader.read_array("<u8", offset_count), reader.read_array("<u4", id_count)
    return ShortlistFile(offsets.astype(np.int64), ids.astype(np.int32), np.arange(first))


def write_shortlist(path: Path, lists: ShortlistFile) -> None:
    """Writes a lexical shortlist of Marian's ids, as `read_shortlist` describes it.

    Of `lists.always`, only the number is written: readers take them for the first ids.
    """
    first = len(lists.always)
    # The header's first, best, n + 1 and m, then the offsets. `best` is not known, so it is `first`
    # once more.
    numbers = np.array([first, first, len(lists.splits), len(lists.ids), *lists.splits], "<u8")
    body = numbers.tobytes() + lists.ids.astype("<u4").tobytes()
    checksum = _checksum(np.frombuffer(body, np.uint8))
    write_whole(path, struct.pack("<QQ", _SHORTLIST_MAGIC, checksum) + body)


def _checksum(body: NDArray[np.uint8]) -> int:
    """Returns Marian's checksum of a file's body: Boost's `hash_combine` of whole 64-bit words."""
    checksum = 0
    for word in body[: len(body) // 8 * 8].view("<u8").tolist():
        checksum ^= (word + 0x9E3779B9 + (checksum << 6) + (checksum >> 2)) % 2**64
    return checksum
