"""Writes the index of a TensorFlow checkpoint, with right checksums whatever it holds.

It is a table of LevelDB's kind: blocks of entries sorted by key, and a block that lists the blocks.
Whatever is changed in the bytes of an index ends at a checksum; so its entries are changed, and it
is written anew, as someone would who wants a reader to trip.
"""

import struct
from collections.abc import Sequence

from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

Entries = list[tuple[bytes, bytes]]
"""(key, value): of the empty key a BundleHeaderProto, of a variable's a BundleEntryProto."""

_MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)
_FOOTER_BYTES = 48
_TRAILER_BYTES = 5
_UNCOMPRESSED = b"\0"


def write_index(entries: Entries, more_restarts: Sequence[int] = ()) -> bytes:
    """Writes an index of one block, uncompressed; a reader may begin at every entry, and there."""
    blocks: list[bytes] = []
    handles: list[bytes] = []
    for content, more in (
        (lambda: entries, more_restarts),
        (lambda: [], ()),
        (lambda: [(b"\xff" * 9, handles[0])], ()),
    ):
        offset = sum(map(len, blocks))
        blocks.append(_block(content(), more))
        handles.append(_varint(offset) + _varint(len(blocks[-1]) - _TRAILER_BYTES))
    footer = handles[1] + handles[2]
    return b"".join(blocks) + footer.ljust(_FOOTER_BYTES - len(_MAGIC), b"\0") + _MAGIC


def _block(entries: Entries, more_restarts: Sequence[int]) -> bytes:
    parts: list[bytes] = []
    restarts: list[int] = []
    for key, value in entries:
        # No key shares its begin with the one before: each is a restart.
        restarts.append(sum(map(len, parts)))
        parts.append(b"\0" + _varint(len(key)) + _varint(len(value)) + key + value)
    restarts = [*restarts, *more_restarts] or [0]
    body = b"".join(parts) + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))
    return body + _UNCOMPRESSED + struct.pack("<I", masked_crc32c(body + _UNCOMPRESSED))


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
