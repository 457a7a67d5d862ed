"""Several processes, on one machine or many, that train together."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from t2t_repro.errors import UserError, reason_of

# What schedulers start a job again on: that of a process which SIGTERM has ended.
EXIT_START_AGAIN = 143

_LOSSES = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
)


class Workers:
    """The processes of a strategy, of which this one is a worker; without others, the only one.

    Args:
        strategy: MultiWorkerMirroredStrategy where there are several.

    Attributes:
        count: of workers.
        index: of this one.
        is_chief: whether it is the first, which alone writes the model directory and the log.
        replicas: of this worker, as a range of their numbers among the replicas of all.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        self.count, self.index = 1, 0
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            resolver = strategy.cluster_resolver
            jobs = resolver.cluster_spec().as_dict()
            self.count = sum(map(len, jobs.values()))
            # A chief is worker 0.
            is_after_chief = resolver.task_type == "worker"
            self.index = resolver.task_id + is_after_chief * len(jobs.get("chief", ()))
        self.is_chief = self.index == 0
        share = strategy.num_replicas_in_sync // self.count
        self.replicas = range(self.index * share, (self.index + 1) * share)

    def gather(self, value: Any) -> list[Any]:
        """Collects a value of every worker; all have to call it, as often and in the same order.

        Args:
            value: of this worker; what JSON can hold.

        Returns:
            [workers] the values, on every worker the same.
        """
        if self.count == 1:
            return [value]
        line = np.frombuffer(f"{json.dumps(value)}\n".encode("ascii"), np.uint8)
        # TensorFlow gathers no bytes, and keeps int32 off GPUs.
        numbers = tf.constant(line, tf.int64)
        of_replicas = self._strategy.experimental_distribute_values_from_function(
            lambda context: numbers
        )
        text = self._strategy.gather(of_replicas, axis=0).numpy().astype(np.uint8).tobytes()
        # Every replica of a worker says the same.
        return [json.loads(line) for line in text.splitlines()[:: len(self.replicas)]]

    @contextmanager
    def chief_first(self) -> Iterator[None]:
        """Lets the chief do what is within, then the others; what it may not do, nobody does.

        However long the chief needs, it is waited for; TensorFlow notices within seconds if it
        is lost.

        Raises:
            UserError: the chief's, on every worker.
        """
        if not self.is_chief:
            (error, *_) = self.gather(None)
            if error:
                raise UserError(error)
        try:
            yield
        except UserError as error:
            if self.is_chief:
                self.gather(str(error))
            raise
        if self.is_chief:
            self.gather(None)

    def check_same(self, what: str, value: Any) -> None:
        """Compares a value of all workers.

        Args:
            what: it is, for the message.
            value: of this worker; what JSON can hold.

        Raises:
            UserError: on every worker, if they are not the same.
        """
        values = self.gather(value)
        first = values[0]
        for index, other in enumerate(values):
            if other != first:
                raise UserError(
                    f"worker {index} has {what} {_beside(other, first)}, but worker 0 has "
                    f"{_beside(first, other)}: give all workers the same command, and a "
                    "--model_dir and --data_dir on a file system that they share."
                )


def quiet_unless_chief(workers: Workers) -> None:
    """Has the chief alone log what all do alike; the others say that they have started, no more."""
    if workers.count > 1:
        logging.info(
            f"worker {workers.index} (of 0 to {workers.count - 1}) has started; replicas: "
            f"{len(workers.replicas)}; worker 0 writes the log"
        )
    if not workers.is_chief:
        logging.set_verbosity(logging.ERROR)


@contextmanager
def end_with_the_others() -> Iterator[None]:
    """Ends this process where another worker is lost, so that all can be started again.

    TensorFlow notices a process that has ended when it next waits for it, and one that has gone
    silent after ten seconds.

    Raises:
        SystemExit: with the status on which schedulers start a job again.
    """
    try:
        yield
    except _LOSSES as error:
        lines = [line for line in str(error.message).splitlines() if "aborted by" in line]
        reason = reason_of(RuntimeError(lines[0]) if lines else error)
        message = (
            f"another worker is lost ({reason[:200]}): see its log; start all workers again, as "
            "many as there are, and the run goes on from its last checkpoint."
        )
        print(f"error: {message}", file=sys.stderr, flush=True)
        raise SystemExit(EXIT_START_AGAIN) from None


def _beside(value: Any, other: Any) -> str:
    """A value, of a list those items that the other has not."""
    if isinstance(value, list):
        value = [item for item in value if item not in other]
    return json.dumps(value)
