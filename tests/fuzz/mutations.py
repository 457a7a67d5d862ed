"""Ways to spoil a file: bytes, and what the bytes stand for."""

import copy
import json
import random
import re
import struct
import zlib
from collections.abc import Callable, Iterable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow.core.protobuf.tensor_bundle_pb2 import BundleEntryProto, BundleHeaderProto

from t2t_repro.strangers.checkpoint_index import _entries
from tests.fuzz.bundle_index import write_index

Mutation = Callable[[random.Random, bytes], bytes]

NUMBERS = [
    0, 1, -1, 2, 7, 127, 255, 2**15, 2**16, 2**31 - 1, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63),
]  # fmt: skip
_VALUES: list[Any] = [
    *NUMBERS, 10**400, 0.5, -0.5, 1e308, float("inf"), float("nan"), True, None, "", "x", "../x",
    "/dev/zero", "\0", [], {}, [[]], {"a": 1}, "float32", "learned", "9" * 50,
]  # fmt: skip
_FRAGMENTS = [
    b"\0", b"\n", b"\r", b"\t", b'"', b"'", b"\\", b"_", b"(", b")", b"((((", b"{", b"[" * 200,
    b"@",
    b"%", b"=", b" = ", b"\xff", b"\xef\xbb\xbf", b"\xe2\x96\x81", b"\xed\xa0\x80", b"import os\n",
    b"include '/etc/passwd'\n", b"../", b"1e999", b"-1", b"99999999999999999999", b"#", b"\n\n",
    b"@train()", b"@prepare()", b"@Translator()", b"%x", b"<pad>_\n<EOS>_\n", b"-NONE-",
    b"\x1f\x8b",
]  # fmt: skip
_NUMBER = re.compile(rb"-?\d+(\.\d+)?")


def spoil_bytes(rng: random.Random, content: bytes) -> bytes:
    """Flips, cuts, repeats, inserts, moves; numbers become extreme ones."""
    spoilt = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        a, b = sorted(rng.randrange(len(spoilt) + 1) for _ in range(2))
        match rng.randrange(9):
            case 0 if spoilt:
                spoilt[a % len(spoilt)] ^= 1 << rng.randrange(8)
            case 1 if spoilt:
                spoilt[a % len(spoilt)] = rng.randrange(256)
            case 2:
                spoilt[a:] = b""
            case 3:
                spoilt[a:b] = b""
            case 4:
                spoilt[a:a] = spoilt[a : min(b, a + 1000)] * rng.choice((1, 2, 50))
            case 5:
                spoilt[a:a] = rng.choice(_FRAGMENTS) * rng.choice((1, 1, 1, 40))
            case 6:
                spoilt[a : a + 4] = struct.pack("<I", rng.choice(NUMBERS) & 0xFFFFFFFF)
            case 7:
                spoilt[a : a + 8] = struct.pack("<q", rng.choice(NUMBERS))
            case 8:
                if numbers := list(_NUMBER.finditer(spoilt)):
                    found = rng.choice(numbers)
                    spoilt[found.start() : found.end()] = str(rng.choice(NUMBERS)).encode()
    return bytes(spoilt[:1_000_000])


def spoil_gzip(rng: random.Random, content: bytes) -> bytes:
    """What is compressed, or the compressed bytes."""
    if rng.random() < 0.5:
        return spoil_bytes(rng, content)
    packer = zlib.compressobj(wbits=31)
    plain = spoil_bytes(rng, zlib.decompress(content, wbits=31))
    if rng.random() < 0.02:
        plain += rng.choice((b"x", b"(A ", b"\n", b"a\tb\n")) * 5_000_000
    return packer.compress(plain) + packer.flush()


def spoil_json(rng: random.Random, content: bytes) -> bytes:
    """Keys and values become others, or vanish."""
    if rng.random() < 0.2:
        return spoil_bytes(rng, content)
    if rng.random() < 0.02:
        return rng.choice((b"[", b'{"a":')) * rng.choice((500, 100_000))
    tree = json.loads(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        tree = _spoil_value(rng, tree)
    return json.dumps(tree).encode()


def _spoil_value(rng: random.Random, value: Any) -> Any:
    if isinstance(value, dict | list) and value and rng.random() < 0.9:
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        if rng.random() < 0.15:
            del value[key]
        elif isinstance(value, dict) and rng.random() < 0.1:
            value[rng.choice(("", "x", "../x", "name", "/dev/zero"))] = value.pop(key)
        else:
            value[key] = _spoil_value(rng, value[key])
        return value
    if isinstance(value, int) and rng.random() < 0.6:
        return rng.choice((value + 1, value - 1, value * 2, -value, *NUMBERS))
    # Of its own: what is put into it later must not be in it elsewhere too.
    return copy.deepcopy(rng.choice(_VALUES))


def spoil_message(rng: random.Random, message: Message) -> None:
    """Fields of a protocol buffer get other values."""
    set_fields: Iterable[FieldDescriptor] = message.DESCRIPTOR.fields
    if not message.DESCRIPTOR.fields:
        return
    field = rng.choice(list(set_fields))
    if field.message_type and field.message_type.GetOptions().map_entry:
        _spoil_map(rng, getattr(message, field.name))
        return
    if field.is_repeated:
        items = getattr(message, field.name)
        if items and rng.random() < 0.5:
            index = rng.randrange(len(items))
            if field.message_type and rng.random() < 0.7:
                spoil_message(rng, items[index])
            elif rng.random() < 0.5:
                del items[index:]
            elif field.message_type and len(items) < 5000:
                items.add().CopyFrom(items[index])
        elif field.message_type:
            spoil_message(rng, items.add())
        return
    if field.message_type:
        spoil_message(rng, getattr(message, field.name))
        return
    value: Any = rng.choice(NUMBERS)
    if field.type in (field.TYPE_STRING, field.TYPE_BYTES):
        texts = ("", "x", "\u2581", "\u2581a b", "the", "<0x41>", "<unk>", "\0", "x" * 2000)
        value = rng.choice(texts)
        if field.type == field.TYPE_BYTES:
            value = spoil_bytes(rng, getattr(message, field.name))
    elif field.type == field.TYPE_BOOL:
        value = rng.random() < 0.5
    elif field.type == field.TYPE_ENUM:
        value = rng.choice(list(field.enum_type.values_by_number))
    elif field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        value = rng.choice((0.0, -1e30, 1e30, float("nan"), float("inf"), float("-inf")))
    try:
        setattr(message, field.name, value)
    except ValueError:  # Out of the type's range.
        setattr(message, field.name, 1)


def _spoil_map(rng: random.Random, items: Any) -> None:
    keys = sorted(items)
    if keys and rng.random() < 0.2:
        del items[rng.choice(keys)]
    elif keys and isinstance(items[keys[0]], Message):
        spoil_message(rng, items[rng.choice(keys)])


def spoil_saved_model(rng: random.Random, content: bytes) -> bytes:
    """Nodes, functions, objects, and the rest of a SavedModel of TensorFlow 2."""
    if rng.random() < 0.1:
        return spoil_bytes(rng, content)
    saved = SavedModel.FromString(content)
    graph = saved.meta_graphs[0]
    functions = graph.graph_def.library.function
    nodes = [*graph.graph_def.node, *(node for one in functions for node in one.node_def)]
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        chosen = rng.choice((nodes, nodes, functions, graph.object_graph_def.nodes, [graph]))
        spoil_message(rng, rng.choice(chosen) if chosen else saved)
    return saved.SerializePartialToString()


def spoil_sentencepiece(rng: random.Random, content: bytes) -> bytes:
    """Pieces, settings, the table of the normalisation."""
    if rng.random() < 0.15:
        return spoil_bytes(rng, content)
    model = ModelProto.FromString(content)
    for _ in range(rng.choice((1, 1, 2, 5))):
        if rng.random() < 0.4:
            spoil_message(rng, rng.choice(model.pieces) if model.pieces else model)
        elif rng.random() < 0.3:
            spoil_table(rng, model)
        else:
            spoil_message(rng, model)
    return model.SerializePartialToString()


def spoil_table(rng: random.Random, model: ModelProto) -> None:
    """A small trie of numbers that lead anywhere."""
    words = rng.choice((256, 512, 300))
    units = [rng.choice((rng.getrandbits(32), rng.getrandbits(31))) for _ in range(words)]
    table = struct.pack(f"<{words + 1}I", rng.choice((4 * words, 1024, 8)), *units)
    model.normalizer_spec.precompiled_charsmap = table + b"a\0b\0"


def spoil_index(rng: random.Random, content: bytes) -> bytes:
    """Entries of a checkpoint's index: shapes, types, places."""
    if rng.random() < 0.2:
        return spoil_bytes(rng, content)
    entries = list(_entries(content))
    for _ in range(rng.choice((1, 1, 2, 5))):
        if not entries:
            break
        place = rng.randrange(len(entries))
        name, value = entries[place]
        if rng.random() < 0.1:
            del entries[place]
            continue
        if rng.random() < 0.1:
            name = name.replace(b"0", b"1", 1) if rng.random() < 0.7 else spoil_bytes(rng, name)
        message = (BundleEntryProto if name else BundleHeaderProto).FromString(value)
        if name and rng.random() < 0.5 and message.shape.dim:
            rng.choice(message.shape.dim).size = rng.choice(NUMBERS)
        else:
            spoil_message(rng, message)
        entries[place] = name, message.SerializePartialToString()
    return write_index(sorted(entries))
