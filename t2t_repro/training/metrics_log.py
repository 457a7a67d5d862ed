"""Reports a run: progress bar, log lines, TensorBoard, callbacks."""

import math
import re
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import keras
import tensorflow as tf
from absl import logging
from tqdm import tqdm

from t2t_repro.errors import UserError, reason_of
from t2t_repro.files import sync
from t2t_repro.training.run_state import DevScores, RunState
from t2t_repro.training.schedule import TrainingSchedule
from t2t_repro.training.train_step import StepResult

_SCALARS = ("loss", "nll", "learning_rate", "gradient_norm")

# Speed is measured over at least so many updates: the host reads results with varying delay.
_LEAST_UPDATES = 10

# Training time until the first progress line, if scalars are not logged earlier. The first update
# alone would show too low a speed: it is slower.
_FIRST_SECONDS = 20.0


@dataclass(eq=False)
class MetricsLog(AbstractContextManager["MetricsLog"]):
    """Reports a training run to the terminal, TensorBoard and Keras callbacks.

    TensorBoard drops what an earlier start reported of later updates. Speed is in real source and
    target tokens per second. Callbacks, for W&B, MLflow or your own code, are called at these
    events:

    on_train_begin
    on_train_batch_end   after every update: loss, nll, learning_rate, gradient_norm
    on_test_begin, on_test_end
                         after every dev evaluation and preview: nll, and the metric's name, which
                         a preview writes as bleu_of_3_sentences; of a mixture's corpora news/nll
    on_epoch_end         after that, with all of these; those of the dev set as val_nll and so on.
                         Before a start's first update, those of the dev set alone
    on_train_end         also where an error ends the run

    The number of a batch and of an epoch is that of the update, counted from 0 as in Keras; -1
    before the first. With several workers, only the first one's callbacks are called. They are
    there to read: a checkpoint does not hold their state, so they must not change the learning rate
    or the weights.

    Methods that write to TensorBoard raise a UserError if the disk fails.

    Attributes:
        directory: folder of TensorBoard's event files; None where another worker reports.
        schedule: the run's schedule.
        state: where the run goes on.
        callbacks: Keras callbacks with the model, compiled with the run's optimizer if there are
            any.
    """

    directory: Path | None
    schedule: TrainingSchedule
    state: RunState
    callbacks: keras.callbacks.CallbackList

    def __post_init__(self) -> None:
        self._writer = _open_writer(self.directory, self.state)
        self._last_scalars: dict[str, tf.Tensor] = {}
        self._tokens = 0
        self._began = time.monotonic()
        self._paused = 0.0
        # Seconds of training and tokens so far, before the last updates and after each of them.
        self._marks = deque([(0.0, 0)], maxlen=max(self.schedule.log_every, _LEAST_UPDATES) + 1)
        self._progress = ""
        self._bar = tqdm(
            total=self.schedule.steps,
            initial=self.state.step,
            bar_format="{percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt} updates{postfix}",
            dynamic_ncols=True,
            disable=not self.directory or not sys.stderr.isatty(),
        )

    def __enter__(self) -> "MetricsLog":
        """Tells the callbacks that training begins."""
        self.callbacks.model.stop_training = False  # As Keras's `fit` does.
        self.callbacks.on_train_begin()
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the bar and TensorBoard's file; callbacks hear of the end whatever happens."""
        self._bar.close()
        try:
            with self._writing():
                self._writer.close()
        finally:
            self.callbacks.on_train_end()

    def write_text(self, name: str, markdown: str, step: int) -> None:
        """Writes a Markdown text to TensorBoard."""
        with self._writing():
            tf.summary.text(name, markdown, step=step)
            # To be read at once: the writer may otherwise keep it for minutes.
            self._writer.flush()

    def flush(self) -> None:
        """Waits until all reports so far are on the disk."""
        with self._writing():
            self._writer.flush()
            if self.directory:
                sync(*self.directory.glob("events.out.tfevents.*"))

    def report_update(self, step: int, result: StepResult, tokens: int, capacity: int) -> None:
        """Reports one update.

        Args:
            step: updates so far, this one included.
            result: the update's result.
            tokens: source and target tokens of its batch together.
            capacity: source and target vectors that were computed, those without a token included.
        """
        self._tokens += tokens
        trained_seconds = time.monotonic() - self._began - self._paused
        self._marks.append((trained_seconds, self._tokens))
        self._bar.update(1)
        self._last_scalars = {name: getattr(result, name) for name in _SCALARS}
        self._notify_callbacks(step)
        if self.schedule.logs(step):
            speed = self._log_progress(step, result)
            values = self._last_scalars | {
                "perplexity": _perplexity(float(result.nll)),
                "real_tokens_per_second": speed,
                "padding_share": 1.0 - tokens / capacity,
            }
            self._write_scalars("train", values, step)
        elif not self._progress and trained_seconds >= _FIRST_SECONDS:
            # Once: where updates are slow, the first log of scalars may be hours away.
            self._log_progress(step, result)

    def _notify_callbacks(self, step: int) -> None:
        """Calls the callbacks after update `step`; warns once if one of them asks to stop."""
        # Without any, Keras would still read the tensors, from the device.
        if not self.callbacks.callbacks:
            return
        # Keras counts batches from 0.
        self.callbacks.on_train_batch_end(step - 1, self._last_scalars)
        if self.callbacks.model.stop_training:
            problem = "a callback has set stop_training, which does not end a run"
            fix = "bind TrainingSchedule.patience or TrainingSchedule.steps"
            logging.log_first_n(logging.WARNING, f"{problem}: {fix}", 1)

    def _recent_speed(self) -> tuple[float, float]:
        """Returns the recent tokens per second, and seconds per update.

        They are over the last `log_every` updates, ten at least, or over all since the start if
        they are fewer. There must have been an update.
        """
        # One mark is there from the start, and each update adds one: of n updates, n + 1 marks.
        first_seconds, first_tokens = self._marks[0]
        last_seconds, last_tokens = self._marks[-1]
        seconds = last_seconds - first_seconds
        return (last_tokens - first_tokens) / seconds, seconds / (len(self._marks) - 1)

    def _log_progress(self, step: int, result: StepResult) -> float:
        """Logs an update, its speed and the time left, and shows both in the progress bar.

        Returns:
            the recent tokens per second.
        """
        speed, seconds_per_update = self._recent_speed()
        # Unlike the speed, it includes the pauses for dev evaluations: there will be more of them.
        mean_seconds = (time.monotonic() - self._began) / (step - self.state.step)
        time_left = timedelta(seconds=round(mean_seconds * (self.schedule.steps - step)))
        self._progress = f"{seconds_per_update:.2g} s/update, {time_left} left"
        self._bar.set_postfix_str(self._progress)
        losses = f"loss {float(result.loss):.4f}, nll {float(result.nll):.4f}"
        rates = f"lr {float(result.learning_rate):.3e}, {speed:,.0f} src+tgt tok/s"
        logging.info(f"step {step}/{self.schedule.steps}: {losses}, {rates}, {self._progress}")
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

    def report_evaluation(self, step: int, scores: DevScores, seconds: float) -> None:
        """Reports the dev evaluation after update `step`, which took `seconds`.

        It goes to the log, to callbacks and to TensorBoard.
        """
        perplexity = _perplexity(scores.nll)
        shown = f"{scores.metric} {scores.score:.2f} ({seconds:.0f} s)"
        logging.info(f"step {step}: dev nll {scores.nll:.4f}, perplexity {perplexity:.3f}, {shown}")
        # "BLEU of 3 sentences" becomes bleu_of_3_sentences.
        tag = re.sub(r"\W+", "_", scores.metric.lower())
        values = {"nll": scores.nll, tag: scores.score}
        for name, nll, score in scores.corpora:
            logging.info(f"step {step}: dev.{name} nll {nll:.4f}, {scores.metric} {score:.2f}")
            values |= {f"{name}/nll": nll, f"{name}/{tag}": score}
        # Callbacks get no perplexity: it follows from nll.
        self._notify_of_evaluation(step, values)
        self._write_scalars("dev", values | {"perplexity": perplexity}, step)
        self.write_text("dev/translations", scores.samples, step)
        if step in self.schedule.preview_at:
            logging.info(f"step {step}: dev translations\n{scores.samples}")
        with self._writing():
            for name, pixels in scores.images:
                tf.summary.image(f"dev/{name}", pixels[None], step=step)

    def _notify_of_evaluation(self, step: int, values: dict[str, float]) -> None:
        """Calls the callbacks after the dev evaluation of update `step`."""
        self.callbacks.on_test_begin()
        self.callbacks.on_test_end(values)
        logs = self._last_scalars | {f"val_{name}": value for name, value in values.items()}
        self.callbacks.on_epoch_end(step - 1, logs)  # Counted from 0, as in Keras.

    def _write_scalars(self, part: str, values: Mapping[str, float | tf.Tensor], step: int) -> None:
        """Writes scalars to TensorBoard, under the names part/name."""
        with self._writing():
            for name, value in values.items():
                tf.summary.scalar(f"{part}/{name}", value, step=step)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Makes the block write its summaries to TensorBoard's files.

        Raises:
            UserError: the disk is full or fails.
        """
        try:
            with self._writer.as_default():
                yield
        except (OSError, tf.errors.OpError) as error:
            problem = f"cannot write to {self.directory} ({reason_of(error)})"
            fix = "make room or fix the permissions; a new start resumes from the last checkpoint"
            raise UserError(f"{problem}: {fix}.") from error


def _perplexity(nll: float) -> float:
    """Returns the perplexity, exp(nll); e^50 at most, since after divergence it may overflow."""
    return math.exp(min(nll, 50.0))


def _open_writer(directory: Path | None, state: RunState) -> tf.summary.SummaryWriter:
    """Opens a TensorBoard file for a run that starts or resumes from a state.

    Without a directory, the writer does nothing.

    Its first event makes TensorBoard drop the events that an earlier start wrote after that state.
    """
    if not directory:
        return tf.summary.create_noop_writer()
    writer = tf.summary.create_file_writer(str(directory))
    start = tf.compat.v1.Event(
        # The first step that is dropped. A run's text is written at step 0, before its updates.
        step=state.step + 1 if state.step else 0,
        session_log=tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START),
    )
    # tf.summary has no public function for a session's start, and no public handle of a writer.
    tf.raw_ops.ImportEvent(writer=writer._resource, event=start.SerializeToString())
    return writer
