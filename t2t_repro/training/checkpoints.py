"""Checkpoints: all that a run needs to go on as if it had never stopped."""

import dataclasses
import json
from collections.abc import Sequence

import gin
import keras
import tensorflow as tf
from absl import logging

from t2t_repro.config.values import Count, validated
from t2t_repro.errors import UserError, reason_of
from t2t_repro.runs.checkpoint_folder import CheckpointFolder, damage
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.weights import check_same_weights
from t2t_repro.training.moving_average import MovingAverage
from t2t_repro.training.run_state import RunState

# The key of the state in a checkpoint, and of the frozen parts in the state.
_STATE = "state/.ATTRIBUTES/VARIABLE_VALUE"
_FROZEN = "frozen"


@gin.configurable("Checkpoints")
@validated
@dataclasses.dataclass(frozen=True)
class CheckpointSettings:
    """Settings of the checkpoints.

    Attributes:
        every_steps: how many updates there are from one checkpoint to the next.
        keep: how many are kept; averaging needs as many (paper, section 6.1: 5 and 20).

    Raises:
        UserError: a value is out of range.
    """

    every_steps: Count = 1000
    keep: Count = 20


@dataclasses.dataclass(eq=False)
class Checkpoints:
    """Writes, keeps and restores checkpoints in a model directory.

    `CheckpointFolder` says what a kill leaves behind.

    Attributes:
        directory: the model directory.
        model: the Transformer.
        optimizer: its optimizer.
        settings: how often, and how many.
        average: of the weights; left out of the checkpoint if it has no values.
        frozen: parts of the model that the optimizer does not update; see `StepSettings`.
        is_writer: whether this worker writes; the others only read.
    """

    directory: ModelDirectory
    model: keras.Model
    optimizer: keras.Optimizer
    settings: CheckpointSettings
    average: MovingAverage | None = None
    frozen: Sequence[str] = ()
    is_writer: bool = True

    def __post_init__(self) -> None:
        # TensorFlow cannot send text to other workers: only the writer's state is ever read.
        self._state = tf.Variable("", dtype=tf.string, trainable=False)
        parts = {"model": self.model, "optimizer": self.optimizer, "state": self._state}
        if self.average and self.average.values:
            parts["average"] = self.average
        self._checkpoint = tf.train.Checkpoint(**parts)
        self.frozen = sorted(self.frozen)
        self._last = CheckpointFolder(self.directory.checkpoints, self.settings.keep)
        self._best = CheckpointFolder(self.directory.best)
        self._saved: RunState | None = None

    @property
    def newest(self) -> str | None:
        """The path of the newest checkpoint, or None."""
        return self._last.newest

    def restore(self) -> RunState:
        """Restores the newest checkpoint, or returns the state of a new run.

        One that cannot be read is set aside with a warning, and the one before is restored. Nothing
        is assigned before all of a checkpoint has been read.

        Raises:
            UserError: the checkpoint is of another model, or none of several can be read.
        """
        step = self._newest_readable()
        if step is None:
            return RunState()
        path = self._last.prefix(step)
        # Keras keeps a constant rate, unlike a schedule, as a variable: the configured one counts.
        constant = getattr(self.optimizer, "_learning_rate", None)
        rate = float(constant.numpy()) if isinstance(constant, keras.Variable) else None
        try:
            state = json.loads(tf.train.load_checkpoint(path).get_tensor(_STATE))
            frozen = sorted(state.pop(_FROZEN, []))
            if frozen != self.frozen:
                # The optimizer's moments are those of the weights that were not frozen.
                raise ValueError(f"TrainStep.frozen = {frozen} there, {self.frozen} now")
            self._saved = RunState(**state)
            check_same_weights(self.model, path)
            self._checkpoint.restore(path).assert_consumed()
        except (AssertionError, LookupError, TypeError, ValueError, tf.errors.OpError) as error:
            raise UserError(
                f"{path} does not fit this model ({reason_of(error)}): give the gin file that it "
                "was trained with; or, to start from its weights alone, another --model_dir with "
                f"{self.directory.as_parent()}."
            ) from error
        if rate is not None:
            self.optimizer.learning_rate = rate
        return self._saved or RunState()

    def tidy(self) -> None:
        """Removes leftovers of an interrupted write.

        Call it after `restore`: a start that is refused deletes nothing.
        """
        if self.is_writer:
            self._last.tidy()
            self._best.tidy()

    def _newest_readable(self) -> int | None:
        """Returns the step of the newest checkpoint that can be read, or None without any."""
        unreadable: dict[int, str] = {}
        for step in reversed(self._last.expected()):
            reason = damage(self._last.prefix(step))
            if reason is None:
                for later, why in unreadable.items():
                    logging.warning(
                        f"the checkpoint {self._last.prefix(later)} cannot be read ({why}): set "
                        f"aside; going on from step {step}"
                    )
                    if self.is_writer:
                        self._last.set_aside(later)
                return step
            unreadable[step] = reason
        if unreadable:
            newest = max(unreadable)
            raise UserError(
                f"none of the {len(unreadable)} checkpoints in {self._last.path} can be read "
                f"({self._last.prefix(newest)}: {unreadable[newest]}): put back a copy, or delete "
                "the folder to start again."
            )
        return None

    def is_due(self, step: int) -> bool:
        """Returns whether a checkpoint is to be written after update `step`."""
        return step % self.settings.every_steps == 0

    def save(self, state: RunState) -> None:
        """Writes a checkpoint, unless the newest one is of the same state.

        Raises:
            UserError: it cannot be written; those before are intact.
        """
        if state != self._saved:
            self._write(self._last, state)
            self._saved = state

    def save_best(self, state: RunState) -> None:
        """Writes the checkpoint that is the best on the dev set, and deletes the one before.

        Raises:
            UserError: it cannot be written.
        """
        self._write(self._best, state)

    def _write(self, folder: CheckpointFolder, state: RunState) -> None:
        if not self.is_writer:
            return
        frozen = {_FROZEN: self.frozen} if self.frozen else {}
        self._state.assign(json.dumps(dataclasses.asdict(state) | frozen))
        folder.write(self._checkpoint, state.step)
