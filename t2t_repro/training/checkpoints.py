"""Checkpoints: all that a run needs to go on as if it had never stopped."""

import dataclasses
import json

import keras
import tensorflow as tf
from absl import logging

from t2t_repro.errors import UserError, reason_of
from t2t_repro.runs.checkpoint_folder import CheckpointFolder, find_damage, set_aside
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.weights import check_same_weights
from t2t_repro.training.run_state import RunState
from t2t_repro.training.settings import CheckpointSettings
from t2t_repro.training.train_step import TrainStep

# The key of the state in a checkpoint, and of the frozen parts in the state.
_STATE = "state/.ATTRIBUTES/VARIABLE_VALUE"
_FROZEN = "frozen"


@dataclasses.dataclass(eq=False)
class Checkpoints:
    """Writes, keeps and restores checkpoints in a model directory.

    `CheckpointFolder` describes the files, also after the writer was killed.

    Attributes:
        directory: the model directory.
        step: the update: its model, optimizer and, if there is one, moving average are written.
        settings: how often checkpoints are written, and how many are kept.
        is_writer: whether this worker writes; the others only read.
    """

    directory: ModelDirectory
    step: TrainStep
    settings: CheckpointSettings
    is_writer: bool = True

    def __post_init__(self) -> None:
        # TensorFlow cannot send text to other workers: only the writer's state is ever read.
        self._state = tf.Variable("", dtype=tf.string, trainable=False)
        parts = {"model": self.step.model, "optimizer": self.step.optimizer, "state": self._state}
        if self.step.average.values:
            parts["average"] = self.step.average
        self._checkpoint = tf.train.Checkpoint(**parts)
        self._frozen = sorted(self.step.settings.frozen)
        self._last = CheckpointFolder(self.directory.checkpoints, self.settings.keep)
        self._best = CheckpointFolder(self.directory.best)
        self._saved_state: RunState | None = None

    @property
    def newest(self) -> str | None:
        """The path of the newest checkpoint, or None."""
        return self._last.newest

    def restore(self) -> RunState:
        """Restores model, optimizer and average from the newest checkpoint; returns its state.

        Without any, returns the state of a new run. One that cannot be read is set aside with a
        warning, and the one before is restored. Nothing is assigned before all of it has been read.

        Raises:
            UserError: the checkpoint is of another model or of other frozen parts, none of the
                checkpoints can be read, or there is only the best one of a longer run.
        """
        newest_step = self._newest_readable()
        if newest_step is None:
            # One of an earlier step is of a run that was killed before its first checkpoint.
            if max(self._best.steps(), default=0) > self.settings.every_steps:
                problem = f"{self._best.newest} is of a run whose checkpoints are gone"
                raise UserError(f"{problem}; a new one deletes it: give another --model_dir.")
            return RunState()
        path = self._last.prefix(newest_step)
        # Keras keeps a constant rate in a variable, which the checkpoint overwrites: the gin file's
        # rate is assigned again at the end. Only `_learning_rate` tells it from a schedule.
        rate = getattr(self.step.optimizer, "_learning_rate", None)
        configured_rate = float(rate.numpy()) if isinstance(rate, keras.Variable) else None
        try:
            state = self._read_state(path)
            check_same_weights(self.step.model, path)
            self._checkpoint.restore(path).assert_consumed()
        except (AssertionError, LookupError, TypeError, ValueError, tf.errors.OpError) as error:
            raise UserError(
                f"{path} does not fit this model ({reason_of(error)}): give the gin file that it "
                "was trained with; or, to start from its weights alone, another --model_dir with "
                f"{self.directory.init_from_binding()}."
            ) from error
        if configured_rate is not None:
            self.step.optimizer.learning_rate = configured_rate
        self._saved_state = state
        return state

    def _read_state(self, path: str) -> RunState:
        """Reads the state of the run from a checkpoint.

        Raises:
            ValueError: the checkpoint is of a run with other frozen parts.
        """
        fields = json.loads(tf.train.load_checkpoint(path).get_tensor(_STATE))
        # Old checkpoints lack it: nothing was frozen.
        frozen = sorted(fields.pop(_FROZEN, []))
        if frozen != self._frozen:
            # The optimizer's moments are those of the weights that were not frozen.
            raise ValueError(f"TrainStep.frozen = {frozen} there, {self._frozen} now")
        return RunState(**fields)

    def tidy(self) -> None:
        """Removes leftovers of an interrupted write, and checkpoints that are not to be kept.

        Call it after `restore`: if that raises an error, nothing has been deleted. A worker that
        only reads removes nothing.
        """
        if self.is_writer:
            self._last.tidy()
            self._best.tidy()

    def _newest_readable(self) -> int | None:
        """Finds the newest checkpoint that can be read, and sets newer ones aside.

        Returns:
            its step, or None if there are no checkpoints.

        Raises:
            UserError: there are checkpoints, but none can be read; none is set aside.
        """
        unreadable: list[tuple[str, str]] = []  # Path and reason, the newest first.
        for step in reversed(self._last.expected_steps()):
            path = self._last.prefix(step)
            reason = find_damage(path)
            if reason is None:
                self._set_aside_all(unreadable, step)
                return step
            unreadable.append((path, reason))
        if unreadable:
            newest, reason = unreadable[0]
            problem = f"none of the {len(unreadable)} checkpoints in {self._last.path} can be read"
            fix = "put back a copy, or start again in another --model_dir"
            raise UserError(f"{problem} ({newest}: {reason}): {fix}.")
        return None

    def _set_aside_all(self, unreadable: list[tuple[str, str]], readable_step: int) -> None:
        """Warns of unreadable checkpoints, given by path and reason; the writer sets them aside."""
        for path, reason in unreadable:
            problem = f"the checkpoint {path} cannot be read ({reason})"
            logging.warning(f"{problem}: set aside; going on from step {readable_step}")
            if self.is_writer:
                set_aside(path)

    def save(self, state: RunState) -> None:
        """Writes a checkpoint, unless the newest one is of the same state.

        Raises:
            UserError: the disk is full or fails.
        """
        if state != self._saved_state:
            self._write(self._last, state)
            self._saved_state = state

    def save_best(self, state: RunState) -> None:
        """Writes the checkpoint with the best dev evaluation, and deletes the previous one.

        Raises:
            UserError: the disk is full or fails.
        """
        self._write(self._best, state)

    def _write(self, folder: CheckpointFolder, state: RunState) -> None:
        """Writes a checkpoint of a state into a folder; does nothing if this worker only reads."""
        if self.is_writer:
            self._state.assign(json.dumps(dataclasses.asdict(state) | {_FROZEN: self._frozen}))
            folder.write(self._checkpoint, state.step)
