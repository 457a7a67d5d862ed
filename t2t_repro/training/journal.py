"""What a run says of itself: a progress bar, log lines, TensorBoard."""

import math
import sys
import time
from pathlib import Path
from types import TracebackType

import numpy as np
import tensorflow as tf
from absl import logging
from numpy.typing import NDArray
from tqdm import tqdm

from t2t_repro.training.durable import sync
from t2t_repro.training.event_files import rewind
from t2t_repro.training.train_step import StepResult


class Journal:
    """Reports a training run to the terminal and to TensorBoard.

    What an earlier start wrote of updates after `first_step` is dropped: see `rewind`. Speed is
    stated in real source and target tokens a second, never in steps.

    Args:
        directory: where TensorBoard's event files go; None where another worker reports.
        steps: the run's last step.
        first_step: the step it begins at.
        every_steps: how often scalars are written, in updates.
        awaits_evaluation: whether `first_step` is to be evaluated (again).
    """

    def __init__(
        self,
        directory: Path | None,
        steps: int,
        first_step: int,
        every_steps: int,
        awaits_evaluation: bool = False,
    ) -> None:
        if directory:
            rewind(directory, first_step, "dev/" if awaits_evaluation else None)
            self._writer = tf.summary.create_file_writer(str(directory))
        else:
            self._writer = tf.summary.create_noop_writer()
        self._directory = directory
        self._every_steps = every_steps
        self._tokens = 0
        self._since = time.monotonic()
        self._bar = tqdm(
            total=steps,
            initial=first_step,
            unit="step",
            dynamic_ncols=True,
            disable=not directory or not sys.stderr.isatty(),
        )
        self._steps = steps
        self._first_step = first_step
        self._began = self._since

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.close()
        self._writer.close()

    def text(self, name: str, markdown: str, step: int) -> None:
        """Writes a text to TensorBoard."""
        with self._writer.as_default():
            tf.summary.text(name, markdown, step=step)
        self._writer.flush()

    def image(self, name: str, pixels: NDArray[np.uint8], step: int) -> None:
        """Writes an image, [height, width, 3], to TensorBoard."""
        with self._writer.as_default():
            tf.summary.image(name, pixels[None], step=step)

    def scalars(self, values: dict[str, float], step: int) -> None:
        """Writes scalars to TensorBoard."""
        with self._writer.as_default():
            for name, value in values.items():
                tf.summary.scalar(name, value, step=step)

    def flush(self) -> None:
        """Makes sure that what was reported so far outlives the process, and the machine."""
        self._writer.flush()
        if self._directory:
            sync(*self._directory.glob("events.out.tfevents.*"))

    def is_reported(self, step: int) -> bool:
        """Whether scalars are written after update `step`."""
        return step % self._every_steps == 0 or step == self._steps

    def update(self, step: int, result: StepResult, tokens: int, padding_share: float) -> None:
        """Reports one update.

        Args:
            step: updates so far, this one included.
            result: of the update.
            tokens: real source + target tokens of its batch.
            padding_share: of the batches since the last report.
        """
        self._tokens += tokens
        self._bar.update(1)
        if not self.is_reported(step):
            return
        seconds = time.monotonic() - self._since
        speed = self._tokens / seconds
        loss, nll = float(result.loss), float(result.nll)
        learning_rate = float(result.learning_rate)
        self.scalars(
            {
                "train/loss": loss,
                "train/nll": nll,
                "train/perplexity": math.exp(min(nll, 50.0)),
                "train/learning_rate": learning_rate,
                "train/gradient_norm": float(result.gradient_norm),
                "train/real_tokens_per_second": speed,
                "train/padding_share": padding_share,
            },
            step,
        )
        self._bar.set_postfix_str(
            f"loss {loss:.3f}, lr {learning_rate:.2e}, {speed:,.0f} src+tgt tok/s"
        )
        if self._bar.disable:
            logging.info(
                "step %d/%d: loss %.4f, nll %.4f, lr %.3e, %s src+tgt tok/s, %s left",
                step,
                self._steps,
                loss,
                nll,
                learning_rate,
                f"{speed:,.0f}",
                self._time_left(step),
            )
        self.restart_clock()

    def restart_clock(self) -> None:
        """Begins a new interval: what happened since the last update is no training time."""
        self._tokens = 0
        self._since = time.monotonic()

    def _time_left(self, step: int) -> str:
        seconds = (time.monotonic() - self._began) / max(step - self._first_step, 1)
        minutes = math.ceil(seconds * (self._steps - step) / 60)
        return f"{minutes // 60}:{minutes % 60:02d} h"
