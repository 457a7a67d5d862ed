"""An existing subword vocabulary: that of a model to continue from, or of other data."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os.path import expanduser
from pathlib import Path
from typing import Any, Literal

import gin
from absl import logging

from t2t_repro.config.values import validated
from t2t_repro.errors import UserError
from t2t_repro.files import write_whole
from t2t_repro.text.subword_model import Sentences, SubwordModel, open_pair, open_subwords
from t2t_repro.text.training import SubwordTraining, check_symbols

CONTENT = "sha256"
"""The key that describes a vocabulary by its file's content."""


def content_hash(content: bytes) -> str:
    """Returns the SHA-256 of a vocabulary's file."""
    return hashlib.sha256(content).hexdigest()


@gin.configurable
@validated
@dataclass(frozen=True)
class GivenSubwords:
    """The recipe that takes an existing vocabulary.

    Attributes:
        model_dir: the directory to take it from: of a model, also an imported one, or of prepared
            data.
        side: the vocabulary to take, if source and target have one each there.
        symbols: texts that are always one subword, see `SubwordTraining`; missing ones are added
            after the last id. The tags of a `Mixture` are added automatically.

    Raises:
        UserError: a symbol cannot be told from other text.
    """

    model_dir: str
    side: Literal["source", "target"] | None = None
    symbols: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_symbols("GivenSubwords.symbols", self.symbols)

    @cached_property
    def model(self) -> SubwordModel:
        """The existing vocabulary.

        Raises:
            UserError: it is missing or cannot be used, or there are two and no side is given.
        """
        pair = open_pair(Path(expanduser(self.model_dir)))
        if self.side is None and pair.source is not pair.target:
            raise UserError(
                f"{self.model_dir} has a vocabulary for the source and one for the target, "
                "expected GivenSubwords.side = 'source' or 'target': bind one of them, or both as "
                "@source/GivenSubwords() and @target/GivenSubwords()."
            )
        return pair.source if self.side == "source" else pair.target

    @cached_property
    def content(self) -> bytes:
        """The vocabulary's file with the symbols added.

        Raises:
            UserError: see `model`; or symbols cannot be added.
        """
        return self.model.with_symbols(self.symbols)

    @cached_property
    def vocab_size(self) -> int:
        """The number of ids, known before there are data."""
        return len(self.pieces())

    def pieces(self) -> list[str]:
        """Returns the name of every id, added symbols last.

        Raises:
            UserError: see `content`.
        """
        self.model.with_symbols(self.symbols)
        pieces = self.model.pieces()
        existing = set(pieces)
        return [*pieces, *(symbol for symbol in self.symbols if symbol not in existing)]

    def describe(self) -> dict[str, Any]:
        """Returns what identifies the vocabulary: its content, wherever it lies."""
        return {CONTENT: content_hash(self.content)}

    def with_symbols(self, symbols: Sequence[str]) -> "GivenSubwords":
        """Returns the recipe with further symbols."""
        return replace(self, symbols=tuple(dict.fromkeys((*self.symbols, *symbols))))

    def train(self, sentences: Sentences, model_path: Path) -> SubwordModel:
        """Writes the vocabulary, whole or not at all. Nothing is learned.

        Args:
            sentences: not used.
            model_path: the file to write or replace.

        Raises:
            UserError: see `content`.
        """
        logging.info("data: taking subwords from %s: %s", self.model.model_path, model_path.name)
        write_whole(model_path, self.content)
        return open_subwords(model_path)


SubwordRecipe = SubwordTraining | GivenSubwords
"""The way to a subword model: it is learned, or there is one."""
