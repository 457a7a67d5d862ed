"""Several processes, on one machine or many, that train together."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from absl import logging

from t2t_repro.errors import UserError, reason_of
from t2t_repro.training.connections import Connections, Gone, LostWorker

# What schedulers start a job again on: that of a process which SIGTERM has ended.
EXIT_START_AGAIN = 143

_LOSSES = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
)

_PERHAPS_LOSSES = (tf.errors.InternalError, tf.errors.UnknownError)

_SAME_COMMAND = (
    "give all workers the same command, and a --model_dir and --data_dir on a file system that "
    "they share"
)
_MOST_ITEMS = 5


class Workers:
    """The processes that train together, of which this one is a worker; or it alone.

    Args:
        connections: with the others, if there are any.

    Attributes:
        count: of workers.
        index: of this one.
        is_chief: whether it is the first, which alone writes the model directory and the log.
    """

    def __init__(self, connections: Connections | None = None) -> None:
        self._connections = connections
        self.count, self.index = 1, 0
        if connections:
            self.count = len(connections.cluster.addresses)
            self.index = connections.cluster.index
        self.is_chief = self.index == 0

    def gather(self, value: Any) -> list[Any]:
        """Collects a value of every worker, see `Connections.gather`; of one alone, its own."""
        return self._connections.gather(value) if self._connections else [value]

    @contextmanager
    def chief_first(self) -> Iterator[None]:
        """Runs the block on the chief first, then on the others.

        However long the chief needs, it is waited for. If it fails there, no other runs it.

        Raises:
            UserError: the chief's, on every worker; see `end_with_the_others`.
        """
        if not self.is_chief:
            self.gather(None)
        yield
        if self.is_chief:
            self.gather(None)

    def check_same(self, what: str, value: Any, mend: str = _SAME_COMMAND) -> None:
        """Compares a value of all workers.

        Args:
            what: it is, for the message.
            value: of this worker; what JSON can hold.
            mend: what to do where they differ.

        Raises:
            UserError: on every worker, if they are not the same.
        """
        values = self.gather(value)
        first = values[0]
        for index, other in enumerate(values):
            if other != first:
                raise UserError(
                    f"worker {index} has {what} {_beside(other, first)}, but worker 0 has "
                    f"{_beside(first, other)}: {mend}."
                )

    @contextmanager
    def end_with_the_others(self) -> Iterator[None]:
        """Ends this process where another worker is lost, so that all can be started again.

        An error that ends one worker ends all others with its message. TensorFlow notices a process
        that has ended when it next waits for it, and one that has gone silent after ten seconds.

        Raises:
            SystemExit: with the status on which schedulers start a job again.
            UserError: another worker has ended by it.
        """
        if not self._connections:
            yield
            return
        try:
            telling = self._connections.telling(_PERHAPS_LOSSES)
            with ended_by_loss(), telling, self._noticed_by_tensorflow():
                yield
        finally:
            self._connections.close()

    @contextmanager
    def _noticed_by_tensorflow(self) -> Iterator[None]:
        try:
            yield
        except _LOSSES as error:
            if self._connections and (words := self._connections.last_words()):
                raise UserError(words) from None
            lines = [line for line in str(error.message).splitlines() if "aborted by" in line]
            raise Gone(reason_of(RuntimeError(lines[0]) if lines else error)) from None


@contextmanager
def ended_by_loss() -> Iterator[None]:
    """Makes one line, and an exit status, of another worker's loss.

    Raises:
        SystemExit: with the status on which schedulers start a job again.
    """
    try:
        yield
    except LostWorker as error:
        # gin appends lines of its own about the call that it made.
        print(f"error: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)
        raise SystemExit(EXIT_START_AGAIN) from None


def quiet_unless_chief(workers: Workers) -> None:
    """Has the chief alone log what all do alike; the others say that they have started, no more."""
    if workers.count > 1:
        logging.info(
            f"worker {workers.index} (of 0 to {workers.count - 1}) has started; worker 0 writes "
            "the log"
        )
    if not workers.is_chief:
        logging.set_verbosity(logging.ERROR)


def _beside(value: Any, other: Any) -> str:
    """A value; of a list, or by name, the first items that the other has not."""
    if isinstance(value, list):
        value = [item for item in value if item not in other][:_MOST_ITEMS]
    if isinstance(value, dict):
        items = [item for item in value.items() if item not in other.items()]
        value = dict(items[:_MOST_ITEMS])
    return json.dumps(value)
