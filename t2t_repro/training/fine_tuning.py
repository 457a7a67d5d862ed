"""A model that a run starts from: weights only, by `train.init_from`.

The optimizer, its schedule and the number of updates begin anew. Of tables with a row for every
piece, the embeddings and the softmax, the rows of pieces that both vocabularies have are carried
over; the others stay as they were initialised. All else has to be of the same size.
"""

import hashlib
from collections.abc import Mapping
from os.path import abspath, expanduser
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from absl import logging
from numpy.typing import NDArray

from t2t_repro.errors import UserError
from t2t_repro.model.transformer import OWN_SOFTMAX, OWN_SOURCE_EMBEDDING, Transformer
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.records import Ancestor, weights_hash
from t2t_repro.runs.weights import name_of, named_values
from t2t_repro.text.subword_model import SubwordModel, SubwordPair, check_rows, matching_ids

_FREE = ("vocab_size", "source_vocab_size", "tied_embeddings", "dtype", "trainable")
"""What may differ from the parent's."""

_SIDES = {"source": 0, "target": 1, "softmax": 1}
"""Which vocabulary of a `SubwordPair` a table is of, by what it is for."""


def parent_of(
    directory: ModelDirectory, init_from: str | None, init_checkpoint: str | None
) -> "InitialModel | None":
    """Finds what a run starts from; None where it goes on, or starts from nothing.

    Args:
        directory: of the run.
        init_from: `train.init_from`.
        init_checkpoint: `train.init_checkpoint`.

    Raises:
        UserError: the model cannot be used, or the run did not begin with it.
    """
    if init_from is None:
        if init_checkpoint is not None:
            raise UserError(
                f"train.init_checkpoint = {init_checkpoint!r}, but train.init_from is not bound: "
                "bind the model directory that it is of."
            )
        return None
    there = Path(expanduser(init_from))
    if there.resolve() == directory.path.resolve():
        raise UserError(
            f"train.init_from = {init_from!r} is the --model_dir itself: give another --model_dir."
        )
    if not directory.has_begun():
        return InitialModel(there, init_checkpoint)
    if not directory.ancestors():
        raise UserError(
            f"{directory.path} has checkpoints of a run that began without train.init_from: leave "
            f"it out to go on with that, or give another --model_dir to start from {init_from}."
        )
    return None


class InitialModel:
    """A model directory, and the checkpoint of it that a run starts from.

    Made before devices are chosen, it computes nothing with TensorFlow until it is asked to.

    Args:
        model_dir: the directory, a training run's or an imported one.
        checkpoint: see `ModelDirectory.checkpoint`.

    Attributes:
        directory: the model directory.
        subwords: of source and target.

    Raises:
        UserError: it cannot be used.
    """

    def __init__(self, model_dir: str | Path, checkpoint: str | None = None) -> None:
        self.directory = ModelDirectory(expanduser(model_dir))
        try:
            self._checkpoint = self.directory.checkpoint(checkpoint)
            self._sizes = self.directory.sizes()
            self.subwords = self.directory.subwords()
            rows, of_source = self._sizes["vocab_size"], self._sizes["source_vocab_size"]
            check_rows(self.subwords, of_source or rows, rows)
        except UserError as error:
            raise UserError(f"train.init_from: {error}") from error

    @property
    def checkpoint(self) -> str:
        """The name of the checkpoint in the directory, e.g. "best/step-2000"."""
        return "/".join(Path(self._checkpoint).parts[-2:])

    def identity(self) -> dict[str, str]:
        """Returns what is the same on all workers; the index holds a checksum of every weight."""
        index = Path(f"{self._checkpoint}.index").read_bytes()
        return {
            "checkpoint": self.checkpoint,
            "index": hashlib.sha256(index).hexdigest(),
            "subwords": self.subwords.checksum(),
        }

    def check_fits(self, model: Transformer) -> None:
        """Checks that a model, built or not, can begin with these weights.

        Raises:
            UserError: it is of other sizes, or ties what was trained apart; or the checkpoint is
                of other sizes than its directory says.
        """
        self.directory.sizes(self._checkpoint)
        if differing := self.directory.differing_sizes(model, but=_FREE):
            raise UserError(
                f"train.init_from = {str(self.directory.path)!r} is a model of other sizes "
                f"({'; '.join(differing)}): bind what it was trained with, see "
                f"{self.directory.config_gin}."
            )
        tied, tied_there = model.tied_embeddings, self._sizes["tied_embeddings"]
        there = _tables(tied_there)
        for roles in _roles(tied).values():
            if len({there[role] for role in roles}) > 1:
                raise UserError(
                    f"Transformer.tied_embeddings = {tied!r} ties {' and '.join(roles)}, trained "
                    f"apart in train.init_from = {str(self.directory.path)!r}: bind "
                    f"{tied_there!r}, or 'none'."
                )

    def give(self, model: Transformer, subwords: SubwordPair) -> Ancestor:
        """Puts the weights in the place of a model's own, and says in the log what it took.

        Args:
            model: built; see `check_fits`.
            subwords: of its data.

        Returns:
            what is to be known of it later.

        Raises:
            UserError: the weights cannot be read.
        """
        try:
            with tf.device("CPU:0"):
                parent = self.directory.load_model(self.checkpoint, "float32")
        except UserError as error:
            raise UserError(f"train.init_from: {error}") from error
        weights = named_values(parent)
        carried, new = self._give_rows(parent, model, subwords)
        for weight in model.trainable_variables:
            if name_of(weight) not in carried:
                weight.assign(weights[name_of(weight)])
        logging.info(
            f"train: starts from the weights of {self.directory.path}, {self.checkpoint} "
            f"(train.init_from); rows of pieces: {_in_words(carried, new)}"
        )
        return Ancestor(
            abspath(self.directory.path), self.checkpoint, weights_hash(weights), carried, new
        )

    def _give_rows(
        self, parent: Transformer, model: Transformer, subwords: SubwordPair
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Carries rows over; returns how many of every table's pieces had one, and had none."""
        carried: dict[str, int] = {}
        new: dict[str, int] = {}
        there = _tables(parent.tied_embeddings)
        for name, roles in _roles(model.tied_embeddings).items():
            table = getattr(model, name).table
            rows = getattr(parent, there[roles[0]]).table.numpy()
            side = _SIDES[roles[0]]
            ids = matching_ids(subwords[side], self.subwords[side])
            carried[name_of(table)] = int((ids >= 0).sum())
            new[name_of(table)] = int((ids < 0).sum())
            if _content(subwords[side]) == _content(self.subwords[side]):
                # With them the rows that no piece has, which the softmax scores like the others.
                ids = np.arange(min(table.shape[0], len(rows)))
            _give_values(table, rows, ids)
            bias, bias_there = model.logits_bias, parent.logits_bias
            if "softmax" in roles and bias is not None and bias_there is not None:
                _give_values(bias, bias_there.numpy(), ids)
                carried[name_of(bias)] = carried[name_of(table)]
                new[name_of(bias)] = new[name_of(table)]
        return carried, new


def _give_values(
    variable: keras.Variable, values: NDArray[np.float32], ids: NDArray[np.int64]
) -> None:
    """Carries over values [rows, ...]: that of ids[i], where it is not negative, to row i."""
    mixed = np.array(variable.numpy())
    mixed[: len(ids)][ids >= 0] = values[ids[ids >= 0]]
    variable.assign(mixed)


def _tables(tied: str) -> dict[str, str]:
    """Which of a Transformer's embeddings has which role; see its `tied_embeddings`."""
    return {
        "source": "own_source_embedding" if tied in OWN_SOURCE_EMBEDDING else "embedding",
        "target": "embedding",
        "softmax": "own_softmax" if tied in OWN_SOFTMAX else "embedding",
    }


def _roles(tied: str) -> dict[str, list[str]]:
    """The roles of every embedding."""
    tables = _tables(tied)
    return {name: [role for role in tables if tables[role] == name] for name in tables.values()}


def _content(subwords: SubwordModel) -> bytes:
    return subwords.model_path.read_bytes()


def _in_words(carried: Mapping[str, int], new: Mapping[str, int]) -> str:
    return ", ".join(
        f"{name.split('/')[0]} {carried[name]:,} carried over, {new[name]:,} new"
        for name in carried
    )
