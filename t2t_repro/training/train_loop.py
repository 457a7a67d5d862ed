"""The loop: batches in, updates out; checkpoints, dev evaluation and signals in between."""

import dataclasses
import math
import re
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

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
from t2t_repro.vocabulary import PAD_ID


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
        batch: of the epoch.
        result: of the update.
        tokens: real source + target tokens of the batch.
        padding_share: of the batches since the last report.
        ids: source and target, [slices, rows, length] each.
    """

    before: RunState
    batch: int
    result: StepResult
    tokens: int
    padding_share: float
    ids: tuple[tf.Tensor, tf.Tensor]


class TrainLoop:
    """Trains until the last step, a signal, or until patience ends.

    Args:
        step: the update.
        batches: of the training set.
        checkpoints: written and restored here.
        pace: what happens when.
        evaluate: scores the dev set with the current weights.

    Attributes:
        stopped_by: the signal that ended `run` before its time, or None.
    """

    def __init__(
        self,
        step: TrainStep,
        batches: Batches,
        checkpoints: Checkpoints,
        pace: Pace,
        evaluate: Callable[[], DevScores],
    ) -> None:
        self._step = step
        self._batches = batches
        self._checkpoints = checkpoints
        self._pace = pace
        self._evaluate = evaluate
        self._unread: _Unread | None = None
        self._spikes = LossSpikes()
        self._stop = StopRequest()
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
            while not self._is_over(state) and not self._stop():
                for batch, (source, target) in enumerate(
                    self._batches.epoch(state.epoch, state.batch, self._step.slices), state.batch
                ):
                    state = self._train_on(state, batch, source, target, journal)
                    if self._is_over(state) or self._stop():
                        break
                else:
                    state = dataclasses.replace(state, epoch=state.epoch + 1, batch=0)
            self._report(journal)
            self._save(state, journal)
            if self._stop() and (state.awaits_evaluation or not self._is_over(state)):
                self.stopped_by = self._stop.number
                logging.info("train: stopped by a signal after step %d", state.step)
        return state

    def _train_on(
        self,
        state: RunState,
        batch: int,
        source: tf.Tensor,
        target: tf.Tensor,
        journal: Journal,
    ) -> RunState:
        result = self._step(state.step, source, target)
        # A GPU computes still, and has the next update waiting: what is read is the last one.
        self._report(journal)
        tokens, padded = count_tokens(source, target)
        real, all_cells = state.tokens + tokens, state.padded_tokens + padded
        share = 1.0 - real / all_cells
        self._unread = _Unread(state, batch, result, tokens, share, (source, target))
        state = dataclasses.replace(state, step=state.step + 1, batch=batch + 1)
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
            self._spikes.observe(step, float(unread.result.loss))
            journal.update(step, unread.result, unread.tokens, unread.padding_share)

    def _is_over(self, state: RunState) -> bool:
        if self._pace.patience is not None and state.stale >= self._pace.patience:
            logging.info("train: dev nll has not improved in %d evaluations", state.stale)
            return True
        return state.step >= self._pace.steps

    def _evaluate_dev(self, state: RunState, journal: Journal) -> RunState:
        began = time.monotonic()
        try:
            with self._stop.interrupting():
                scores = self._evaluate()
        except Preempted:
            # It may take longer than there is time; the run that goes on begins with it.
            return dataclasses.replace(state, awaits_evaluation=True)
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
        if scores.score > state.best_bleu:
            state = dataclasses.replace(state, best_bleu=scores.score)
            self._checkpoints.save_best(state)
        journal.restart_clock()
        return state

    def _check_finite(self, unread: _Unread) -> None:
        result, before = unread.result, unread.before
        if math.isfinite(float(result.loss)) and math.isfinite(float(result.gradient_norm)):
            return
        newest = self._checkpoints.newest or "none was written yet"
        batch = self._checkpoints.save_bad_batch(before, *unread.ids)
        raise UserError(
            f"the loss is {float(result.loss)} and the gradient's norm "
            f"{float(result.gradient_norm)} at step {before.step + 1} (epoch {before.epoch}, "
            f"batch {unread.batch}), expected finite numbers: lower the learning rate or bind "
            f"TrainStep.clip_norm, then start again; the last checkpoint is intact ({newest}); "
            f"python -m t2t_repro.trainer --replay={batch} runs the batch again."
        )


def count_tokens(source: tf.Tensor, target: tf.Tensor) -> tuple[int, int]:
    """Counts the real and the padded tokens of source and target together."""
    sides = [np.asarray(source), np.asarray(target)]
    return sum(int(np.count_nonzero(x != PAD_ID)) for x in sides), sum(x.size for x in sides)
