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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from t2t_repro.files import write_whole

OPTIONS = "special:model.yml"
"""The name of a model's options, text in YAML."""

_TEXT, _FLOAT32, _INT8, _INT16 = 0x0101, 0x0404, 0x4101, 0x4102
_TYPES = {
    _TEXT: np.int8, 0x0402: np.float16, _FLOAT32: np.float32, _INT8: np.int8, _INT16: np.int16,
}  # fmt: skip
_ALIGNMENT = 256
_LARGEST = 127

_SHORTLIST = 0xF11A48D5013417F5
_ALL_BITS = 2**64 - 1


def read_binary(data: bytes) -> dict[str, NDArray]:
    """Reads the tensors of a .bin file; integers become float32 as the file means them.

    Raises:
        ValueError: the file is damaged, or has tensors for other processors.
    """
    version, count = _words(data, 0, 2)
    if version != 1:
        raise ValueError(f"version {version} of Marian's binary format, expected 1")
    heads = np.array(_words(data, 16, 4 * count), object).reshape(-1, 4)
    place, names = 16 + 32 * count, list[str]()
    for length in heads[:, 0]:
        name = data[place : place + length]
        if not name.endswith(b"\0"):
            raise ValueError(f"the name of tensor {len(names)} does not end")
        names.append(name[:-1].decode())
        place += length
    shapes = []
    for rank in heads[:, 2]:
        shapes.append(tuple(_numbers(data, place, rank, np.int32).tolist()))
        place += 4 * rank
    place += 8 + _words(data, place, 1)[0]
    arrays = {}
    for label, shape, (_, kind, _, size) in zip(names, shapes, heads, strict=True):
        arrays[label] = _tensor(label, shape, kind, data[place : place + size], size)
        place += size
    if place != len(data):
        raise ValueError(f"{len(data)} bytes, expected {place}")
    return arrays


def _numbers(data: bytes, place: int, count: int, kind: type) -> NDArray:
    """Returns numbers of the file, which must be there."""
    if count * np.dtype(kind).itemsize > len(data) - place:
        raise ValueError(f"{len(data)} bytes, expected more")
    return np.frombuffer(data, np.dtype(kind).newbyteorder("<"), count, place)


def _words(data: bytes, place: int, count: int) -> list[int]:
    return _numbers(data, place, count, np.uint64).tolist()


def _tensor(name: str, shape: tuple[int, ...], kind: int, data: bytes, size: int) -> NDArray:
    """Returns a tensor of `kind` from its bytes."""
    if kind not in _TYPES:
        raise ValueError(f"{name} has the type {kind:#x}, expected float32, float16 or intgemm's")
    if len(data) != size or min(shape, default=0) < 1:
        raise ValueError(f"{name} has the shape {shape} and {len(data)} bytes, expected {size}")
    count = math.prod(shape)
    values = _numbers(data, 0, count, _TYPES[kind])
    if kind not in (_INT8, _INT16):
        return values.reshape(shape)
    (multiplier,) = _numbers(data, values.nbytes, 1, np.float32)
    if not 1e-30 < multiplier < 1e30:
        raise ValueError(f"{name} has the multiplier {multiplier}, expected a positive number")
    weights = values.astype(np.float32) * (np.float32(1) / multiplier)
    return weights.reshape(shape) if "Wemb" in name else weights.reshape(shape[::-1]).T


def write_binary(path: Path, tensors: Mapping[str, NDArray], options: str) -> None:
    """Writes weights as marian-conv does for intgemm: matrices in 8 bits, all else in float32.

    Args:
        path: of the file.
        tensors: float32, by Marian's names.
        options: in YAML.
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
    multiplier = np.float32(_LARGEST) / (np.abs(weights).max() or np.float32(1))
    candidates = [multiplier]
    for direction in (-np.inf, np.inf):
        near = multiplier
        for _ in range(3):
            near = np.nextafter(near, np.float32(direction))
            candidates.append(near)

    def integers(multiplier: np.float32) -> NDArray:
        return np.clip(np.rint(weights * multiplier), -_LARGEST, _LARGEST).astype(np.int8)

    def is_own(multiplier: np.float32) -> bool:
        return np.array_equal(integers(multiplier) * (np.float32(1) / multiplier), weights)

    best = next(filter(is_own, candidates), multiplier)
    found = integers(best)
    return (found if "Wemb" in name else found.T).tobytes() + struct.pack("<f", best)


class Shortlist(NamedTuple):
    """The ids that the words of a source allow in its translation.

    Attributes:
        first: so many first ids are always allowed.
        ids: of each source id, the ids that it allows.
    """

    first: int
    ids: Sequence[NDArray[np.integer]]

    @property
    def most(self) -> int:
        """The largest target id."""
        return max((int(max(of_one)) for of_one in self.ids if len(of_one)), default=0)


def read_shortlist(data: bytes) -> Shortlist:
    """Reads a lexical shortlist, as marian-dev's src/data/shortlist.cpp writes it.

        u64 magic, checksum, first, best, n + 1, m; n + 1 offsets u64; m ids u32

    Raises:
        ValueError: the file is damaged, or is none.
    """
    magic, checksum, first, _, rows, count = _words(data, 0, 6)
    if magic != _SHORTLIST or len(data) != 48 + 8 * rows + 4 * count or rows < 2:
        raise ValueError("it is no binary shortlist of Marian, or is damaged")
    offsets = _numbers(data, 48, rows, np.uint64).astype(np.int64)
    ids = _numbers(data, 48 + 8 * rows, count, np.uint32)
    is_whole = _checksum(data[16:]) == checksum and offsets[0] == 0 and offsets[-1] == count
    if not is_whole or (np.diff(offsets) < 0).any():
        raise ValueError("the checksum of the shortlist is wrong: the file is damaged")
    return Shortlist(first, np.split(ids, offsets[1:-1]))


def write_shortlist(path: Path, lists: Shortlist) -> None:
    """Writes a lexical shortlist."""
    offsets = np.cumsum([0, *map(len, lists.ids)])
    words = [lists.first, lists.first, len(offsets), offsets[-1], *offsets]
    ids = np.concatenate(lists.ids).astype("<u4")
    body = struct.pack(f"<{len(words)}Q", *words) + ids.tobytes()
    write_whole(path, struct.pack("<QQ", _SHORTLIST, _checksum(body)) + body)


def _checksum(body: bytes) -> int:
    """Returns the checksum of what stands behind it."""
    found = 0
    for word in _words(body, 0, len(body) // 8):
        found ^= word + 0x9E3779B9 + (found << 6) + (found >> 2) & _ALL_BITS
    return found
