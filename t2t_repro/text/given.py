"""Subwords that are there already: those of a model that a run goes on from, or of other data."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os.path import expanduser
from pathlib import Path
from typing import Annotated, Any, Literal

import gin
from absl import logging

from t2t_repro.config.values import AtMost, Text, validated
from t2t_repro.errors import UserError
from t2t_repro.files import write_whole
from t2t_repro.text.sentencepiece import Sentences
from t2t_repro.text.subword_model import SubwordModel, open_pair, open_subwords
from t2t_repro.text.training import MOST_SYMBOLS, check_symbols, merged

CONTENT = "sha256"
"""What describes a recipe that says which file it gives."""


def content_hash(content: bytes) -> str:
    """Returns the SHA-256 of a vocabulary's file."""
    return hashlib.sha256(content).hexdigest()


@gin.configurable
@validated
@dataclass(frozen=True)
class GivenSubwords:
    """The recipe of a subword vocabulary that takes an existing one as it is.

    Attributes:
        model_dir: the directory that it is taken from: a model's, an imported one too, or that of
            prepared data.
        side: where source and target have a vocabulary each there: which of the two is taken.
        symbols: texts that become one subword each wherever they stand, see `SubwordTraining`;
            those that it lacks get the ids after its last one. The tags of a `Mixture` are added by
            themselves.

    Raises:
        UserError: a symbol cannot be told from other text.
    """

    model_dir: Text
    side: Literal["source", "target"] | None = None
    symbols: Annotated[Sequence[Text], AtMost(MOST_SYMBOLS)] = ()

    def __post_init__(self) -> None:
        check_symbols("GivenSubwords.symbols", self.symbols)

    @cached_property
    def model(self) -> SubwordModel:
        """The vocabulary where it lies.

        Raises:
            UserError: there is none, it cannot be used, or there are two and no side is given.
        """
        pair = open_pair(Path(expanduser(self.model_dir)), open_subwords)
        if self.side is None and pair.source is not pair.target:
            raise UserError(
                f"{self.model_dir} has a vocabulary for the source and one for the target, "
                "expected GivenSubwords.side = 'source' or 'target': bind one of them, or both as "
                "@source/GivenSubwords() and @target/GivenSubwords()."
            )
        return pair.source if self.side == "source" else pair.target

    @cached_property
    def content(self) -> bytes:
        """The vocabulary's file, with the symbols in it.

        Raises:
            UserError: see `model`; or it has no room for symbols, as Tensor2Tensor's.
        """
        return self.model.with_symbols(self.symbols)

    @cached_property
    def vocab_size(self) -> int:
        """The number of ids, which is known before anything is made."""
        return len(self.pieces())

    def pieces(self) -> list[str]:
        """Returns what every id is called, the symbols last.

        Raises:
            UserError: see `content`.
        """
        self.model.with_symbols(self.symbols)
        return [*self.model.pieces(), *self._missing()]

    def describe(self) -> dict[str, Any]:
        """Returns what identifies the vocabulary: the content, wherever it lies."""
        return {CONTENT: content_hash(self.content)}

    def with_symbols(self, symbols: Sequence[str]) -> "GivenSubwords":
        """Returns the recipe with further symbols."""
        return replace(self, symbols=merged(self.symbols, symbols))

    def train(self, sentences: Sentences, model_path: Path) -> SubwordModel:
        """Writes the vocabulary in one piece: whole, or not at all. Nothing is learned.

        Args:
            sentences: not used.
            model_path: the file to write; an old one is replaced.

        Returns:
            The vocabulary that was written.

        Raises:
            UserError: see `model`.
        """
        logging.info(
            f"data: taking {self.model.size} subwords from {self.model.model_path}"
            f"{self._added()}: {model_path.name}"
        )
        write_whole(model_path, self.content)
        return open_subwords(model_path)

    def _added(self) -> str:
        missing = self._missing()
        return f", adding {', '.join(missing)}" if missing else ""

    def _missing(self) -> list[str]:
        there = set(self.model.pieces())
        return [symbol for symbol in self.symbols if symbol not in there]
