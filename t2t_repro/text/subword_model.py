"""What a model translates with: subwords of SentencePiece, of Tensor2Tensor, or of Marian.

Source and target share one vocabulary (paper, section 5.1), or each has its own:

    subwords.model            the one that both share; or else
    source_subwords.model     that of the source, and
    target_subwords.model     that of the target

Marian's two files mostly have the same ids: they cut text in two ways, see `marian_subwords`.
Prepared data, model directories and CTranslate2's have these files, by these names.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from t2t_repro.errors import UserError
from t2t_repro.strangers.marian_file import START
from t2t_repro.text.marian import MarianSubwords
from t2t_repro.text.sentencepiece import SentencePieceModel, Sentences
from t2t_repro.text.t2t import RESERVED, T2TSubwords
from t2t_repro.vocabulary import EOS_ID, PAD_ID

SHARED_SUBWORDS = "subwords.model"
SOURCE_SUBWORDS = "source_subwords.model"
TARGET_SUBWORDS = "target_subwords.model"

Result = TypeVar("Result")


class SubwordModel(Protocol):
    """Text to ids and back; see `Subwords`, `T2TSubwords` and `MarianSubwords`.

    Attributes:
        model_path: the file.
    """

    model_path: Path

    @property
    def size(self) -> int:
        """The number of ids; every id that `encode` gives is below it."""

    def pieces(self) -> list[str]:
        """Returns what the file calls every id; an empty text is no subword."""

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of every line, EOS last."""

    def encode_block(self, lines: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Returns the ids of many lines, one after the other, and how many each has."""

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of one sentence of ids; what follows the first EOS is not read."""

    def labels(self, ids: Sequence[int]) -> list[str]:
        """Names subwords for a reader: plain where a word begins, behind ## where one goes on."""

    def word_numbers(self, line: str, ids: Sequence[int]) -> list[int]:
        """Of one line and its ids, the number of the word that each id belongs to, from 0.

        Words are what white space separates; EOS, and what follows it, belongs to `NO_WORD`.
        """

    def with_symbols(self, symbols: Sequence[str]) -> bytes:
        """Returns the file's content, with these texts, tags, among the subwords; see `symbols`.

        Raises:
            UserError: it lacks one, and has no room for it.
        """


class SubwordRecipe(Protocol):
    """How data come to a subword model; see `SubwordTraining` and `GivenSubwords`."""

    @property
    def vocab_size(self) -> int:
        """The number of ids, known before there are data."""

    def describe(self) -> dict[str, Any]:
        """Returns what identifies the subwords that the same sentences give; JSON can hold it."""

    def pieces(self) -> list[str] | None:
        """Returns what every id is called; None where only data will tell."""

    def with_symbols(self, symbols: Sequence[str]) -> "SubwordRecipe":
        """Returns the recipe of subwords that have these texts, tags, among them; see `symbols`."""

    def train(self, sentences: Sentences, model_path: Path) -> SubwordModel:
        """Writes the model of these sentences: whole, or not at all."""


Kind = TypeVar("Kind", bound=SubwordModel)
_Kind = TypeVar("_Kind", bound=SubwordModel, covariant=True)


class SubwordPair(NamedTuple, Generic[_Kind]):
    """The subword models of source and target: one object twice, where they share it.

    Attributes:
        source: encodes source text.
        target: encodes target text, and decodes translations.
    """

    source: _Kind
    target: _Kind

    def each(self, make: Callable[[_Kind], Result]) -> tuple[Result, Result]:
        """Makes something of each model, of source and target; of a shared one once."""
        of_target = make(self.target)
        return of_target if self.source is self.target else make(self.source), of_target

    def files(self) -> dict[str, Path]:
        """Returns the models' files by the names that they have in a directory; see the module."""
        if self.source is self.target:
            return {SHARED_SUBWORDS: self.target.model_path}
        return {SOURCE_SUBWORDS: self.source.model_path, TARGET_SUBWORDS: self.target.model_path}

    def contents(self) -> dict[str, bytes]:
        """Returns what is in each of these files."""
        return {name: path.read_bytes() for name, path in self.files().items()}

    def checksum(self) -> str:
        """Returns the SHA-256 of what is in all files together."""
        return hashlib.sha256(b"".join(self.contents().values())).hexdigest()


def shared(subwords: Kind) -> SubwordPair[Kind]:
    """The pair of a vocabulary that source and target share."""
    return SubwordPair(subwords, subwords)


def matching_ids(now: SubwordModel, there: SubwordModel) -> NDArray[np.int64]:
    """Finds the pieces of one vocabulary in another.

    PAD and EOS are the same in all; what a piece is called makes it the same elsewhere.

    Args:
        now: whose pieces are looked for.
        there: where they are looked for.

    Returns:
        of every id of `now` that of the same piece `there`, or -1: [ids].
    """
    ids = {piece: number for number, piece in enumerate(there.pieces()) if piece}
    found = np.array([ids.get(piece, -1) for piece in now.pieces()], dtype=np.int64)
    found[[PAD_ID, EOS_ID]] = PAD_ID, EOS_ID
    return found


def subword_files(directory: Path) -> list[Path]:
    """Returns the files of subword models that a directory has."""
    names = SHARED_SUBWORDS, SOURCE_SUBWORDS, TARGET_SUBWORDS
    return [path for path in (directory / name for name in names) if path.is_file()]


def read_start(path: Path, most: int) -> bytes:
    """Returns the first bytes of a file; none where there is no such file."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(most)


def check_subword_files(directory: Path) -> None:
    """Checks that a directory has all files of a pair, and no others.

    Raises:
        UserError: it has not.
    """
    there = [path.name for path in subword_files(directory)]
    if there not in ([SHARED_SUBWORDS], [SOURCE_SUBWORDS, TARGET_SUBWORDS]):
        raise UserError(
            f"{directory} has {' and '.join(there) or 'no subword model'}, expected "
            f"{SHARED_SUBWORDS}, or {SOURCE_SUBWORDS} and {TARGET_SUBWORDS}: give the directory of "
            "a training run, or copy it again."
        )


def open_pair(directory: Path, open_one: Callable[[Path], Kind]) -> SubwordPair[Kind]:
    """Opens the subword models of a directory.

    Args:
        directory: with files as the module says.
        open_one: opens one of them.

    Raises:
        UserError: there are no such files, or they cannot be used.
    """
    check_subword_files(directory)
    if (directory / SHARED_SUBWORDS).is_file():
        return shared(open_one(directory / SHARED_SUBWORDS))
    return SubwordPair(open_one(directory / SOURCE_SUBWORDS), open_one(directory / TARGET_SUBWORDS))


def open_subwords(path: Path) -> SubwordModel:
    """Opens a subword model of any kind; how the file begins tells which.

    Raises:
        UserError: there is no such file, or it cannot be used.
    """
    start = read_start(path, 16)
    if start.startswith(START):
        return MarianSubwords(path)
    is_t2t = start.lstrip(b"'\"").startswith(RESERVED[0].encode())
    return T2TSubwords(path) if is_t2t else SentencePieceModel(path)


def check_rows(subwords: SubwordPair[SubwordModel], source_rows: int, target_rows: int) -> None:
    """Checks that a model has a row for every subword that it is used with.

    Raises:
        UserError: it was trained with fewer.
    """
    for one, rows in zip(subwords, (source_rows, target_rows), strict=True):
        if one.size > rows:
            raise UserError(
                f"{one.model_path} has {one.size} subwords, but the model was trained with {rows} "
                "at most: put back the training run's own."
            )
