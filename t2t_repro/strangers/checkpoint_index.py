"""A checkpoint's index, looked through before TensorFlow reads it.

TensorFlow trusts what an index says: a shape that does not exist ends the process, and whatever
size is claimed is allocated. An index is a table of LevelDB. Its footer points to a block of
pointers to the other blocks, whose entries are protocol buffers by variable.
"""

import glob
import math
import os
import struct
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf.tensor_bundle_pb2 import BundleEntryProto, BundleHeaderProto

from t2t_repro.errors import UserError, reason_of
from t2t_repro.files import read_at_most

_MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)
_FOOTER_BYTES = 48
_TRAILER_BYTES = 5  # Of a block: how it is compressed, and a checksum.
_MAX_INDEX_BYTES = 2**26
_MAX_VARIABLES = 200_000
_MAX_STRING_BYTES = 2**26
_BLOCK_BYTES = 512  # That stat counts in, whatever a file system has.
# A file system may compress: an optimizer that has not begun is zeros.
_MOST_COMPRESSED = 4
_MAX_LIST_BYTES = 2**20
_MAX_KEY_BYTES = 2**12
_MAX_NAME_BYTES = 200
_MAX_RANK = 8
_TYPES = {
    tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int8, tf.uint8, tf.int16, tf.uint16,
    tf.int32, tf.uint32, tf.int64, tf.uint64, tf.bool, tf.string,
}  # fmt: skip


def check_index(prefix: str | Path) -> dict[str, tuple[int, ...]]:
    """Makes sure that an index claims nothing that the checkpoint's files do not hold.

    Args:
        prefix: of the checkpoint: its path without the endings of its files.

    Returns:
        the shapes of what it lists, by name.

    Raises:
        UserError: it does, or it is no index, or there is none.
    """
    try:
        content = read_at_most(Path(f"{prefix}.index"), _MAX_INDEX_BYTES)
        shards = {path: Path(path).stat().st_size for path in _data_files(prefix)}
        values = dict(islice(_entries(content), _MAX_VARIABLES + 1))
        if len(values) > _MAX_VARIABLES:
            raise ValueError(f"it lists more than {_MAX_VARIABLES:,} variables")
        header = BundleHeaderProto.FromString(values.pop(b""))
        if header.num_shards != len(shards) or header.endianness != BundleHeaderProto.LITTLE:
            raise ValueError(f"it has {header.num_shards} data files, {len(shards)} are there")
        # As TensorFlow's reader will decode names.
        entries = {
            name.decode("utf-8"): BundleEntryProto.FromString(value)
            for name, value in values.items()
        }
        paths = sorted(shards)
        for name, entry in entries.items():
            _check_entry(name, entry, paths, shards)
        for number, path in enumerate(paths):
            check_claims(path, sum(one.size for one in entries.values() if one.shard_id == number))
    except (OSError, ValueError, KeyError, IndexError, struct.error, DecodeError) as error:
        raise UserError(
            f"{prefix}.index is not the index of a whole checkpoint ({reason_of(error)[:200]}): "
            "copy the checkpoint again, or give another."
        ) from error
    return {name: tuple(dim.size for dim in entry.shape.dim) for name, entry in entries.items()}


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


def check_claims(path: str, claimed: int) -> None:
    """Checks that a file holds what is claimed of it: not one part twice, and no holes."""
    status = os.stat(path)
    if claimed > status.st_size:
        raise ValueError(f"its variables have {claimed:,} bytes, {path} has {status.st_size:,}")
    written = status.st_blocks * _BLOCK_BYTES
    if claimed > _MOST_COMPRESSED * written and _has_hole(path):
        raise ValueError(
            f"its variables have {claimed:,} bytes, of {path} {written:,} were ever written"
        )


def _has_hole(path: str) -> bool:
    """Whether parts of a file were never written; False where the file system cannot tell.

    Some say so late, of a new file, how many blocks it has; this they know at once.
    """
    with open(path, "rb") as file:
        try:
            return os.lseek(file.fileno(), 0, os.SEEK_HOLE) < os.fstat(file.fileno()).st_size
        except OSError:
            return False


def _check_entry(
    name: str, entry: BundleEntryProto, paths: list[str], sizes: Mapping[str, int]
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


def _check_strings(name: str, entry: BundleEntryProto, count: int, path: str) -> None:
    """Strings begin with their lengths, and four bytes of checksum behind these."""
    if entry.size > _MAX_STRING_BYTES:
        raise ValueError(f"{name!r} has strings of {entry.size:,} bytes")
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
    """All entries of a table; a reader that looks for one finds no other than these."""
    footer = content[-_FOOTER_BYTES:]
    if len(footer) < _FOOTER_BYTES or not footer.endswith(_MAGIC):
        raise ValueError("it has no footer")
    _, place = _handle(footer, 0)
    blocks, _ = _handle(footer, place)
    end, before = 0, None
    for _, value in _block(content, *blocks):
        (offset, size), _ = _handle(value, 0)
        if offset < end:
            raise ValueError("its blocks overlap")
        end = offset + size
        for key, value in _block(content, offset, size):
            # Of two of one name, which one counts depends on the reader.
            if before is not None and key <= before:
                raise ValueError("its names are not in order")
            before = key
            yield key, value


def _block(content: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """The entries of a block: a key is what it shares with the one before, and the rest.

    At its end stands at which entries a reader may begin: none of them shares anything.
    """
    if size < 4 or offset + size + _TRAILER_BYTES > len(content) or content[offset + size]:
        raise ValueError("a block lies outside of it, or is compressed")
    body = content[offset : offset + size]
    (count,) = struct.unpack("<I", body[-4:])
    end = size - 4 * (count + 1)
    if end < 0:
        raise ValueError("a block is damaged")
    restarts = (place for (place,) in struct.iter_unpack("<I", body[end:-4]))
    restart = next(restarts, None)
    key, place = b"", 0
    while place < end:
        if place == restart:
            key, restart = b"", next(restarts, None)
        shared, place = _varint(body, place)
        unshared, place = _varint(body, place)
        length, place = _varint(body, place)
        if shared > len(key) or place + unshared + length > end or unshared > _MAX_KEY_BYTES:
            raise ValueError("a block is damaged")
        key = (key[:shared] + body[place : place + unshared])[:_MAX_KEY_BYTES]
        place += unshared + length
        yield key, body[place - length : place]
    if restart is not None:
        raise ValueError("a block has entries within others")


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
