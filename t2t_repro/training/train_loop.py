"""The loop: batches in, updates out; checkpoints, dev evaluation and signals in between."""

import contextlib
import dataclasses
import math
import signal
import time
from typing import Any, Protocol

import tensorflow as tf
from absl import logging

from t2t_repro.data.batches import Batches
from t2t_repro.errors import UserError, reason_of
from t2t_repro.training.checkpoints import Checkpoints
from t2t_repro.training.loss_spikes import LossSpikes
from t2t_repro.training.metrics_log import MetricsLog
from t2t_repro.training.optimizer import LARGEST_NORM
from t2t_repro.training.run_state import DevScores, RunState, TrainingSchedule
from t2t_repro.training.signals import Preempted, StopRequest, stop_requested
from t2t_repro.training.train_step import StepResult, TrainStep
from t2t_repro.training.workers import Workers


class Evaluation(Protocol):
    """Scores the dev set with the current weights, several workers together."""

    def share(self) -> Any:
        """Returns what this worker finds of its share of the dev set; JSON can hold it."""

    def scores(self, shares: list[Any]) -> DevScores:
        """Returns the scores, the same on every worker, from the shares of all in their order."""


@dataclasses.dataclass
class TrainLoop:
    """Trains until the last step, a signal, or until patience ends.

    Where the run stands goes from method to method as a RunState; the loop itself remembers only
    what is under way, and who has asked it to stop.

    Attributes:
        step: the update.
        batches: of the training set.
        checkpoints: written here.
        pace: what happens when.
        evaluation: of the dev set.
        workers: that train together.
        journal: that is told everything.
        stopped_by: the signal that ended `run` before its time, or None.
    """

    step: TrainStep
    batches: Batches
    checkpoints: Checkpoints
    pace: TrainingSchedule
    evaluation: Evaluation
    workers: Workers
    journal: MetricsLog

    def __post_init__(self) -> None:
        # An update whose result has not been looked at, and may still be under way: where the run
        # stood before it, the result, and the batch's tokens and slots.
        self._unread: tuple[RunState, StepResult, int, int] | None = None
        self._spikes = LossSpikes()
        self._stop = StopRequest()
        self._stop_at = math.inf
        self.stopped_by: int | None = None

    def run(self, state: RunState) -> RunState:
        """Trains on from `state`.

        Returns:
            the state at the end, of which there is a checkpoint.

        Raises:
            UserError: the loss stopped being finite, or the gradient became too long.
        """
        with stop_requested() as self._stop:
            if self.pace.owes_evaluation(state):
                state = self._evaluate(state)
            while not self._ends(state):
                state = self._train_epoch(state)
            self._save(state)
            self._say_why_it_ends(state)
        return state

    def _train_epoch(self, state: RunState) -> RunState:
        """Trains to the end of the epoch, or of the run."""
        step = self.step
        batches = self._wait_for_epoch(state)
        # Several workers stop together, whichever has been asked to.
        all_have_theirs = all(self.workers.gather(batches is not None))
        if batches is None or not all_have_theirs:
            self._stop_at = state.step
            return state
        for source, target, capacity in batches:
            result = step(state.step, source, target, capacity, self._stop())
            # A GPU computes still, and has the next update waiting: what is read is the last one.
            self._read_last_update()
            tokens = self.batches.count_tokens(state.epoch, state.batch)
            self._unread = state, result, tokens, step.micro_batches * int(capacity.numpy().sum())
            state = state.after_update()
            if self.pace.evaluates(state.step):
                state = self._evaluate(state)
            if self.checkpoints.is_due(state.step):
                self._save(state)
            if self._ends(state):
                return state
        return state.after_epoch()

    def _wait_for_epoch(self, state: RunState) -> tf.data.Dataset | None:
        """The batches of an epoch; None if a signal came while its subwords were made."""
        try:
            with self._stop.interrupting():
                return self.batches.epoch(state.epoch, state.batch, self.step.own_slices)
        except Preempted:
            return None
        except UserError:
            # One to all processes has ended those that make them, too.
            if not self._stop():
                raise
            return None

    def _evaluate(self, state: RunState) -> RunState:
        self._read_last_update()
        began = time.monotonic()
        share = None
        with self.journal.evaluating(), self.step.average.in_place():
            with contextlib.suppress(Preempted), self._stop.interrupting():
                share = self.evaluation.share()
            shares = self.workers.gather(share)
            if None in shares:
                # It may take longer than there is time; the run that goes on begins with it.
                self._stop_at = state.step
                return state.awaiting_evaluation()
            scores = self.evaluation.scores(shares)
        self.journal.evaluation(state.step, scores, time.monotonic() - began)
        evaluated = state.after_evaluation(scores, self.pace.criterion)
        if not evaluated.stale:
            self.checkpoints.save_best(evaluated)
        return evaluated

    def _save(self, state: RunState) -> None:
        self._read_last_update()
        # What the checkpoint holds is not made again, and so has to be reported before.
        self.journal.flush()
        self.checkpoints.save(state)

    def _read_last_update(self) -> None:
        """Looks at the result of the update made last, and reports it, once."""
        if not self._unread:
            return
        (before, result, tokens, capacity), self._unread = self._unread, None
        self._check_usable(before, result)
        step = before.step + 1
        if result.stop_votes:
            # A worker that writes a checkpoint reads this before the next update, another after it.
            self._stop_at = min(self._stop_at, step + 1)
        self._spikes.observe(step, float(result.loss))
        self.journal.update(step, result, tokens, capacity)

    def _check_usable(self, before: RunState, result: StepResult) -> None:
        if result.usable:
            return
        loss, norm = float(result.loss), float(result.gradient_norm)
        is_finite = math.isfinite(loss) and math.isfinite(norm)
        expected = f"a norm of at most {LARGEST_NORM:g}" if is_finite else "finite numbers"
        newest = self.checkpoints.newest or "none was written yet"
        raise UserError(
            f"the loss is {loss:g} and the gradient's norm {norm:g} at step {before.step + 1} "
            f"(epoch {before.epoch}, batch {before.batch}), expected {expected}: lower the "
            "learning rate or bind adam.clip_norm, then start again; the last checkpoint is intact "
            f"({newest}); {self._keep_bad_batch(before)}."
        )

    def _keep_bad_batch(self, before: RunState) -> str:
        """Says what can be done with it: that it cannot be written is not what went wrong."""
        source, target, _ = next(iter(self.batches.epoch(before.epoch, before.batch)))
        try:
            batch = self.checkpoints.save_bad_batch(before, source, target)
        except (OSError, UserError) as error:
            return f"the batch could not be kept to run it again: {reason_of(error).rstrip('.')}"
        return f"python -m t2t_repro.trainer --replay={batch} runs the batch again"

    def _ends(self, state: RunState) -> bool:
        return self.pace.is_over(state) or self._is_stopped(state)

    def _is_stopped(self, state: RunState) -> bool:
        """Whether signals end the run here: several workers end after the same update."""
        return self._stop() if self.workers.count == 1 else state.step >= self._stop_at

    def _say_why_it_ends(self, state: RunState) -> None:
        if self.pace.is_out_of_patience(state):
            logging.info(
                "train: dev %s has not improved in %d evaluations", state.judged_by, state.stale
            )
        is_unfinished = state.awaits_evaluation or not self.pace.is_over(state)
        if is_unfinished and self._is_stopped(state):
            # A worker that another's signal has stopped says SIGTERM.
            self.stopped_by = self._stop.number or signal.SIGTERM
            logging.info(
                "train: stopped by a signal after step %d; the same command goes on from there",
                state.step,
            )
