"""The index of a TensorFlow checkpoint, taken apart and put together again with right checksums.

It is a table of LevelDB's kind: blocks of entries sorted by key, and a block that lists the blocks.
Whatever is changed in the bytes alone ends at a checksum; here the entries themselves can be
changed, as someone would who wants a reader to trip.
"""

import struct
from typing import NamedTuple

from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

Entries = list[tuple[bytes, bytes]]
"""(key, value): of the empty key a BundleHeaderProto, of a variable's a BundleEntryProto."""

_MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)
_FOOTER_BYTES = 48
_TRAILER_BYTES = 5
_UNCOMPRESSED = b"\0"


class _Handle(NamedTuple):
    """Where a block lies."""

    offset: int
    size: int


def read_index(content: bytes) -> Entries:
    """Reads all entries of an index that TensorFlow wrote."""
    footer = content[-_FOOTER_BYTES:]
    _, place = _read_handle(footer, 0)
    index, _ = _read_handle(footer, place)
    entries: Entries = []
    for _, handle in _read_block(content, index):
        entries += _read_block(content, _read_handle(handle, 0)[0])
    return entries


def write_index(entries: Entries) -> bytes:
    """Writes an index of one block, uncompressed."""
    blocks = [_block(entries)]
    handles = [_Handle(0, len(blocks[0]) - _TRAILER_BYTES)]
    for more in ([], [(b"\xff" * 9, _write_handle(handles[0]))]):
        handles.append(_Handle(sum(map(len, blocks)), 0))
        blocks.append(_block(more))
        handles[-1] = handles[-1]._replace(size=len(blocks[-1]) - _TRAILER_BYTES)
    footer = _write_handle(handles[1]) + _write_handle(handles[2])
    return b"".join(blocks) + footer.ljust(_FOOTER_BYTES - len(_MAGIC), b"\0") + _MAGIC


def _block(entries: Entries) -> bytes:
    parts, restarts = [], []
    for key, value in entries:
        # No key shares its begin with the one before: each is a restart.
        restarts.append(sum(map(len, parts)))
        parts.append(b"\0" + _varint(len(key)) + _varint(len(value)) + key + value)
    restarts = restarts or [0]
    body = b"".join(parts) + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))
    return body + _UNCOMPRESSED + struct.pack("<I", masked_crc32c(body + _UNCOMPRESSED))


def _read_block(content: bytes, handle: _Handle) -> Entries:
    body = content[handle.offset : handle.offset + handle.size]
    (restarts,) = struct.unpack("<I", body[-4:])
    end = len(body) - 4 * (restarts + 1)
    entries: Entries = []
    key, place = b"", 0
    while place < end:
        shared, place = _read_varint(body, place)
        unshared, place = _read_varint(body, place)
        length, place = _read_varint(body, place)
        key = key[:shared] + body[place : place + unshared]
        place += unshared
        entries.append((key, body[place : place + length]))
        place += length
    return entries


def _read_handle(content: bytes, place: int) -> tuple[_Handle, int]:
    offset, place = _read_varint(content, place)
    size, place = _read_varint(content, place)
    return _Handle(offset, size), place


def _write_handle(handle: _Handle) -> bytes:
    return _varint(handle.offset) + _varint(handle.size)


def _read_varint(content: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, place


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
