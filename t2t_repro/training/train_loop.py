"""The loop: batches in, updates out; checkpoints, dev evaluation and signals in between."""

import contextlib
import math
import signal
import time
from dataclasses import dataclass

import tensorflow as tf
from absl import logging

from t2t_repro.data.batches import Batches
from t2t_repro.errors import UserError
from t2t_repro.training.checkpoints import Checkpoints
from t2t_repro.training.dev_evaluation import DevEvaluation
from t2t_repro.training.metrics_log import MetricsLog
from t2t_repro.training.run_state import RunState
from t2t_repro.training.schedule import TrainingSchedule
from t2t_repro.training.signals import Interrupted, StopRequest, stop_requested
from t2t_repro.training.train_step import StepResult, TrainStep
from t2t_repro.training.workers import Workers


@dataclass
class TrainLoop:
    """Trains until the last step, a signal, or the end of patience.

    A signal ends the run after the update under way; it interrupts a dev evaluation and the
    preparation of an epoch. The state of the run is passed from method to method; the loop itself
    remembers only the update under way, and whether it has been asked to stop.

    Attributes:
        step: the update.
        batches: the batches of the training set.
        checkpoints: writes the checkpoints of the run.
        schedule: the run's schedule.
        evaluation: scores the dev set.
        workers: the processes that train together.
        log: the run's log.
        stopped_by: the signal that ended `run` before its time, or None.
    """

    step: TrainStep
    batches: Batches
    checkpoints: Checkpoints
    schedule: TrainingSchedule
    evaluation: DevEvaluation
    workers: Workers
    log: MetricsLog

    def __post_init__(self) -> None:
        # The update whose result has not been read yet, and which may still be under way: the state
        # before it, its result, its tokens, and the number of vectors that it computes.
        self._unread_update: tuple[RunState, StepResult, int, int] | None = None
        self._stop = StopRequest()
        # The step at which several workers stop together.
        self._stop_at = math.inf
        self.stopped_by: int | None = None

    def run(self, state: RunState) -> RunState:
        """Trains on from `state`.

        Returns:
            the state at the end; a checkpoint of it has been written.

        Raises:
            UserError: the loss or the gradient is not finite, or a file cannot be written.
        """
        with stop_requested() as self._stop:
            if self.schedule.owes_evaluation(state):
                state = self._evaluate(state)
            while not self._ends(state):
                state = self._train_epoch(state)
            self._save(state)
            self._log_end(state)
        return state

    def _train_epoch(self, state: RunState) -> RunState:
        """Trains to the end of the epoch, or of the run; returns the state there."""
        batches = self._wait_for_epoch(state)
        # A worker without them was asked to stop: then all workers stop, before this epoch.
        all_have_batches = all(self.workers.gather(batches is not None))
        if batches is None or not all_have_batches:
            self._stop_at = state.step
            return state
        for source, target, capacity in batches:
            result = self.step(state.step, source, target, capacity, self._stop.is_made())
            # Reads the result of the previous update, while the device computes this one.
            self._read_last_update()
            tokens = self.batches.count_tokens(state.epoch, state.batch)
            total_capacity = self.step.micro_batches * int(capacity.numpy().sum())
            self._unread_update = state, result, tokens, total_capacity
            state = state.after_update()
            if self.schedule.evaluates(state.step):
                state = self._evaluate(state)
            elif state.step in self.schedule.preview_at:
                self._evaluate(state, preview=True)
            if state.step % self.checkpoints.settings.every_steps == 0:
                self._save(state)
            if self._ends(state):
                return state
        return state.after_epoch()

    def _wait_for_epoch(self, state: RunState) -> tf.data.Dataset | None:
        """Returns the rest of the epoch's batches; None if a signal came during preparation."""
        try:
            with self._stop.interrupting():
                return self.batches.epoch(state.epoch, state.batch, self.step.own_micro_batches)
        except (Interrupted, UserError):
            # A signal to the process group also ends the processes that prepare the epoch, which
            # is a UserError here.
            if not self._stop.is_made():
                raise
            return None

    def _evaluate(self, state: RunState, preview: bool = False) -> RunState:
        """Scores the dev set and reports it; saves a checkpoint if it is the best so far.

        Args:
            state: the state after the last update.
            preview: whether only three sentences are translated. The run does not depend on it: no
                checkpoint is saved, and the caller leaves the returned state unused.

        Returns:
            the state with these scores; with the evaluation still due if a signal interrupted it.
        """
        self._read_last_update()
        began = time.monotonic()
        share = None  # It stays None if a signal interrupts the evaluation.
        with self.log.evaluating(), self.step.average.replacing_weights():
            with contextlib.suppress(Interrupted), self._stop.interrupting():
                share = self.evaluation.compute_share(preview)
            shares = self.workers.gather(share)
            if None in shares:
                # There may be no time to finish: a resumed run begins with this evaluation.
                self._stop_at = state.step
                return state.awaiting_evaluation()
            scores = self.evaluation.scores(shares)
        self.log.report_evaluation(state.step, scores, time.monotonic() - began)
        evaluated = state.after_evaluation(scores, self.schedule.criterion)
        if not evaluated.stale and not preview:  # Not stale: it is the best so far.
            self.checkpoints.save_best(evaluated)
        return evaluated

    def _save(self, state: RunState) -> None:
        """Writes all reports so far, then a checkpoint."""
        self._read_last_update()
        # A resumed run does not repeat the updates before a checkpoint: they are reported first.
        self.log.flush()
        self.checkpoints.save(state)

    def _read_last_update(self) -> None:
        """Reads the result of the last update and reports it, once.

        Raises:
            UserError: the loss or the gradient's norm is not finite.
        """
        if not self._unread_update:
            return
        before, result, tokens, total_capacity = self._unread_update
        self._unread_update = None
        step = before.step + 1
        if not result.usable:
            loss, norm = float(result.loss), float(result.gradient_norm)
            place = f"step {step} (epoch {before.epoch}, batch {before.batch})"
            problem = f"the loss is {loss:g} and the gradient's norm {norm:g} at {place}"
            fix = "lower the learning rate or bind adam.clip_norm, then start again"
            # Weights that are not finite were never written: an unusable update changes none.
            newest = self.checkpoints.newest or "none was written yet"
            intact = f"the last checkpoint is intact ({newest})"
            raise UserError(f"{problem}, expected finite numbers: {fix}; {intact}.")
        if result.stop_votes:
            # Any worker's vote. All workers make one more update: it may be under way already.
            self._stop_at = min(self._stop_at, step + 1)
        self.log.report_update(step, result, tokens, total_capacity)

    def _ends(self, state: RunState) -> bool:
        """Returns whether the run ends here: by its schedule, or by a signal.

        A signal stops a single worker at once, and several workers at the step `_stop_at`.
        """
        stops = self._stop.is_made() if self.workers.count == 1 else state.step >= self._stop_at
        return stops or self.schedule.is_over(state)

    def _log_end(self, state: RunState) -> None:
        """Logs why the run ends, and sets `stopped_by` if a signal ends it."""
        if self.schedule.is_out_of_patience(state):
            judged_by = state.metric if state.criterion == "score" else "nll"
            logging.info("train: dev %s has not improved in %d evaluations", judged_by, state.stale)
        if state.awaits_evaluation or not self.schedule.is_over(state):
            # Only a signal ends a run before its time; another worker's is reported as SIGTERM.
            self.stopped_by = self._stop.number or signal.SIGTERM
            message = "train: stopped by a signal after step %d; the same command resumes the run"
            logging.info(message, state.step)
