"""A checkpoint's index, looked through before TensorFlow reads it.

TensorFlow trusts what an index says: a shape that does not exist ends the process, and whatever
size is claimed is allocated. An index is a table as LevelDB has them: a footer, that says where a
block lies, that says where the others lie, whose entries are protocol buffers by variable.
"""

import glob
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf.tensor_bundle_pb2 import BundleEntryProto, BundleHeaderProto

from t2t_repro.errors import UserError, reason_of

_MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)
_FOOTER_BYTES = 48
_TRAILER_BYTES = 5  # Of a block: how it is compressed, and a checksum.
_MAX_INDEX_BYTES = 2**26
_MAX_LIST_BYTES = 2**20
_MAX_KEY_BYTES = 2**12
_MAX_NAME_BYTES = 200
_MAX_RANK = 8
_TYPES = {
    tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int8, tf.uint8, tf.int16, tf.uint16,
    tf.int32, tf.uint32, tf.int64, tf.uint64, tf.bool, tf.string,
}  # fmt: skip


def check_index(prefix: str | Path) -> None:
    """Makes sure that an index claims nothing that the checkpoint's files do not hold.

    Args:
        prefix: of the checkpoint: its path without the endings of its files.

    Raises:
        UserError: it does, or it is no index, or there is none.
    """
    try:
        content = _read_index(Path(f"{prefix}.index"))
        shards = {path: Path(path).stat().st_size for path in _data_files(prefix)}
        entries = dict(_entries(content))
        header = BundleHeaderProto.FromString(entries.pop(b""))
        if header.num_shards != len(shards) or header.endianness != BundleHeaderProto.LITTLE:
            raise ValueError(f"it has {header.num_shards} data files, {len(shards)} are there")
        for name, value in entries.items():
            name.decode("utf-8")  # As TensorFlow's reader will.
            _check_entry(name, BundleEntryProto.FromString(value), sorted(shards), shards)
    except (OSError, ValueError, KeyError, IndexError, struct.error, DecodeError) as error:
        raise UserError(
            f"{prefix}.index is not the index of a whole checkpoint ({reason_of(error)[:200]}): "
            "copy the checkpoint again, or give another."
        ) from error


def listed_checkpoints(folder: Path) -> list[str]:
    """Returns the names of the checkpoints in TensorFlow's list in a folder, newest last.

    Wherever they were when the list was written, they are taken to lie in the folder.
    """
    path = folder / "checkpoint"
    try:
        if not path.is_file() or path.stat().st_size > _MAX_LIST_BYTES:
            return []
        state = tf.train.get_checkpoint_state(str(folder))
    except (OSError, ValueError, tf.errors.OpError):
        return []
    paths = [*state.all_model_checkpoint_paths, state.model_checkpoint_path] if state else []
    names = (Path(path).name for path in paths)
    # What is longer names no file, and is an error to ask for.
    return [name for name in names if len(name.encode()) <= _MAX_NAME_BYTES]


def _data_files(prefix: str | Path) -> list[str]:
    return glob.glob(f"{glob.escape(str(prefix))}.data-?????-of-?????")


def _read_index(path: Path) -> bytes:
    if not path.is_file() or path.stat().st_size > _MAX_INDEX_BYTES:
        raise ValueError(f"no such file, or more than {_MAX_INDEX_BYTES:,} bytes")
    return path.read_bytes()


def _check_entry(
    name: bytes, entry: BundleEntryProto, paths: list[str], sizes: Mapping[str, int]
) -> None:
    dims = [dim.size for dim in entry.shape.dim]
    known = {dtype.as_datatype_enum: dtype for dtype in _TYPES}
    if entry.dtype not in known or entry.slices or entry.shape.unknown_rank:
        raise ValueError(f"{name!r} has the type {entry.dtype}")
    if len(dims) > _MAX_RANK or min(dims, default=0) < 0:
        raise ValueError(f"{name!r} has the shape {dims[:_MAX_RANK]}")
    dtype, count = known[entry.dtype], math.prod(dims)
    path = paths[entry.shard_id]
    if entry.shard_id < 0 or entry.offset < 0 or not 0 <= entry.size <= sizes[path] - entry.offset:
        raise ValueError(f"{name!r} lies outside of {path}")
    if dtype != tf.string and entry.size != count * dtype.size:
        raise ValueError(f"{name!r} of shape {dims} has {entry.size} bytes")
    if dtype == tf.string:
        _check_strings(name, entry, count, path)


def _check_strings(name: bytes, entry: BundleEntryProto, count: int, path: str) -> None:
    """Strings begin with their lengths, and four bytes of checksum behind these."""
    if count > entry.size:
        raise ValueError(f"{name!r} has {count} strings in {entry.size} bytes")
    with open(path, "rb") as file:
        file.seek(entry.offset)
        content = file.read(entry.size)
    total = place = 0
    for _ in range(count):
        length, place = _varint(content, place)
        total += length
    if place + 4 + total != entry.size:
        raise ValueError(f"{name!r} has strings of {total} bytes in {entry.size}")


def _entries(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """All entries of a table."""
    footer = content[-_FOOTER_BYTES:]
    if len(footer) < _FOOTER_BYTES or not footer.endswith(_MAGIC):
        raise ValueError("it has no footer")
    _, place = _handle(footer, 0)
    blocks, _ = _handle(footer, place)
    end = 0
    for _, value in _block(content, *blocks):
        (offset, size), _ = _handle(value, 0)
        if offset < end:
            raise ValueError("its blocks overlap")
        end = offset + size
        yield from _block(content, offset, size)


def _block(content: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """The entries of a block: a key is what it shares with the one before, and the rest."""
    if size < 4 or offset + size + _TRAILER_BYTES > len(content) or content[offset + size]:
        raise ValueError("a block lies outside of it, or is compressed")
    body = content[offset : offset + size]
    (restarts,) = struct.unpack("<I", body[-4:])
    end = size - 4 * (restarts + 1)
    if end < 0:
        raise ValueError("a block is damaged")
    key, place = b"", 0
    while place < end:
        shared, place = _varint(body, place)
        unshared, place = _varint(body, place)
        length, place = _varint(body, place)
        if shared > len(key) or place + unshared + length > end or unshared > _MAX_KEY_BYTES:
            raise ValueError("a block is damaged")
        key = (key[:shared] + body[place : place + unshared])[:_MAX_KEY_BYTES]
        place += unshared + length
        yield key, body[place - length : place]


def _handle(content: bytes, place: int) -> tuple[tuple[int, int], int]:
    """Where a block lies, and where that was said to the end."""
    offset, place = _varint(content, place)
    size, place = _varint(content, place)
    return (offset, size), place


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where it ends."""
    value = shift = 0
    while content[place] >= 0x80 and shift < 64:
        value |= (content[place] & 0x7F) << shift
        shift += 7
        place += 1
    return value | content[place] << shift, place + 1
