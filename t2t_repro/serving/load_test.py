"""How many requests a server answers in a second, how fast, and whether all rightly."""

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from t2t_repro.errors import UserError

Translate = Callable[[str], str]


class LoadReport(NamedTuple):
    """What a load test found.

    Attributes:
        requests: how many were made.
        concurrency: how many at a time.
        seconds: from the first request to the last answer.
        latencies: seconds from request to answer, ascending, of those that were answered.
        failures: why others were not.
        mixed_up: how many answers were not the sentence's own.
    """

    requests: int
    concurrency: int
    seconds: float
    latencies: Sequence[float]
    failures: Sequence[str]
    mixed_up: int

    def percentile(self, percent: float) -> float:
        """The latency that `percent` of the answers don't exceed, in seconds."""
        if not self.latencies:
            return math.nan
        return self.latencies[max(math.ceil(percent / 100 * len(self.latencies)), 1) - 1]

    def lines(self) -> list[str]:
        """The report for people."""
        latencies = ", ".join(
            f"{name} {1000 * self.percentile(percent):.1f}"
            for name, percent in (("p50", 50), ("p90", 90), ("p99", 99), ("largest", 100))
        )
        return [
            f"{self.requests} requests, {self.concurrency} at a time: {len(self.latencies)} "
            f"answered, {len(self.failures)} lost, {self.mixed_up} mixed up",
            f"{len(self.latencies) / self.seconds:.1f} requests/s; latency in ms: {latencies}",
        ]


def run_load_test(
    translate: Translate, sentences: Sequence[str], requests: int, concurrency: int
) -> LoadReport:
    """Makes requests of one sentence, so many at a time, each with a right answer known before.

    Args:
        translate: makes a request; is called from as many threads as `concurrency`.
        sentences: are sent in turn.
        requests: how many to make.
        concurrency: how many at a time.

    Raises:
        UserError: there is no sentence, or one was not translated even by itself.
    """
    if not sentences:
        raise UserError("there is no sentence to send: give --input a file with some.")
    sent = list(sentences[:requests])
    latencies: list[float] = []
    failures: list[str] = []
    mixed_up: list[int] = []
    with ThreadPoolExecutor(concurrency) as pool:
        # One at a time: what is never together with others cannot be mixed up with them.
        expected = {sentence: translate(sentence) for sentence in dict.fromkeys(sent)}

        def ask(number: int) -> None:
            sentence = sent[number % len(sent)]
            began = time.perf_counter()
            try:
                text = translate(sentence)
            except UserError as error:
                failures.append(str(error))
                return
            latencies.append(time.perf_counter() - began)
            if text != expected[sentence]:
                mixed_up.append(number)

        began = time.perf_counter()
        for _ in pool.map(ask, range(requests)):
            pass
        seconds = time.perf_counter() - began
    return LoadReport(requests, concurrency, seconds, sorted(latencies), failures, len(mixed_up))
