"""Progress of a long stage: a bar on a terminal, elsewhere log lines."""

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta

from absl import logging
from tqdm import tqdm

_SECONDS_BETWEEN_LINES = 30.0

Report = Callable[[float], None] | None
"""Takes the share of a piece of work that is done, 0 to 1; None where nobody listens."""


class Progress(AbstractContextManager["Progress"]):
    """Counts and shows the progress of one stage.

    The display has the count, the rate and the remaining time.

    Args:
        stage: its name, e.g. "data: train: encoding".
        done: items that an earlier run has finished.
        total: number of all items, if it is known.
        unit: name of the items.
    """

    def __init__(
        self, stage: str, done: int = 0, total: int | None = None, unit: str = "pairs"
    ) -> None:
        self._stage = stage
        self._total = total
        self._unit = unit
        self._done_before = self._done = done
        self._started = self._last_logged = time.monotonic()
        # The bar is cleared at its end; log lines remain.
        self._bar = tqdm(
            desc=stage, initial=done, total=total, unit=f" {unit}", unit_scale=True,
            leave=False, disable=not sys.stderr.isatty(),
        )  # fmt: skip
        if done:
            logging.info("%s: going on after %s %s", stage, f"{done:,}", unit)

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def advance(self, count: int) -> None:
        """Counts further items as done; updates the bar, or logs a line every half minute."""
        self._done += count
        self._bar.update(count)
        now = time.monotonic()
        if self._bar.disable and now - self._last_logged >= _SECONDS_BETWEEN_LINES:
            self._last_logged = now
            logging.info("%s", self._describe(now - self._started))

    def part(self, count: int) -> Callable[[float], None]:
        """Returns a `Report` on the next `count` items: of 1,000 items, 0.5 counts 500 as done.

        A share below an earlier one counts nothing: work that is done again is not progress.
        """
        done_before = self._done

        def report(share: float) -> None:
            self.advance(max(0, done_before + round(share * count) - self._done))

        return report

    def _describe(self, seconds_since_start: float) -> str:
        """Returns a log line: items done, their mean rate since the start, and remaining time."""
        rate = (self._done - self._done_before) / seconds_since_start
        line = f"{self._stage}: {self._done:,} {self._unit}, {rate:,.0f} {self._unit}/s"
        if self._total is None or not rate:
            return line
        return f"{line}, {timedelta(seconds=round((self._total - self._done) / rate))} left"
