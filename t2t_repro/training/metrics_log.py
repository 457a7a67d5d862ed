"""Reports a run: progress bar, log lines, TensorBoard, callbacks."""

import math
import re
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import tensorflow as tf
from absl import logging
from tqdm import tqdm

from t2t_repro.errors import UserError, reason_of
from t2t_repro.files import sync
from t2t_repro.progress import in_words
from t2t_repro.training.callbacks import Callbacks
from t2t_repro.training.run_state import DevScores, RunState, TrainingSchedule
from t2t_repro.training.train_step import StepResult

# Speed is measured over at least so many updates: the host reads results later than they are there.
_LEAST_UPDATES = 10

# The first update can take some seconds more than the others; after so many, that matters little.
_FIRST_SECONDS = 20.0


class MetricsLog(AbstractContextManager["MetricsLog"]):
    """Reports a training run to the terminal, to TensorBoard and to callbacks.

    TensorBoard drops what an earlier start reported of later updates. Speed is in real source and
    target tokens per second.

    Args:
        directory: of TensorBoard's event files; None where another worker reports.
        schedule: of the run.
        state: where the run goes on.
        callbacks: called at the same events.

    Raises:
        UserError: TensorBoard's files cannot be written, e.g. on a full disk.
    """

    def __init__(
        self,
        directory: Path | None,
        schedule: TrainingSchedule,
        state: RunState,
        callbacks: Callbacks,
    ) -> None:
        self._directory = directory
        with self._can_be_written():
            self._writer = _writer(directory, state)
        self._callbacks = callbacks
        self._schedule = schedule
        self._tokens = 0
        self._first_step = state.step
        self._began = time.monotonic()
        self._paused = 0.0
        # Seconds of training and tokens so far, after each of the last updates.
        self._marks = deque([(0.0, 0)], maxlen=max(schedule.log_every, _LEAST_UPDATES) + 1)
        self._progress = ""
        self._bar = tqdm(
            total=schedule.steps,
            initial=state.step,
            bar_format="{percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt} updates{postfix}",
            dynamic_ncols=True,
            disable=not directory or not sys.stderr.isatty(),
        )

    def __enter__(self) -> "MetricsLog":
        self._callbacks.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
        try:
            with self._writing():
                self._writer.close()
        finally:
            self._callbacks.end()

    def text(self, name: str, markdown: str, step: int) -> None:
        """Writes a text to TensorBoard.

        Raises:
            UserError: it cannot be written, e.g. on a full disk; so do all others that write.
        """
        with self._writing():
            tf.summary.text(name, markdown, step=step)
            self._writer.flush()

    def flush(self) -> None:
        """Waits until all reports so far are on the disk."""
        with self._writing():
            self._writer.flush()
            if self._directory:
                sync(*self._directory.glob("events.out.tfevents.*"))

    def update(self, step: int, result: StepResult, tokens: int, capacity: int) -> None:
        """Reports one update.

        Args:
            step: updates so far, this one included.
            result: of the update.
            tokens: source and target tokens of its batch together.
            capacity: source and target vectors that were computed, those without a token included.
        """
        self._tokens += tokens
        self._marks.append((time.monotonic() - self._began - self._paused, self._tokens))
        self._bar.update(1)
        self._callbacks.update(step, result)
        if self._schedule.logs(step):
            self._report(step, result, tokens / capacity)
        elif not self._progress and self._marks[-1][0] >= _FIRST_SECONDS:
            self._show(step, result)

    def _report(self, step: int, result: StepResult, real_share: float) -> None:
        nll = float(result.nll)
        self._scalars(
            {
                "train/loss": float(result.loss),
                "train/nll": nll,
                "train/perplexity": math.exp(min(nll, 50.0)),
                "train/learning_rate": float(result.learning_rate),
                "train/gradient_norm": float(result.gradient_norm),
                "train/real_tokens_per_second": self._show(step, result),
                "train/padding_share": 1.0 - real_share,
            },
            step,
        )

    def _show(self, step: int, result: StepResult) -> float:
        """Shows an update at the terminal or in the log; returns the speed, in tokens a second."""
        (began, before), (now, after) = self._marks[0], self._marks[-1]
        speed = (after - before) / (now - began)
        seconds = (now - began) / (len(self._marks) - 1)
        self._progress = (
            f"loss {float(result.loss):.4f}, nll {float(result.nll):.4f}, "
            f"lr {float(result.learning_rate):.3e}, {speed:,.0f} src+tgt tok/s, "
            f"{seconds:.2g} s/update{self._time_left(step)}"
        )
        self._bar.set_postfix_str(self._progress)
        if self._bar.disable:
            logging.info(f"step {step}/{self._schedule.steps}: {self._progress}")
        return speed

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Reports that a dev evaluation is under way; its time is not training time."""
        began = time.monotonic()
        self._bar.set_postfix_str("evaluating on the dev set")
        try:
            yield
        finally:
            self._bar.set_postfix_str(self._progress)
            self._paused += time.monotonic() - began

    def evaluation(self, step: int, scores: DevScores, seconds: float) -> None:
        """Reports a dev evaluation after update `step`, which took so many seconds."""
        perplexity = math.exp(min(scores.nll, 50.0))
        logging.info(
            f"step {step}: dev nll {scores.nll:.4f}, perplexity {perplexity:.3f}, "
            f"{scores.metric} {scores.score:.2f} ({seconds:.0f} s)"
        )
        tag = re.sub(r"\W+", "_", scores.metric.lower())
        values = {"nll": scores.nll, tag: scores.score}
        for name, nll, score in scores.corpora:
            logging.info(f"step {step}: dev.{name} nll {nll:.4f}, {scores.metric} {score:.2f}")
            values |= {f"{name}/nll": nll, f"{name}/{tag}": score}
        self._callbacks.evaluation(step, values)
        values["perplexity"] = perplexity
        self._scalars({f"dev/{name}": value for name, value in values.items()}, step)
        self.text("dev/translations", scores.samples, step)
        with self._writing():
            for name, pixels in scores.images:
                tf.summary.image(f"dev/{name}", pixels[None], step=step)

    def _scalars(self, values: dict[str, float], step: int) -> None:
        with self._writing():
            for name, value in values.items():
                tf.summary.scalar(name, value, step=step)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._can_be_written(), self._writer.as_default():
            yield

    @contextmanager
    def _can_be_written(self) -> Iterator[None]:
        try:
            yield
        except (OSError, tf.errors.OpError) as error:
            raise UserError(
                f"cannot write to {self._directory} ({reason_of(error)}): make room or change the "
                "permissions, then start again; the run goes on from its last checkpoint."
            ) from error

    def _time_left(self, step: int) -> str:
        if step == self._schedule.steps:
            return ""
        seconds = (time.monotonic() - self._began) / (step - self._first_step)
        return f", {in_words(seconds * (self._schedule.steps - step))} left"


def _writer(directory: Path | None, state: RunState) -> tf.summary.SummaryWriter:
    """Opens TensorBoard's files, which get an event that makes it drop later updates."""
    if not directory:
        return tf.summary.create_noop_writer()
    writer = tf.summary.create_file_writer(str(directory))
    start = tf.compat.v1.Event(
        step=state.step and state.step + 1,
        session_log=tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START),
    )
    tf.raw_ops.ImportEvent(writer=writer._resource, event=start.SerializeToString())
    return writer
