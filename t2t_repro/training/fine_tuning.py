"""Starts a run from another model's weights, `train.init_from`; chooses the weights to update.

The optimizer, its schedule and the number of updates start at zero. Of the tables with a row per
subword (the embeddings and the softmax), rows of subwords in both vocabularies are copied; the
others keep their initialisation. All other weights must have the same sizes.

Of parts that `TrainStep.frozen` names, Keras's `trainable` stays True: only the update gets fewer
variables.
"""

from collections.abc import Sequence
from os.path import abspath, expanduser, relpath
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from absl import logging
from numpy.typing import NDArray

from t2t_repro.errors import UserError
from t2t_repro.model.settings import OWN_SOFTMAX, OWN_SOURCE_EMBEDDING
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.checkpoint_folder import CheckpointFolder
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.model_json import differing_sizes
from t2t_repro.runs.records import Ancestor, read_ancestry, weights_hash
from t2t_repro.runs.weights import name_of, named_values
from t2t_repro.text.subword_model import SubwordPair, matching_ids
from t2t_repro.training.settings import TrainSettings

# Arguments of the Transformer that may differ from the initial model's.
_MAY_DIFFER = ("vocab_size", "source_vocab_size", "tied_embeddings", "dtype", "trainable")

# The side of a `SubwordPair` that a table belongs to, by the table's role.
_SIDES = {"source": 0, "target": 1, "softmax": 1}


def initial_model(directory: ModelDirectory, settings: TrainSettings) -> "InitialModel | None":
    """Finds the model that a run starts from.

    Returns:
        the model; None if the run resumes, or starts from random weights.

    Raises:
        UserError: `train.init_checkpoint` is bound without `train.init_from`, the run has begun
            without `train.init_from`, or `InitialModel` raises it.
    """
    init_from, checkpoint = settings.init_from, settings.init_checkpoint
    if init_from is None:
        if checkpoint is not None:
            problem = f"train.init_checkpoint = {checkpoint!r}, but train.init_from is not bound"
            raise UserError(f"{problem}: bind it to the model directory of that checkpoint.")
        return None
    if not CheckpointFolder(directory.checkpoints).expected_steps():
        # A new run. Path.expanduser would raise an error for an unknown user's name.
        return InitialModel(Path(expanduser(init_from)), checkpoint)
    if not read_ancestry(directory.ancestry_json):
        problem = f"{directory.path} has a run that began without train.init_from: leave it out"
        raise UserError(f"{problem}, or give another --model_dir to start from {init_from}.")
    return None


class InitialModel:
    """The model directory and checkpoint that a run starts from.

    The constructor computes nothing with TensorFlow: devices may not be chosen yet.

    Args:
        model_dir: directory of a training run or an imported model.
        checkpoint: see `ModelDirectory.checkpoint`.

    Attributes:
        directory: the model directory.
        checkpoint: its path from the directory, e.g. "best/step-2000".
        subwords: subword models of source and target.

    Raises:
        UserError: the directory does not have this checkpoint, or lacks a file.
    """

    def __init__(self, model_dir: str | Path, checkpoint: str | None = None) -> None:
        self.directory = ModelDirectory(model_dir)
        try:
            path = self.directory.checkpoint(checkpoint)
            self._sizes = self.directory.sizes()
            self.subwords = self.directory.subwords()
        except UserError as error:
            # The error names flags of the commands; here the user has bound settings.
            message = str(error).replace("--checkpoint", "train.init_checkpoint")
            message = message.replace("--model_dir", "train.init_from")
            raise UserError(f"train.init_from: {message}") from error
        self.checkpoint = relpath(path, self.directory.path)

    def check_fits(self, model: Transformer) -> None:
        """Checks that a model, built or not, can start from these weights.

        Raises:
            UserError: the model has other sizes, or ties tables that are not tied in these weights.
        """
        if differing := differing_sizes(self._sizes, model, ignored=_MAY_DIFFER):
            problem = f"train.init_from is a model of other sizes ({'; '.join(differing)})"
            raise UserError(f"{problem}: bind its sizes, see {self.directory.config_gin}.")
        tied, initial_tied = model.tied_embeddings, self._sizes["tied_embeddings"]
        initial_tables = _table_of_role(initial_tied)
        for roles in _roles_of_table(tied).values():
            # One table cannot be copied from two.
            if len({initial_tables[role] for role in roles}) > 1:
                problem = f"Transformer.tied_embeddings = {tied!r} ties {' and '.join(roles)}"
                reason = f"which were trained apart in {self.directory.path}"
                raise UserError(f"{problem}, {reason}: bind {initial_tied!r} here, too.")

    def copy_weights_to(self, model: Transformer, subwords: SubwordPair) -> Ancestor:
        """Copies the weights into a built model: of tables, the rows of subwords that both have.

        Args:
            model: has passed `check_fits`.
            subwords: its subword models.

        Returns:
            the initial model's entry in ancestry.json.

        Raises:
            UserError: the initial model's checkpoint cannot be loaded.
        """
        # It is only read, and need not take a GPU's memory.
        with tf.device("CPU:0"):
            initial = self.directory.load_model(self.checkpoint, "float32")
        weights = named_values(initial)
        copied, new = self._copy_rows(initial, model, subwords)
        for weight in model.trainable_variables:
            if name_of(weight) not in copied:
                weight.assign(weights[name_of(weight)])
        # "embedding/table" is logged as "embedding".
        rows = (f"{name.split('/')[0]} {copied[name]:,} copied, {new[name]:,} new" for name in new)
        message = "train: starts from the weights of %s, %s (train.init_from); rows of subwords: %s"
        logging.info(message, self.directory.path, self.checkpoint, ", ".join(rows))
        path = abspath(self.directory.path)
        return Ancestor(path, self.checkpoint, weights_hash(weights), copied, new)

    def _copy_rows(
        self, initial: Transformer, model: Transformer, subwords: SubwordPair
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Copies rows of tables, and of the softmax's bias, whose subwords both vocabularies have.

        Returns:
            for each variable, such as {"embedding/table": 31_000}, the number of subwords whose
            rows were copied; and in the same form, of those whose rows are new.
        """
        copied: dict[str, int] = {}
        new: dict[str, int] = {}
        initial_tables = _table_of_role(initial.tied_embeddings)
        for name, roles in _roles_of_table(model.tied_embeddings).items():
            # Any of the roles will do: those that share a table share ids, and `check_fits` makes
            # sure that the initial model has one table for them, too.
            role = roles[0]
            table = getattr(model, name).table
            initial_table = getattr(initial, initial_tables[role]).table
            wanted, existing = subwords[_SIDES[role]], self.subwords[_SIDES[role]]
            # For each id of this model the initial model's id of the same subword, or -1.
            matching = matching_ids(wanted, existing)
            is_same = wanted.model_path.read_bytes() == existing.model_path.read_bytes()
            # Of the same vocabulary, rows without a subword are copied too, uncounted: the softmax
            # scores them as well.
            rows = np.arange(min(table.shape[0], initial_table.shape[0])) if is_same else matching
            variables = [(table, initial_table)]
            # The bias of the logits has an entry per subword, as the softmax's table has a row.
            bias, initial_bias = model.logits_bias, initial.logits_bias
            if "softmax" in roles and bias is not None and initial_bias is not None:
                variables.append((bias, initial_bias))
            for variable, initial_variable in variables:
                _set_rows(variable, initial_variable, rows)
                copied[name_of(variable)] = int((matching >= 0).sum())
                new[name_of(variable)] = int((matching < 0).sum())
        return copied, new


def _set_rows(variable: keras.Variable, initial: keras.Variable, rows: NDArray[np.int64]) -> None:
    """Sets row i of a variable to row rows[i] of the initial one; keeps it if rows[i] is negative.

    Rows after the last of `rows` are kept, too.
    """
    values = np.array(variable.numpy())  # A copy that may be changed.
    is_copied = rows >= 0
    values[: len(rows)][is_copied] = initial.numpy()[rows[is_copied]]
    variable.assign(values)


def _table_of_role(tied: str) -> dict[str, str]:
    """Returns the Transformer's attribute that holds the table of each role.

    For `tied_embeddings` "none", the source's is "own_source_embedding", the target's "embedding",
    and the softmax's "own_softmax".
    """
    return {
        "source": "own_source_embedding" if tied in OWN_SOURCE_EMBEDDING else "embedding",
        "target": "embedding",
        "softmax": "own_softmax" if tied in OWN_SOFTMAX else "embedding",
    }


def _roles_of_table(tied: str) -> dict[str, list[str]]:
    """Returns the roles of each table: for "all" {"embedding": ["source", "target", "softmax"]}."""
    tables = _table_of_role(tied)
    return {table: [role for role in tables if tables[role] == table] for table in tables.values()}


def updated_weights(model: keras.Model, frozen: Sequence[str]) -> list[keras.Variable]:
    """Returns the weights that an update changes, in the model's order.

    Args:
        model: such as the Transformer, built.
        frozen: names of the parts that an update does not change, as in the paths of variables:
            "encoder", "decoder/layer_0", "decoder/layer_0/memory_attention".

    Raises:
        UserError: the model does not have a part of this name.
    """
    # With a slash at the end of names and parts, "layer_1/" is not in "layer_10/".
    names = [f"{name_of(weight)}/" for weight in model.trainable_variables]
    for part in frozen:
        if not any(name.startswith(f"{part}/") for name in names):
            parts = ", ".join(dict.fromkeys(name.partition("/")[0] for name in names))
            expected = f"parts of the model: {parts}; or parts of these, such as 'encoder/layer_0'"
            raise UserError(f"TrainStep.frozen names {part!r}, expected {expected}.")
    frozen_prefixes = tuple(f"{part}/" for part in frozen)
    named_weights = zip(names, model.trainable_variables, strict=True)
    return [weight for name, weight in named_weights if not name.startswith(frozen_prefixes)]
