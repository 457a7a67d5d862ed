"""Checkpoints: all that a run needs to go on as if it had never stopped."""

import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import gin
import keras
import numpy as np
import tensorflow as tf
from absl import logging

from t2t_repro.config.values import Count, Range, validated
from t2t_repro.errors import UserError, reason_of
from t2t_repro.runs.checkpoint_folder import CheckpointFolder, damage
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.training.moving_average import MovingAverage
from t2t_repro.training.run_state import RunState

# Where the state of the run lies in a checkpoint, and what in it the optimizer does not update.
_STATE = "state/.ATTRIBUTES/VARIABLE_VALUE"
_FROZEN = "frozen"

_DO_NOT_FIT = (AssertionError, IndexError, TypeError, ValueError, RecursionError)


@gin.configurable(denylist=["directory", "model", "optimizer", "average", "is_writer", "frozen"])
@validated
class Checkpoints:
    """Writes, keeps and restores checkpoints in a model directory.

    See `CheckpointFolder` for what a kill leaves behind.

    Args:
        directory: the model directory.
        model: the Transformer.
        optimizer: its optimizer.
        average: of its weights; those without values are left out.
        every_steps: a checkpoint every so many updates.
        every_minutes: and whenever so many minutes have passed since the last one, or None.
        keep: how many are kept; averaging needs as many (paper, section 6.1: 5 and 20).
        is_writer: whether this process is the one of several that writes; another only reads.
        frozen: parts of the model that the optimizer does not update; see `TrainStep`.

    Attributes:
        variables: that a checkpoint holds.

    Raises:
        UserError: a number is too low.
    """

    def __init__(
        self,
        directory: ModelDirectory,
        model: keras.Model,
        optimizer: keras.Optimizer,
        average: MovingAverage | None = None,
        every_steps: Count = 1000,
        every_minutes: Annotated[float, Range(least=0, most=1e9)] | None = None,
        keep: Count = 20,
        is_writer: bool = True,
        frozen: Sequence[str] = (),
    ) -> None:
        self.every_steps = every_steps
        self.every_minutes = every_minutes
        self._keep = keep
        self._state = tf.Variable("", dtype=tf.string, trainable=False)
        parts = {"model": model, "optimizer": optimizer, "state": self._state}
        self.variables = [*model.variables, *optimizer.variables]
        if average and average.values:
            parts["average"] = average
            self.variables += average.values
        self._checkpoint = tf.train.Checkpoint(**parts)
        self._optimizer = optimizer
        self._directory = directory
        self._is_writer = is_writer
        # Not written where there are none, as checkpoints were before there could be.
        self._frozen = {_FROZEN: list(frozen)} if frozen else {}
        self._last = CheckpointFolder(directory.checkpoints, keep)
        self._best = CheckpointFolder(directory.best)
        self._bad = CheckpointFolder(directory.nonfinite)
        self._saved_at = time.monotonic()
        self._saved: RunState | None = None

    def restore(self) -> RunState:
        """Restores the newest checkpoint, or returns the state of a run that begins.

        One that cannot be read is set aside with a warning, and the one before is taken. Nothing
        is assigned before all of a checkpoint has been read.

        Raises:
            UserError: the checkpoint is of another model, or there are some and none can be read.
        """
        step = self._newest_readable()
        if step is None:
            return RunState()
        path = self._last.prefix(step)
        self._check_frozen(path)
        # Keras keeps a constant rate, no schedule, as a variable: what is configured now counts.
        constant = getattr(self._optimizer, "_learning_rate", None)
        rate = float(constant.numpy()) if isinstance(constant, keras.Variable) else None
        try:
            self._checkpoint.restore(path).assert_consumed()
            state = json.loads(self._state.numpy())
            state.pop(_FROZEN, None)
            self._saved = RunState.read(state)
        except (*_DO_NOT_FIT, tf.errors.OpError) as error:
            raise UserError(
                f"{path} does not fit this model ({reason_of(error)}): give the gin file that it "
                "was trained with; or, to start from its weights alone, another --model_dir with "
                f"{self._directory.as_parent()}."
            ) from error
        if rate is not None:
            self._optimizer.learning_rate = rate
        return self._saved

    def tidy(self) -> None:
        """Brings the folders to what a writer that was not killed would have left.

        Comes after `restore`: a start that is refused deletes nothing.
        """
        if self._is_writer:
            self._last.tidy()
            self._best.tidy()

    def _newest_readable(self) -> int | None:
        unreadable: dict[int, str] = {}
        for step in reversed(self._last.expected()):
            reason = damage(self._last.prefix(step))
            if reason is None:
                for later, why in unreadable.items():
                    logging.warning(
                        f"the checkpoint {self._last.prefix(later)} cannot be read ({why}): set "
                        f"aside; going on from step {step}"
                    )
                    if self._is_writer:
                        self._last.set_aside(later)
                return step
            unreadable[step] = reason
        if unreadable:
            newest = max(unreadable)
            raise UserError(
                f"none of the {len(unreadable)} checkpoints in {self._last.path} can be read "
                f"({self._last.prefix(newest)}: {unreadable[newest]}): put back a copy, or delete "
                "the folder to begin anew."
            )
        return None

    def _check_frozen(self, path: str) -> None:
        """Makes sure that the optimizer's moments will be those of the same weights."""
        try:
            state = json.loads(tf.train.load_checkpoint(path).get_tensor(_STATE))
            there = list(state.get(_FROZEN, []))
        except (*_DO_NOT_FIT, AttributeError, tf.errors.OpError):
            # What is wrong is said where all of it is read.
            return
        now = self._frozen.get(_FROZEN, [])
        if there != now:
            raise UserError(
                f"{path} is of a run with TrainStep.frozen = {there}, expected {now}: bind what "
                "was bound there; to start from its weights with a fresh optimizer, give another "
                f"--model_dir with {self._directory.as_parent()}."
            )

    def is_due(self, step: int) -> bool:
        """Returns whether a checkpoint is to be written after update `step`.

        By `every_minutes`, workers may differ: only the one that writes has to know.
        """
        minutes = (time.monotonic() - self._saved_at) / 60
        return step % self.every_steps == 0 or (
            self.every_minutes is not None and minutes >= self.every_minutes
        )

    def to_come(self, updates: int) -> int:
        """Returns how many more there will be at most, best/ and the one being written included.

        Args:
            updates: that are still to be made.
        """
        written = updates // self.every_steps + 1 if self.every_minutes is None else self._keep
        more = min(self._keep - len(self._last.steps()), written)
        # While one is written, those that it replaces are there.
        return max(more, 0) + (not self._best.steps()) + 1

    def save(self, state: RunState) -> None:
        """Writes a checkpoint, unless the newest one is of this very state.

        Raises:
            UserError: it cannot be written; those before are intact.
        """
        if state == self._saved:
            return
        self._write(self._last, state)
        self._saved_at = time.monotonic()
        self._saved = state

    def save_best(self, state: RunState) -> None:
        """Writes the checkpoint that is the best on the dev set, in place of the one before.

        Raises:
            UserError: it cannot be written.
        """
        self._write(self._best, state)

    def save_bad_batch(self, state: RunState, source: tf.Tensor, target: tf.Tensor) -> Path:
        """Writes a batch whose loss or gradient cannot be used, and the weights it came to.

        Args:
            state: of the run before the batch.
            source: [slices, rows, source_length], token ids.
            target: [slices, rows, target_length], token ids.

        Returns:
            the file; see `replay`.

        Raises:
            UserError: it cannot be written.
        """
        self._write(self._bad, state)
        path = Path(f"{self._bad.prefix(state.step)}.npz")
        if self._is_writer:
            np.savez_compressed(path, step=state.step, source=source, target=target)
        return path

    def _write(self, folder: CheckpointFolder, state: RunState) -> None:
        if not self._is_writer:
            return
        self._state.assign(json.dumps(dataclasses.asdict(state) | self._frozen))
        folder.write(self._checkpoint, state.step)

    @property
    def newest(self) -> str | None:
        """The path of the newest checkpoint, or None."""
        return self._last.newest
