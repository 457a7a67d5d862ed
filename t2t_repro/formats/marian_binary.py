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

OPTIONS = "special:model.yml"
"""The name of a model's options, text in YAML."""

_TEXT, _FLOAT32, _INT8, _INT16 = 0x0101, 0x0404, 0x4101, 0x4102
_TYPES = {_TEXT: "i1", 0x0402: "<f2", _FLOAT32: "<f4", _INT8: "i1", _INT16: "<i2"}
_ALIGNMENT = 256
_LARGEST = 127

_SHORTLIST = 0xF11A48D5013417F5


def read_binary(data: bytes) -> dict[str, NDArray]:
    """Reads the tensors of a .bin file.

    Integers become float32 as the file means them.

    Raises:
        ValueError: the file is damaged, or has tensors for other processors.
    """
    reader = ByteReader(np.frombuffer(data, np.uint8))
    version, count = reader.array("<u8", 2).tolist()
    if version != 1:
        raise ValueError(f"version {version} of Marian's binary format, expected 1")
    heads = [reader.array("<u8", 4).tolist() for _ in range(count)]
    names = [reader.name(length) for length, *_ in heads]
    shapes = [reader.array("<i4", rank).tolist() for _, _, rank, _ in heads]
    reader.array("u1", reader.number("<u8"))
    arrays = {}
    for name, shape, (_, kind, _, size) in zip(names, shapes, heads, strict=True):
        arrays[name] = _tensor(name, shape, kind, reader.array("u1", size))
    if len(reader.rest):
        raise ValueError(f"it has {len(reader.rest)} bytes after the last tensor")
    return arrays


def _tensor(name: str, shape: list[int], kind: int, data: NDArray[np.uint8]) -> NDArray:
    """Returns a tensor of `kind` from its bytes; integers are multiplied out to float32.

    Raises:
        ValueError: the kind is unknown, a size is 0, or the multiplier is no positive number.
    """
    if kind not in _TYPES or min(shape, default=0) < 1:
        raise ValueError(f"{name} has type {kind:#x}, shape {shape}, expected floats or intgemm's")
    reader = ByteReader(data)
    values = reader.array(_TYPES[kind], math.prod(shape))
    if kind not in (_INT8, _INT16):
        return values.reshape(shape)
    (multiplier,) = reader.array("<f4", 1)
    if not 1e-30 < multiplier < 1e30:
        raise ValueError(f"{name} has the multiplier {multiplier}, expected a positive number")
    weights = values.astype(np.float32) * (np.float32(1) / multiplier)
    return weights.reshape(shape) if "Wemb" in name else weights.reshape(shape[::-1]).T


def write_binary(path: Path, tensors: Mapping[str, NDArray], options: str) -> None:
    """Writes weights for intgemm, as marian-conv does.

    Matrices are in 8 bits, all else in float32.

    Args:
        path: of the file.
        tensors: float32, by Marian's names.
        options: the model's options, in YAML.
    """
    rows = []
    for name, values in sorted(tensors.items()):
        is_matrix = "Wemb" in name or re.search("_W.?$", name)
        data = _quantized(name, values) if is_matrix else values.astype("<f4").tobytes()
        data += bytes(-len(data) % _ALIGNMENT)
        rows.append((name, _INT8 if is_matrix else _FLOAT32, values.shape, data))
    text = options.encode() + b"\0"
    rows.append((OPTIONS, _TEXT, (len(text),), text))
    head = struct.pack("<QQ", 1, len(rows))
    for name, kind, shape, data in rows:
        head += struct.pack("<4Q", len(name) + 1, kind, len(shape), len(data))
    head += b"".join(name.encode() + b"\0" for name, *_ in rows)
    head += b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in rows)
    padding = ((len(head) + 8) // _ALIGNMENT + 1) * _ALIGNMENT - len(head) - 8
    head += struct.pack("<Q", padding) + bytes(padding)
    write_whole(path, head + b"".join(data for *_, data in rows))


def _quantized(name: str, weights: NDArray) -> bytes:
    """Rounds a matrix to 8 bits, with the multiplier that it came with if it came so."""
    usual = np.float32(_LARGEST) / (np.abs(weights).max() or np.float32(1))
    # That one is among the next numbers of float32. If no number fits, the last one is taken.
    for steps in (0, 1, -1, 2, -2, 3, -3, 0):
        multiplier = (usual.view(np.int32) + np.int32(steps)).view(np.float32)
        integers = np.clip(np.rint(weights * multiplier), -_LARGEST, _LARGEST).astype(np.int8)
        if np.array_equal(integers * (np.float32(1) / multiplier), weights):
            break
    return (integers if "Wemb" in name else integers.T).tobytes() + struct.pack("<f", multiplier)


def read_shortlist(data: bytes) -> ShortlistFile:
    """Reads a lexical shortlist, as marian-dev's src/data/shortlist.cpp writes it.

        u64 magic, checksum, first, best, n + 1, m; n + 1 offsets u64; m ids u32

    Raises:
        ValueError: the file is damaged, or is not a shortlist.
    """
    reader = ByteReader(np.frombuffer(data, np.uint8))
    magic, checksum = reader.array("<u8", 2).tolist()
    if magic != _SHORTLIST or _checksum(reader.rest) != checksum:
        raise ValueError("it is no binary shortlist of Marian, or is damaged")
    first, _, rows, count = reader.array("<u8", 4).tolist()
    offsets, ids = reader.array("<u8", rows), reader.array("<u4", count)
    return ShortlistFile(offsets.astype(np.int64), ids.astype(np.int32), np.arange(first))


def write_shortlist(path: Path, lists: ShortlistFile) -> None:
    """Writes a lexical shortlist, whose ids are Marian's."""
    first = len(lists.always)
    words = np.array([first, first, len(lists.splits), len(lists.ids), *lists.splits], "<u8")
    body = words.tobytes() + lists.ids.astype("<u4").tobytes()
    checksum = _checksum(np.frombuffer(body, np.uint8))
    write_whole(path, struct.pack("<QQ", _SHORTLIST, checksum) + body)


def _checksum(body: NDArray[np.uint8]) -> int:
    """Returns the checksum of the bytes that follow it in the file."""
    checksum = 0
    for word in body[: len(body) // 8 * 8].view("<u8").tolist():
        checksum ^= (word + 0x9E3779B9 + (checksum << 6) + (checksum >> 2)) % 2**64
    return checksum
