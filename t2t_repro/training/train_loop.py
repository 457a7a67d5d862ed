"""The loop: batches in, updates out; checkpoints, dev evaluation and signals in between."""

import contextlib
import dataclasses
import math
import re
import signal
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import gin
import numpy as np
import tensorflow as tf
from absl import logging
from numpy.typing import NDArray

from t2t_repro.data.batches import Batches
from t2t_repro.errors import UserError
from t2t_repro.training.checkpoints import Checkpoints, RunState
from t2t_repro.training.journal import Journal
from t2t_repro.training.loss_spikes import LossSpikes
from t2t_repro.training.preemption import Preempted, StopRequest, stop_requested
from t2t_repro.training.train_step import StepResult, TrainStep
from t2t_repro.training.workers import Workers


class DevScores(NamedTuple):
    """What a dev evaluation found.

    Attributes:
        nll: negative log-likelihood per target token, teacher forcing, in nats.
        score: of beam search's translations, by the experiment's metric; more is better.
        samples: some of them, as Markdown.
        metric: the metric's name.
        images: name and pixels, [height, width, 3] uint8.
    """

    nll: float
    score: float
    samples: str
    metric: str = "BLEU"
    images: Sequence[tuple[str, NDArray[np.uint8]]] = ()


class Evaluation(Protocol):
    """Scores the dev set with the current weights, several workers together."""

    def share(self) -> Any:
        """What this worker finds of its share of the dev set; JSON can hold it."""

    def scores(self, shares: list[Any]) -> DevScores:
        """The scores, the same on every worker, from the shares of all in their order."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Pace:
    """What happens when, in optimizer updates.

    Attributes:
        steps: the last step of the run.
        report_every: how often scalars are written.
        evaluate_every: how often the dev set is scored.
        patience: the run ends after so many dev evaluations without a better dev nll, or None.
    """

    steps: int = 100_000
    report_every: int = 50
    evaluate_every: int = 1000
    patience: int | None = None


class _Unread(NamedTuple):
    """An update whose result has not been looked at; it may still be under way.

    Attributes:
        before: where the run stood.
        result: of the update.
        tokens: real source + target tokens of the batch.
        padding_share: of the batches since the last report.
    """

    before: RunState
    result: StepResult
    tokens: int
    padding_share: float


class TrainLoop:
    """Trains until the last step, a signal, or until patience ends.

    Args:
        step: the update.
        batches: of the training set.
        checkpoints: written and restored here.
        pace: what happens when.
        evaluation: of the dev set.
        workers: that train together.

    Attributes:
        stopped_by: the signal that ended `run` before its time, or None.
    """

    def __init__(
        self,
        step: TrainStep,
        batches: Batches,
        checkpoints: Checkpoints,
        pace: Pace,
        evaluation: Evaluation,
        workers: Workers,
    ) -> None:
        self._step = step
        self._batches = batches
        self._checkpoints = checkpoints
        self._pace = pace
        self._evaluation = evaluation
        self._workers = workers
        self._unread: _Unread | None = None
        self._spikes = LossSpikes()
        self._stop = StopRequest()
        self._stop_at = math.inf
        self.stopped_by: int | None = None

    def compile(self) -> None:
        """Compiles every shape before the first step, and says what it took."""
        began = time.monotonic()
        compiled = self._step.compile(self._batches.shapes)
        seconds = time.monotonic() - began
        logging.info("train: compiled %d shapes with XLA in %.1f s", compiled, seconds)

    def run(self, state: RunState, journal: Journal) -> RunState:
        """Trains on from `state`.

        Returns:
            the state at the end, of which there is a checkpoint.

        Raises:
            UserError: the loss stopped being finite.
        """
        with stop_requested() as self._stop:
            if state.awaits_evaluation:
                state = self._evaluate_dev(state, journal)
            while not self._ends(state):
                slices, own = self._step.slices, self._step.own_slices
                for source, target in self._batches.epoch(state.epoch, state.batch, slices, own):
                    state = self._train_on(state, source, target, journal)
                    if self._ends(state):
                        break
                else:
                    state = dataclasses.replace(state, epoch=state.epoch + 1, batch=0)
            self._report(journal)
            self._save(state, journal)
            if self._is_stopped(state) and (state.awaits_evaluation or not self._is_over(state)):
                # A worker that another's signal has stopped says SIGTERM.
                self.stopped_by = self._stop.number or signal.SIGTERM
                logging.info("train: stopped by a signal after step %d", state.step)
        return state

    def _train_on(
        self,
        state: RunState,
        source: tf.Tensor,
        target: tf.Tensor,
        journal: Journal,
    ) -> RunState:
        result = self._step(state.step, source, target, self._stop())
        # A GPU computes still, and has the next update waiting: what is read is the last one.
        self._report(journal)
        tokens, padded = self._batches.count_tokens(state.epoch, state.batch, self._step.slices)
        real, all_cells = state.tokens + tokens, state.padded_tokens + padded
        share = 1.0 - real / all_cells
        self._unread = _Unread(state, result, tokens, share)
        state = dataclasses.replace(state, step=state.step + 1, batch=state.batch + 1)
        begins_anew = journal.is_reported(state.step)
        state = dataclasses.replace(
            state,
            tokens=0 if begins_anew else real,
            padded_tokens=0 if begins_anew else all_cells,
        )
        if state.step % self._pace.evaluate_every == 0:
            self._report(journal)
            state = self._evaluate_dev(state, journal)
        if self._checkpoints.is_due(state.step):
            self._report(journal)
            self._save(state, journal)
        return state

    def _save(self, state: RunState, journal: Journal) -> None:
        # What the checkpoint holds is not made again, and so has to be reported before.
        journal.flush()
        self._checkpoints.save(state)

    def _report(self, journal: Journal) -> None:
        """Reads the update made last, if that has not been done."""
        if self._unread:
            unread, self._unread = self._unread, None
            self._check_finite(unread)
            step = unread.before.step + 1
            if unread.result.stop_votes:
                # A worker that writes a checkpoint reads this before the next update, another
                # after it.
                self._stop_at = min(self._stop_at, step + 1)
            self._spikes.observe(step, float(unread.result.loss))
            journal.update(step, unread.result, unread.tokens, unread.padding_share)

    def _ends(self, state: RunState) -> bool:
        return self._is_over(state) or self._is_stopped(state)

    def _is_stopped(self, state: RunState) -> bool:
        """Whether signals end the run here: several workers end after the same update."""
        return self._stop() if self._workers.count == 1 else state.step >= self._stop_at

    def _is_over(self, state: RunState) -> bool:
        if self._pace.patience is not None and state.stale >= self._pace.patience:
            logging.info("train: dev nll has not improved in %d evaluations", state.stale)
            return True
        return state.step >= self._pace.steps

    def _evaluate_dev(self, state: RunState, journal: Journal) -> RunState:
        began = time.monotonic()
        share = None
        with contextlib.suppress(Preempted), self._stop.interrupting():
            share = self._evaluation.share()
        shares = self._workers.gather(share)
        if None in shares:
            # It may take longer than there is time; the run that goes on begins with it.
            self._stop_at = state.step
            return dataclasses.replace(state, awaits_evaluation=True)
        scores = self._evaluation.scores(shares)
        perplexity = math.exp(min(scores.nll, 50.0))
        logging.info(
            "step %d: dev nll %.4f, perplexity %.3f, %s %.2f (%.0f s)",
            state.step,
            scores.nll,
            perplexity,
            scores.metric,
            scores.score,
            time.monotonic() - began,
        )
        tag = re.sub(r"\W+", "_", scores.metric.lower())
        journal.scalars(
            {"dev/nll": scores.nll, "dev/perplexity": perplexity, f"dev/{tag}": scores.score},
            state.step,
        )
        journal.text("dev/translations", scores.samples, state.step)
        for name, pixels in scores.images:
            journal.image(f"dev/{name}", pixels, state.step)
        is_better = scores.nll < state.best_nll
        state = dataclasses.replace(
            state,
            best_nll=scores.nll if is_better else state.best_nll,
            stale=0 if is_better else state.stale + 1,
            awaits_evaluation=False,
        )
        if scores.score > state.best_score:
            state = dataclasses.replace(state, best_score=scores.score)
            self._checkpoints.save_best(state)
        journal.restart_clock()
        return state

    def _check_finite(self, unread: _Unread) -> None:
        result, before = unread.result, unread.before
        if math.isfinite(float(result.loss)) and math.isfinite(float(result.gradient_norm)):
            return
        newest = self._checkpoints.newest or "none was written yet"
        whole = next(iter(self._batches.epoch(before.epoch, before.batch, self._step.slices)))
        batch = self._checkpoints.save_bad_batch(before, *whole)
        raise UserError(
            f"the loss is {float(result.loss)} and the gradient's norm "
            f"{float(result.gradient_norm)} at step {before.step + 1} (epoch {before.epoch}, "
            f"batch {before.batch}), expected finite numbers: lower the learning rate or bind "
            f"adam.clip_norm, then start again; the last checkpoint is intact ({newest}); "
            f"python -m t2t_repro.trainer --replay={batch} runs the batch again."
        )
