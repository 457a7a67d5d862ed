"""What a model translates with: subwords of SentencePiece, or of Tensor2Tensor."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from t2t_repro.data.subwords import Subwords
from t2t_repro.data.t2t_subwords import RESERVED, T2TSubwords


class SubwordModel(Protocol):
    """Text to ids and back; see `Subwords` and `T2TSubwords`.

    Attributes:
        model_path: the file.
    """

    model_path: Path

    @property
    def size(self) -> int:
        """The number of ids; every id that `encode` gives is below it."""

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of every line, EOS last."""

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of one sentence of ids; what follows the first EOS is not read."""

    def labels(self, ids: Sequence[int]) -> list[str]:
        """Names subwords for a reader: plain where a word begins, behind ## where one goes on."""


def open_subwords(path: Path) -> SubwordModel:
    """Opens a subword model of either kind; how the file begins tells which.

    Raises:
        UserError: there is no such file, or it cannot be used.
    """
    start = path.read_bytes()[:16] if path.is_file() else b""
    is_t2t = start.lstrip(b"'\"").startswith(RESERVED[0].encode())
    return T2TSubwords(path) if is_t2t else Subwords(path)
