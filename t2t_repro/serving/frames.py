"""Messages between the server and the process of a model: a head in JSON, then bytes."""

import asyncio
import json
import struct
from typing import Any, NamedTuple

_SIZES = struct.Struct("!II")


class Frame(NamedTuple):
    """A message.

    Attributes:
        head: what it is about.
        body: a request or an answer, as its client has it.
    """

    head: dict[str, Any]
    body: bytes


async def read_frame(reader: asyncio.StreamReader) -> Frame | None:
    """The next message; None when the other side has gone."""
    try:
        head, body = _SIZES.unpack(await reader.readexactly(_SIZES.size))
        return Frame(json.loads(await reader.readexactly(head)), await reader.readexactly(body))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def write_frame(writer: asyncio.StreamWriter, head: dict[str, Any], body: bytes = b"") -> None:
    """Writes a message, of which the other side may have received nothing yet."""
    encoded = json.dumps(head).encode()
    writer.write(_SIZES.pack(len(encoded), len(body)) + encoded)
    writer.write(body)
