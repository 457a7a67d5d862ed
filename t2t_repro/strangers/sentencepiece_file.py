"""A SentencePiece model's file, looked through before SentencePiece reads it."""

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from sentencepiece.sentencepiece_model_pb2 import ModelProto

MAX_BYTES = 2**26
"""Of a file."""

MAX_PIECES = 2**20
"""Of a vocabulary."""

MAX_PIECE = 1000
"""Characters of one."""

_MAX_UNITS = 2**20
"""Of a trie; those of SentencePiece's own rules have 46,000."""

_MAX_KEY = 1000
"""Bytes of a text that the normalisation replaces."""

_MAX_FOUND = 32
"""How many such texts may begin with one another: SentencePiece has room for no more."""


def check_sentencepiece(content: bytes) -> None:
    """Makes sure that SentencePiece will find everything inside of the file.

    The table of its normalisation is an array, and a trie in it of which SentencePiece follows any
    number it finds as a place: outside of the array, if it says so. Of what it finds on the way it
    keeps a list of a fixed length, and writes beyond its end.

    Args:
        content: the file's.

    Raises:
        ValueError: it is no model, its table is none that can be followed, or it has too many
            pieces.
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
    if size > 4 * _MAX_UNITS:
        raise ValueError(f"its normalisation has more than {_MAX_UNITS:,} units")
    units = np.frombuffer(table, "<u4", size // 4, 4)
    is_value = units >> 31 == 1
    if ((units & 0x7FFFFFFF)[is_value] >= len(texts)).any():
        raise ValueError("its normalisation has texts that are not there")
    offsets = (units >> 10) << ((units & 0x200) >> 6)
    places = np.arange(len(units), dtype=np.uint32)
    # Where what follows a unit lies: the lowest byte is a character's, whatever that is.
    after = places ^ offsets
    if is_value[0] or (after[~is_value] | 0xFF >= len(units)).any():
        raise ValueError("its normalisation has places that are not there")
    has_text = (units & 0x100 != 0) & ~is_value
    if not is_value[after[has_text]].all():
        raise ValueError("its normalisation has texts that are not there")
    nodes = np.flatnonzero(~is_value)
    before = places ^ (units & 0xFF)
    _check_paths(int(after[0]), before[nodes], after[nodes], has_text[nodes])


def _check_paths(
    start: int, before: NDArray[np.integer], after: NDArray[np.integer], has_text: NDArray[np.bool_]
) -> None:
    """Checks how many texts are found on a path through a trie, whose branches may meet again.

    Args:
        start: the place that all paths begin at.
        before: the place from which each node is reached.
        after: the place that each leads to.
        has_text: whether a text is found there.
    """
    # Most on a path to each place; one that was not reached has less than none.
    found = np.full(max(before.max(), after.max()) + 1, -1, np.int8)
    found[start] = 0
    is_new = found == 0
    for _ in range(_MAX_KEY):
        steps = np.flatnonzero(is_new[before])
        if not steps.size:
            return
        earlier = found.copy()
        np.maximum.at(found, after[steps], found[before[steps]] + has_text[steps])
        if found.max() > _MAX_FOUND:
            raise ValueError(f"its normalisation finds more than {_MAX_FOUND} texts at once")
        is_new = found > earlier
    raise ValueError(f"its normalisation has texts of more than {_MAX_KEY:,} bytes")
