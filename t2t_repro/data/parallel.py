"""One function on many blocks, on several cores, results in order and bounded memory."""

import itertools
import multiprocessing
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from typing import Any, Generic, TypeVar

from t2t_repro.errors import Unfinished

_Block = TypeVar("_Block")
_Result = TypeVar("_Result")

# Fewer are done sooner than processes start.
_WORTH_A_POOL = 5

# With more, the one process that reads and writes is the bottleneck, and each takes memory.
_MOST_WORKERS = 8


def usable_cores() -> int:
    """The cores that this process may use; all, where the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_workers() -> int:
    """The cores that this process may use, eight at most."""
    return min(usable_cores(), _MOST_WORKERS)


def map_in_order(
    function: Callable[[_Block], _Result], blocks: Iterable[_Block], workers: int
) -> Iterator[_Result]:
    """Yields function(block) for every block, in their order.

    Few blocks, or one worker, are done in this process. Otherwise processes are started afresh
    (TensorFlow's threads do not survive a fork), and end with this one however it ends.

    Args:
        function: picklable, as blocks and results are; pickled once a worker.
        blocks: read as results are taken, a few blocks ahead.
        workers: how many processes to start.

    Raises:
        Unfinished: a worker was killed.
        Exception: whatever `function` raises, with the worker's traceback in a note.
    """
    blocks = iter(blocks)
    first = list(itertools.islice(blocks, _WORTH_A_POOL))
    blocks = itertools.chain(first, blocks)
    if workers <= 1 or len(first) < _WORTH_A_POOL:
        yield from map(function, blocks)
        return
    with closing(WorkerPool(function, workers)) as pool:
        try:
            yield from pool.map(blocks)
        except WorkerKilled as error:
            raise Unfinished(
                f"{error}; set prepare.workers lower and run the same command again: it goes on "
                "from there."
            ) from error


class WorkerKilled(Exception):
    """A worker process has ended, and nothing else is known of it."""


class WorkerPool(Generic[_Block, _Result]):
    """Processes that apply one function; started when needed, they end with this one at the latest.

    Args:
        function: as in `map_in_order`.
        workers: how many processes.
        niceness: how much others go before them; see nice(1).
    """

    def __init__(
        self, function: Callable[[_Block], _Result], workers: int, niceness: int = 0
    ) -> None:
        self._workers = workers
        self._pool = ProcessPoolExecutor(
            workers,
            multiprocessing.get_context("spawn"),
            initializer=_start,
            initargs=(function, niceness),
        )

    def map(self, blocks: Iterable[_Block]) -> Iterator[_Result]:
        """Yields function(block) for every block, in their order; several threads may ask.

        Args:
            blocks: read as results are taken, a few blocks ahead.

        Raises:
            WorkerKilled: a worker was.
            Exception: whatever the function raises, with the worker's traceback in a note.
        """
        pending: deque[Future[_Result]] = deque()
        try:
            for block in blocks:
                with _deaf_to_ctrl_c():
                    pending.append(self._pool.submit(_call, block))
                if len(pending) > self._workers + 2:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool as error:
            if error.__cause__:
                # What a worker sent cannot be read: a bug. gin would drop the cause.
                error.add_note(str(error.__cause__))
                raise
            raise WorkerKilled(
                "a worker process was killed, for want of memory most likely"
            ) from error

    def close(self) -> None:
        """Ends the processes; blocks that they are at are finished, others are not begun."""
        self._pool.shutdown(cancel_futures=True)


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Has processes that are started within it ignore Ctrl-C, which the parent hears of too.

    It ends its workers in its own way. Only the main thread can do so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# Set in a worker process, once, and never in the process that starts them.
_function: Callable[[Any], Any]


def _start(function: Callable[[Any], Any], niceness: int) -> None:
    global _function
    _function = function
    if niceness and hasattr(os, "nice"):
        os.nice(niceness)
    # It inherits this too, but on Windows.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    # A worker holds both ends of its queue, so that waiting for work it would never notice.
    parent.join()
    os._exit(1)


def _call(block: Any) -> Any:
    try:
        return _function(block)
    except Exception as error:
        # Python sends it as the error's cause, which gin, that has called `prepare`, drops.
        error.add_note(f"In a worker process: {traceback.format_exc()}")
        raise
