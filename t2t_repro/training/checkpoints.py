"""Checkpoints: all that a run needs to go on as if it had never stopped."""

import dataclasses
import json
import time
from pathlib import Path

import gin
import keras
import tensorflow as tf

from t2t_repro.errors import UserError


@dataclasses.dataclass(frozen=True)
class RunState:
    """Where a run stands. The input's whole state is `epoch` and `batch`.

    Attributes:
        step: optimizer updates so far.
        epoch: epochs finished.
        batch: batches taken of the current epoch.
        best_bleu: the best dev score so far, or -1: BLEU, or what DevEvaluation.metric is. (The
            name stands in every checkpoint.)
        best_nll: the least dev nll so far, in nats per token.
        stale: dev evaluations since then.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best_bleu: float = -1.0
    best_nll: float = float("inf")
    stale: int = 0


@gin.configurable(denylist=["model_dir", "model", "optimizer"])
class Checkpoints:
    """Writes, keeps and restores checkpoints below a model directory.

        model_dir/checkpoints/step-<n>.*    the last `keep`
        model_dir/best/step-<n>.*           the one with the best dev score

    TensorFlow writes a checkpoint under temporary names and renames it; the file `checkpoint`,
    which names the newest, is replaced last.

    Args:
        model_dir: the model directory.
        model: the Transformer.
        optimizer: its optimizer.
        every_steps: a checkpoint every so many updates.
        every_minutes: and whenever so many minutes have passed since the last one, or None.
        keep: how many are kept; averaging needs as many (paper, section 6.1: 5 and 20).
    """

    def __init__(
        self,
        model_dir: Path,
        model: keras.Model,
        optimizer: keras.Optimizer,
        every_steps: int = 1000,
        every_minutes: float | None = None,
        keep: int = 20,
    ) -> None:
        self.every_steps = every_steps
        self.every_minutes = every_minutes
        self._state = tf.Variable("", dtype=tf.string, trainable=False)
        self._checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, state=self._state)
        self._last, self._best = (
            tf.train.CheckpointManager(
                self._checkpoint, str(directory), max_to_keep=count, checkpoint_name="step"
            )
            for directory, count in ((model_dir / "checkpoints", keep), (model_dir / "best", 1))
        )
        self._saved_at = time.monotonic()
        self._saved_step = -1

    def restore(self) -> RunState:
        """Restores the newest checkpoint, or returns the state of a run that begins.

        Raises:
            UserError: the checkpoint is of another model, or damaged.
        """
        path = self._last.latest_checkpoint
        if path is None:
            return RunState()
        try:
            self._checkpoint.restore(path).assert_consumed()
        except (AssertionError, IndexError, ValueError, tf.errors.OpError) as error:
            reason = str(error).splitlines()[0]
            raise UserError(
                f"{path} does not fit this model ({reason}): give another --model_dir, or the "
                "gin file that the checkpoint was trained with."
            ) from error
        state = RunState(**json.loads(self._state.numpy()))
        self._saved_step = state.step
        return state

    def is_due(self, step: int) -> bool:
        """Whether a checkpoint should be written after update `step`."""
        minutes = (time.monotonic() - self._saved_at) / 60
        return step % self.every_steps == 0 or (
            self.every_minutes is not None and minutes >= self.every_minutes
        )

    def save(self, state: RunState) -> None:
        """Writes a checkpoint, unless the newest one is of this very step."""
        if state.step == self._saved_step:
            return
        self._state.assign(json.dumps(dataclasses.asdict(state)))
        self._last.save(checkpoint_number=state.step)
        self._saved_at = time.monotonic()
        self._saved_step = state.step

    def save_best(self, state: RunState) -> None:
        """Writes the checkpoint with the best dev score, in place of the one before."""
        self._state.assign(json.dumps(dataclasses.asdict(state)))
        self._best.save(checkpoint_number=state.step)

    @property
    def newest(self) -> str | None:
        """Path of the newest checkpoint."""
        return self._last.latest_checkpoint
