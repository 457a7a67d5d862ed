"""A SentencePiece model's file, looked through before SentencePiece reads it."""

import numpy as np
from google.protobuf.message import DecodeError
from sentencepiece.sentencepiece_model_pb2 import ModelProto

MAX_BYTES = 2**26
"""Of a file."""

MAX_PIECES = 2**20
"""Of a vocabulary."""

MAX_PIECE = 1000
"""Characters of one."""


def check_sentencepiece(content: bytes) -> None:
    """Makes sure that SentencePiece will find everything inside of the file.

    The table of its normalisation is an array, and a trie in it of which SentencePiece follows any
    number it finds as a place: outside of the array, if it says so.

    Args:
        content: the file's.

    Raises:
        ValueError: it is no model, a number leads out of its table, or it has too many pieces.
    """
    try:
        model = ModelProto.FromString(content)
    except DecodeError as error:
        raise ValueError("it is no SentencePiece model") from error
    if not 0 < len(model.pieces) <= MAX_PIECES:
        raise ValueError(f"it has {len(model.pieces):,} pieces")
    if any(len(piece.piece) > MAX_PIECE for piece in model.pieces):
        raise ValueError(f"it has a piece of more than {MAX_PIECE} characters")
    for spec in (model.normalizer_spec, model.denormalizer_spec):
        if spec.precompiled_charsmap:
            _check_characters(spec.precompiled_charsmap)


def _check_characters(table: bytes) -> None:
    """Checks a table: the size of the trie, the trie (Darts-clone's), texts that end in a zero."""
    size = int.from_bytes(table[:4], "little")
    texts = table[4 + size :]
    if not size or size % 1024 or not texts.endswith(b"\0"):
        raise ValueError("its normalisation has no such table")
    units = np.frombuffer(table, "<u4", size // 4, 4)
    is_value = units >> 31 == 1
    if ((units & 0x7FFFFFFF)[is_value] >= len(texts)).any():
        raise ValueError("its normalisation has texts that are not there")
    offsets = (units >> 10) << ((units & 0x200) >> 6)
    # The lowest byte is a character's, whatever that is.
    children = (np.arange(len(units), dtype=np.uint32) ^ offsets) | 0xFF
    if (children[~is_value] >= len(units)).any():
        raise ValueError("its normalisation has places that are not there")
