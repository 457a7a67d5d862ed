"""Subword models: text to ids and back.

Source and target share one vocabulary (Vaswani et al., 2017, section 5.1), or have one each:

    subwords.model            shared by source and target; or
    source_subwords.model     of the source, and
    target_subwords.model     of the target

Prepared data, model directories and CTranslate2 exports have these file names. The two files of a
Marian model usually have the same ids, but split text differently (see `text.marian`).
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from t2t_repro.errors import UserError
from t2t_repro.text.marian import FILE_START, MarianSubwords
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.t2t import RESERVED, T2TSubwords
from t2t_repro.vocabulary import EOS_ID, PAD_ID

SHARED_SUBWORDS = "subwords.model"
SOURCE_SUBWORDS = "source_subwords.model"
TARGET_SUBWORDS = "target_subwords.model"

FlatIds = tuple[NDArray[np.integer], NDArray[np.integer]]
"""The ids of sentences, one after the other, [ids]; and their number in each, [sentences]."""

Result = TypeVar("Result")


SubwordModel = SentencePieceModel | T2TSubwords | MarianSubwords
"""Text to ids and back, with one interface: see the methods of `SentencePieceModel`."""


class SubwordPair(NamedTuple):
    """The subword models of source and target.

    They are the same object if both sides share it.

    Attributes:
        source: encodes source text.
        target: encodes target text and decodes translations.
    """

    source: SubwordModel
    target: SubwordModel

    def each(self, make: Callable[[SubwordModel], Result]) -> tuple[Result, Result]:
        """Returns the results of `make` for source and target; one call if they share a model."""
        target = make(self.target)
        return target if self.source is self.target else make(self.source), target

    @property
    def languages(self) -> Sequence[str]:
        """Default codes of source and target; none if no source begins with its target's code."""
        return self.source.content.languages if isinstance(self.source, MarianSubwords) else ()

    def encode_blocks(self, *sides: Sequence[str]) -> Sequence[FlatIds]:
        """Encodes the lines of the source, and those of the target.

        Returns for each side the ids of all lines [ids], EOS at the end of each, and the number of
        ids of each line [lines]. In M2M-100 and NLLB, each source's first id, the code of its
        target's language, is moved to the start of the target.
        """
        blocks = [model.encode_block(lines) for model, lines in zip(self, sides, strict=True)]
        if not self.languages:
            return blocks
        (source, source_lengths), (target, target_lengths) = blocks
        # The index of each line's first id.
        source_starts, target_starts = (np.cumsum(lengths) - lengths for _, lengths in blocks)
        with_codes = np.insert(target, target_starts, source[source_starts])
        without_codes = np.delete(source, source_starts)
        return (without_codes, source_lengths - 1), (with_codes, target_lengths + 1)

    def files(self) -> dict[str, Path]:
        """Returns the models' files, by their names in a directory."""
        if self.source is self.target:
            return {SHARED_SUBWORDS: self.target.model_path}
        return {SOURCE_SUBWORDS: self.source.model_path, TARGET_SUBWORDS: self.target.model_path}

    def contents(self) -> dict[str, bytes]:
        """Returns the content of each model's file, by its name in a directory."""
        return {name: path.read_bytes() for name, path in self.files().items()}

    def checksum(self) -> str:
        """Returns the SHA-256 of the contents of all files."""
        return hashlib.sha256(b"".join(self.contents().values())).hexdigest()


def shared(subwords: SubwordModel) -> SubwordPair:
    """Returns a pair in which source and target share a model."""
    return SubwordPair(subwords, subwords)


def open_pair(directory: Path) -> SubwordPair:
    """Opens the subword models of a directory.

    Raises:
        UserError: a file is missing or cannot be used.
    """
    check_subword_files(directory)
    # One shared model, or those of source and target.
    models = [open_subwords(path) for path in subword_files(directory)]
    return SubwordPair(models[0], models[-1])


def open_subwords(path: Path) -> SubwordModel:
    """Opens a subword model; the first bytes of the file determine its kind.

    Raises:
        UserError: the file is missing, or cannot be used.
    """
    # 16 bytes are enough to tell the kinds apart.
    start = read_start(path, 16)
    if start.startswith(FILE_START):
        return MarianSubwords(path)
    # T2T's subwords may be in quotation marks.
    is_t2t = start.lstrip(b"'\"").startswith(RESERVED[0].encode())
    return T2TSubwords(path) if is_t2t else SentencePieceModel(path)


def read_start(path: Path, most: int) -> bytes:
    """Returns the first `most` bytes of a file, none if it is missing."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(most)


def subword_files(directory: Path) -> list[Path]:
    """Returns the subword files that exist in a directory."""
    names = SHARED_SUBWORDS, SOURCE_SUBWORDS, TARGET_SUBWORDS
    return [path for path in (directory / name for name in names) if path.is_file()]


def check_subword_files(directory: Path) -> None:
    """Checks that a directory has a shared model, or both sides'.

    Raises:
        UserError: the directory has no subword model, or one side's alone.
    """
    names = [path.name for path in subword_files(directory)]
    if names not in ([SHARED_SUBWORDS], [SOURCE_SUBWORDS, TARGET_SUBWORDS]):
        problem = f"{directory} has {' and '.join(names) or 'no subword model'}"
        expected = f"{SHARED_SUBWORDS}, or {SOURCE_SUBWORDS} and {TARGET_SUBWORDS}"
        raise UserError(f"{problem}, expected {expected}: give another one, or copy it again.")


def matching_ids(wanted: SubwordModel, existing: SubwordModel) -> NDArray[np.int64]:
    """Finds the pieces of one vocabulary in another, by name.

    PAD and EOS always match, whatever they are called.

    Args:
        wanted: the vocabulary whose pieces are looked up.
        existing: the vocabulary in which they are looked up.

    Returns:
        for every id of `wanted` the id of the same piece in `existing`, or -1: [ids].
    """
    # An id without a subword has an empty name.
    existing_ids = {piece: number for number, piece in enumerate(existing.pieces()) if piece}
    matches = np.array([existing_ids.get(piece, -1) for piece in wanted.pieces()], dtype=np.int64)
    matches[[PAD_ID, EOS_ID]] = PAD_ID, EOS_ID
    return matches
