"""Sentence pairs as token ids on disk, any of them readable at any time.

A store is a directory, one for every split:

    source.tokens   all source ids, sentence after sentence, EOS included
    source.lengths  the number of ids of every source sentence, int32
    target.tokens, target.lengths   likewise
    store.json      number of sentences and of tokens, type of the ids, size of the vocabulary,
                    and of the source's where that is another

The arrays are little-endian and memory-mapped, so that a batch costs only the pages it touches,
and several processes share them.
"""

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from t2t_repro.errors import UserError
from t2t_repro.files import read_json
from t2t_repro.vocabulary import PAD_ID

_SUMMARY = "store.json"
_SIDES = ("source", "target")
_LENGTH_TYPE = np.dtype("<i4")

STORE_FILES = ("source.tokens", "source.lengths", "target.tokens", "target.lengths")
"""The arrays of a store, in which block follows on block."""

FlatIds = tuple[NDArray[np.integer], NDArray[np.integer]]
"""Many sentences: their ids one after the other, [ids], and how many each has, [sentences]."""


class VocabSizes(NamedTuple):
    """The sizes of two vocabularies; equal, where source and target share one.

    Attributes:
        source: every source id is below it.
        target: every target id is below it.
    """

    source: int
    target: int

    @property
    def token_type(self) -> np.dtype:
        """In which the ids of both sides are stored."""
        return np.dtype("<u2") if max(self) <= 2**16 else np.dtype("<i4")


def token_block(source: FlatIds, target: FlatIds, sizes: VocabSizes) -> dict[str, bytes]:
    """Returns what a block of sentence pairs adds to each of `STORE_FILES`, by name.

    Raises:
        ValueError: an id is outside of its vocabulary.
    """
    parts = {}
    for side, (tokens, lengths), size in zip(_SIDES, (source, target), sizes, strict=True):
        if tokens.min(initial=0) < 0 or tokens.max(initial=0) >= size:
            raise ValueError(
                f"{side} ids lie in [{tokens.min()}, {tokens.max()}]; expected [0, {size}): give "
                "the size of the vocabulary that made them."
            )
        parts[f"{side}.tokens"] = tokens.astype(sizes.token_type).tobytes()
        parts[f"{side}.lengths"] = lengths.astype(_LENGTH_TYPE).tobytes()
    return parts


def complete_token_store(directory: Path, sizes: VocabSizes) -> None:
    """Makes a store of a directory that holds `STORE_FILES`, the blocks one after the other."""

    def entries(name: str, entry_type: np.dtype) -> int:
        return (directory / name).stat().st_size // entry_type.itemsize

    summary = {
        "sentences": entries("source.lengths", _LENGTH_TYPE),
        "tokens": {side: entries(f"{side}.tokens", sizes.token_type) for side in _SIDES},
        "token_type": sizes.token_type.str,
        "vocab_size": sizes.target,
    }
    if sizes.source != sizes.target:
        summary["source_vocab_size"] = sizes.source
    (directory / _SUMMARY).write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


class TokenStore:
    """Random access to the sentence pairs of one split.

    Args:
        directory: what `complete_token_store` was called of.

    Attributes:
        vocab_sizes: of source and target; every id in the store is below its side's.
        source_lengths: [sentences] int32, ids of every source sentence, EOS included.
        target_lengths: [sentences] int32, likewise.

    Raises:
        UserError: the directory is missing, incomplete or damaged.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        if not (self.directory / _SUMMARY).exists():
            raise UserError(
                f"no token store at {self.directory}; expected what datagen writes there."
            )
        try:
            summary = read_json(self.directory / _SUMMARY)
            self._sentences = int(summary["sentences"])
            vocab_size = int(summary["vocab_size"])
            source_vocab_size = int(summary.get("source_vocab_size", vocab_size))
            self.vocab_sizes = VocabSizes(source_vocab_size, vocab_size)
            token_type = self.vocab_sizes.token_type
            if summary["token_type"] != token_type.str:
                raise ValueError(f"token_type is {summary['token_type']}")
            tokens = {side: int(summary["tokens"][side]) for side in _SIDES}
        except (ValueError, KeyError, TypeError, ArithmeticError, OSError) as error:
            raise self._damaged(_SUMMARY) from error
        self._sides = {side: self._open(side, token_type, tokens[side]) for side in _SIDES}
        self.source_lengths, self.target_lengths = (side.lengths for side in self._sides.values())

    def __len__(self) -> int:
        """The number of sentence pairs."""
        return self._sentences

    def part(self, sentences: range) -> "TokenStore":
        """Returns a store of some of the sentences, one after the other here; nothing is copied."""
        wanted = slice(sentences.start, sentences.stop)
        part = copy.copy(self)
        part._sentences = len(sentences)
        part._sides = {
            name: side._replace(lengths=side.lengths[wanted], ends=side.ends[wanted])
            for name, side in self._sides.items()
        }
        part.source_lengths, part.target_lengths = (side.lengths for side in part._sides.values())
        return part

    def sentences(self, indices: NDArray[np.integer]) -> tuple[FlatIds, FlatIds]:
        """Reads the source and the target of some sentence pairs.

        Args:
            indices: [pairs] which, in any order.
        """
        source, target = (side.take(indices) for side in self._sides.values())
        return source, target

    def other(self, files: Mapping[str, IO[bytes]]) -> "TokenStore":
        """Returns a store of other sentence pairs in the same vocabularies.

        Args:
            files: `STORE_FILES`, by name, written to their ends; they may be closed afterwards, and
                have no names.
        """
        other = copy.copy(self)
        for name in _SIDES:
            tokens, lengths = (
                np.asarray(np.memmap(files[f"{name}.{array}"], dtype, mode="r"))
                for array, dtype in (
                    ("tokens", self.vocab_sizes.token_type),
                    ("lengths", _LENGTH_TYPE),
                )
            )
            side = _Side(tokens, lengths, np.cumsum(lengths, dtype=np.int64))
            other._sides = other._sides | {name: side}
        other.source_lengths, other.target_lengths = (s.lengths for s in other._sides.values())
        other._sentences = len(other.source_lengths)
        return other

    def padded_batch(
        self, indices: NDArray[np.integer], source_length: int, target_length: int, rows: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Assembles one batch of the given shape.

        Args:
            indices: [at most rows] sentence indices; −1 makes a row of PAD, as do missing ones.
            source_length: columns of the source; no chosen sentence may be longer.
            target_length: columns of the target; likewise.
            rows: rows of the batch.

        Returns:
            Source ids [rows, source_length] and target ids [rows, target_length], int32, padded
            with PAD at the right and at the bottom.

        Raises:
            ValueError: more indices than rows, an index outside [−1, sentences), or a sentence
                that does not fit.
            UserError: an id is outside of the vocabulary, which a device may not notice.
        """
        indices = np.asarray(indices, dtype=np.int64)
        if indices.ndim != 1 or len(indices) > rows:
            raise ValueError(
                f"indices has shape {indices.shape}; expected [at most {rows} rows]: "
                "take a shape with more rows or fewer sentences."
            )
        if len(indices) and not (indices.min() >= -1 and indices.max() < len(self)):
            raise ValueError(
                f"indices lie in [{indices.min()}, {indices.max()}]; expected [-1, {len(self)}) "
                "in this store."
            )
        chosen = np.full(rows, -1, dtype=np.int64)
        chosen[: len(indices)] = indices
        widths = source_length, target_length
        batches = []
        for (name, side), width, size in zip(
            self._sides.items(), widths, self.vocab_sizes, strict=True
        ):
            batch = side.gather(chosen, width)
            if batch.min(initial=0) < 0 or batch.max(initial=0) >= size:
                raise self._damaged(f"{name}.tokens")
            batches.append(batch)
        return batches[0], batches[1]

    def _open(self, name: str, token_type: np.dtype, count: int) -> "_Side":
        tokens = self._map(f"{name}.tokens", token_type, count)
        lengths = self._map(f"{name}.lengths", _LENGTH_TYPE, self._sentences)
        ends = np.cumsum(lengths, dtype=np.int64)
        if ends[-1] != count or lengths.min() < 1:
            raise self._damaged(f"{name}.lengths")
        return _Side(tokens, lengths, ends)

    def _map(self, name: str, dtype: np.dtype, count: int) -> NDArray:
        """Maps one array of the store, [count], after checking that it is all there."""
        path = self.directory / name
        if not path.is_file() or path.stat().st_size != count * dtype.itemsize or count < 1:
            raise self._damaged(name)
        # As a plain array: every operation on a np.memmap would build another np.memmap.
        return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(count,)))

    def _damaged(self, name: str) -> UserError:
        return UserError(
            f"the token store {self.directory} is incomplete or damaged ({name}); "
            "delete it and run datagen again."
        )


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
        """The sentences of these indices."""
        lengths = self.lengths[indices]
        ends = np.cumsum(lengths, dtype=np.int64)
        begins = self.ends[indices] - ends
        return self.tokens[np.repeat(begins, lengths) + np.arange(lengths.sum())], lengths

    def gather(self, chosen: NDArray, width: int) -> NDArray[np.int32]:
        """Pads the chosen sentences [rows] (−1: none) to one array [rows, width]."""
        chosen_lengths = np.where(chosen < 0, 0, self.lengths[chosen])
        longest = int(chosen_lengths.max(initial=0))
        if longest > width:
            raise ValueError(
                f"a sentence of {longest} ids does not fit a batch of length {width}: "
                "assign it to a shape that covers it."
            )
        columns = np.arange(width)
        real = columns < chosen_lengths[:, None]
        places = (self.ends[chosen] - chosen_lengths)[:, None] + columns
        batch = np.full((len(chosen), width), PAD_ID, dtype=np.int32)
        batch[real] = self.tokens[places[real]]
        return batch
