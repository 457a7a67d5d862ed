"""Subwords that are there already: those of a model that a run goes on from, or of other data."""

import hashlib
import os
from dataclasses import dataclass
from functools import cached_property
from os.path import expanduser
from pathlib import Path
from typing import Any, Literal

import gin
from absl import logging

from t2t_repro.data.subword_model import SubwordModel, open_pair, open_subwords
from t2t_repro.data.subwords import Sentences
from t2t_repro.errors import UserError
from t2t_repro.ranges import Text, checked

CONTENT = "sha256"
"""What describes a recipe that says which file it gives."""


def content_hash(content: bytes) -> str:
    """Returns the SHA-256 of a vocabulary's file."""
    return hashlib.sha256(content).hexdigest()


@gin.configurable
@checked
@dataclass(frozen=True)
class GivenSubwords:
    """The recipe of a subword vocabulary that takes an existing one as it is.

    Attributes:
        model_dir: the directory that it is taken from: a model's, an imported one too, or that of
            prepared data.
        side: where source and target have a vocabulary each there: which of the two is taken.
    """

    model_dir: Text
    side: Literal["source", "target"] | None = None

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
        """The vocabulary's file."""
        return self.model.model_path.read_bytes()

    @property
    def vocab_size(self) -> int:
        """The number of ids, which is known before anything is made."""
        return self.model.size

    def describe(self) -> dict[str, Any]:
        """Returns what identifies the vocabulary: the content, wherever it lies."""
        return {CONTENT: content_hash(self.content)}

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
            f"data: taking {self.vocab_size} subwords from {self.model.model_path}: "
            f"{model_path.name}"
        )
        model_path.parent.mkdir(parents=True, exist_ok=True)
        aside = model_path.with_name(f".{model_path.name}.partial")
        aside.write_bytes(self.content)
        os.replace(aside, model_path)
        return open_subwords(model_path)
