"""Memory-mapped token ids of sentence pairs, with random access.

A store is a directory, one for every split:

    source.tokens   all source ids, sentence after sentence, EOS included
    source.lengths  number of ids of every source sentence, int32
    target.tokens, target.lengths   likewise
    store.json      sizes of the vocabularies; older stores lack the source's where it is the same

The arrays are little-endian. A batch reads only the pages that it needs, which processes share.
"""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from t2t_repro.files import read_json, write_json
from t2t_repro.text.subword_model import FlatIds
from t2t_repro.vocabulary import PAD_ID

_SUMMARY = "store.json"
_SIDES = ("source", "target")
_LENGTH_TYPE = np.dtype("<i4")

STORE_FILES = ("source.tokens", "source.lengths", "target.tokens", "target.lengths")
"""The arrays of a store."""


class VocabSizes(NamedTuple):
    """Sizes of the source and the target vocabulary; equal if both sides share one.

    Attributes:
        source: every source id is below it.
        target: every target id is below it.
    """

    source: int
    target: int

    @property
    def token_type(self) -> np.dtype:
        """The type in which ids of both sides are stored."""
        return np.dtype("<u2") if max(self) <= 2**16 else np.dtype("<i4")


def token_block(source: FlatIds, target: FlatIds, sizes: VocabSizes) -> dict[str, bytes]:
    """Returns the bytes of sentence pairs for each of `STORE_FILES`, by name.

    That all ids are below `sizes` is not checked.
    """
    parts = {}
    for side, (tokens, lengths) in zip(_SIDES, (source, target), strict=True):
        parts[f"{side}.tokens"] = tokens.astype(sizes.token_type).tobytes()
        parts[f"{side}.lengths"] = lengths.astype(_LENGTH_TYPE).tobytes()
    return parts


def complete_token_store(directory: Path, sizes: VocabSizes) -> None:
    """Writes the summary of a store, once its `STORE_FILES` are complete."""
    summary = {"vocab_size": sizes.target, "source_vocab_size": sizes.source}
    write_json(directory / _SUMMARY, summary)


class _Side(NamedTuple):
    """All sentences of one side.

    Attributes:
        tokens: [tokens], sentence after sentence.
        lengths: [sentences] int32.
        ends: [sentences] int64, where each ends in `tokens`.
    """

    tokens: NDArray
    lengths: NDArray
    ends: NDArray

    def take(self, indices: NDArray[np.integer]) -> FlatIds:
        """Returns the ids of the sentences with these indices, one after the other, and lengths."""
        lengths = self.lengths[indices]
        # What leads from a position in the result to that in `tokens`, of each sentence.
        shifts = self.ends[indices] - np.cumsum(lengths, dtype=np.int64)
        return self.tokens[np.repeat(shifts, lengths) + np.arange(lengths.sum())], lengths

    def padded(self, indices: NDArray[np.integer], width: int | None) -> NDArray[np.int32]:
        """Returns the sentences with these indices [rows] as one padded array [rows, width].

        Index -1 is an empty sentence; one that is longer than `width` is cut off. A `width` of None
        is the length of the longest sentence, at least 1.
        """
        lengths = np.where(indices < 0, 0, self.lengths[indices])
        columns = np.arange(width or lengths.max(initial=1))
        # [rows, width]: whether a token is there, and its position in `tokens`.
        is_token = columns < lengths[:, None]
        positions = (self.ends[indices] - lengths)[:, None] + columns
        batch = np.full(is_token.shape, PAD_ID, dtype=np.int32)
        batch[is_token] = self.tokens[positions[is_token]]
        return batch


class TokenStore:
    """Random access to the sentence pairs of one split.

    Args:
        directory: of a store that `complete_token_store` completed.

    Attributes:
        directory: as given.
        vocab_sizes: of source and target; every id is below its side's size.
        source_lengths: [sentences] int32, ids of every source sentence, EOS included.
        target_lengths: [sentences] int32, likewise.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        summary = read_json(self.directory / _SUMMARY)
        # An older store has no size of the source's vocabulary where both sides share one.
        target_size = summary["vocab_size"]
        self.vocab_sizes = VocabSizes(summary.get("source_vocab_size", target_size), target_size)
        self._open({name: self.directory / name for name in STORE_FILES})

    def _open(self, files: Mapping[str, Path | IO[bytes]]) -> None:
        """Memory-maps the arrays of a store.

        Args:
            files: `STORE_FILES`, by name; each a path or an open file.
        """
        token_type = self.vocab_sizes.token_type
        sides = []
        for side in _SIDES:
            # Plain arrays: every operation on a np.memmap would build another np.memmap.
            tokens = np.asarray(np.memmap(files[f"{side}.tokens"], token_type, mode="r"))
            lengths = np.asarray(np.memmap(files[f"{side}.lengths"], _LENGTH_TYPE, mode="r"))
            sides.append(_Side(tokens, lengths, np.cumsum(lengths, dtype=np.int64)))
        self._set_sides(*sides)

    def _set_sides(self, source: _Side, target: _Side) -> None:
        """Sets the arrays of both sides, and the public lengths, which are among them."""
        self._sides = source, target
        self.source_lengths, self.target_lengths = source.lengths, target.lengths

    def __len__(self) -> int:
        """Returns the number of sentence pairs."""
        return len(self.source_lengths)

    def part(self, sentences: range) -> "TokenStore":
        """Returns a store of a range of the sentence pairs, without a copy of their ids."""
        span = slice(sentences.start, sentences.stop)
        # The ends of sentences count from the start of all ids, so these are shared.
        part = copy.copy(self)
        sides = (_Side(side.tokens, side.lengths[span], side.ends[span]) for side in self._sides)
        part._set_sides(*sides)
        return part

    def other(self, files: Mapping[str, IO[bytes]]) -> "TokenStore":
        """Returns a store of other sentence pairs in the same vocabularies.

        Args:
            files: completely written `STORE_FILES`, by name; they may be unnamed temporary files,
                and may be closed afterwards.
        """
        store = copy.copy(self)
        store._open(files)
        return store

    def sentences(self, indices: NDArray[np.integer]) -> tuple[FlatIds, FlatIds]:
        """Returns the ids and the lengths of sources, and those of targets, of some pairs.

        Args:
            indices: [pairs], in any order, which is kept.
        """
        source, target = self._sides
        return source.take(indices), target.take(indices)

    def padded_batch(
        self, indices: NDArray[np.integer], lengths: Sequence[int | None] = (None, None)
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Assembles a batch of the given shape.

        Args:
            indices: [rows] sentence indices; -1 makes a row of PAD.
            lengths: columns of source and target. A longer sentence is cut off, without an error.
                By default as many as the longest has.

        Returns:
            source ids [rows, source_length] and target ids [rows, target_length], int32, padded
            with PAD at the right.
        """
        source, target = self._sides
        return source.padded(indices, lengths[0]), target.padded(indices, lengths[1])
