"""Applies a function to blocks on several cores: results in order, in bounded memory."""

import itertools
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from typing import Any, Generic, TypeVar

from t2t_repro.errors import UserError

_Block = TypeVar("_Block")
_Result = TypeVar("_Result")

# With fewer blocks, this process is done before new processes have started.
_FEWEST_BLOCKS = 5

# With more workers, the one process that reads and writes is the bottleneck.
_MOST_WORKERS = 8


def usable_cores() -> int:
    """Returns the number of cores that this process may use; 1 if the system does not tell."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_workers() -> int:
    """Returns the number of workers if none is set: the number of usable cores, at most eight."""
    return min(usable_cores(), _MOST_WORKERS)


def map_in_order(
    function: Callable[[_Block], _Result], blocks: Iterable[_Block], workers: int, setting: str
) -> Iterator[_Result]:
    """Yields function(block) for every block, in order.

    Runs in this process if there are fewer than five blocks or one worker, otherwise in a
    `WorkerPool`.

    Args:
        function: picklable, as are blocks and results; sent to each worker once.
        blocks: read as results are taken, a few blocks ahead.
        workers: number of processes.
        setting: the gin parameter that sets `workers`, for errors, such as "prepare.workers".

    Raises:
        UserError: a worker was killed.
    """
    rest = iter(blocks)
    first = list(itertools.islice(rest, _FEWEST_BLOCKS))
    blocks = itertools.chain(first, rest)
    if workers == 1 or len(first) < _FEWEST_BLOCKS:
        yield from map(function, blocks)
        return
    with closing(WorkerPool(function, workers, setting)) as pool:
        yield from pool.map(blocks)


class WorkerPool(Generic[_Block, _Result]):
    """Processes that apply one function to blocks.

    They end with this process at the latest. They are spawned, because TensorFlow's threads do not
    survive a fork.

    Args:
        function, workers, setting: see `map_in_order`.
        niceness: added to the priority of the workers; see nice(1).
    """

    def __init__(
        self, function: Callable[[_Block], _Result], workers: int, setting: str, niceness: int = 0
    ) -> None:
        self._workers = workers
        self._setting = setting
        spawn = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(workers, spawn, _start, (function, niceness))

    def map(self, blocks: Iterable[_Block]) -> Iterator[_Result]:
        """Yields function(block) for every block, in order; several threads may call it.

        Args:
            blocks: read as results are taken, a few blocks ahead.

        Raises:
            UserError: a worker was killed.
            Exception: any exception of the function.
        """
        pending: deque[Future[_Result]] = deque()
        try:
            for block in blocks:
                pending.append(self._pool.submit(_call, block))
                # A few more than workers, so that none waits for this process.
                if len(pending) > self._workers + 2:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool as error:
            problem = "a worker process was killed, most likely because memory ran out"
            advice = f"lower {self._setting} and run the same command again"
            raise UserError(f"{problem}: {advice}. Finished work is kept.") from error

    def close(self) -> None:
        """Ends the processes after the blocks that they are working on."""
        self._pool.shutdown(cancel_futures=True)


# Set once in a worker process, never in the process that starts the workers.
_function: Callable[[Any], Any]


def _start(function: Callable[[Any], Any], niceness: int) -> None:
    """Prepares a worker process: its function, its priority, and its end with its parent."""
    global _function
    _function = function
    os.nice(niceness)
    # Ctrl-C reaches the parent too, which then ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Ends a worker whose parent was killed; it would wait for work forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    # This is a thread of the worker (see `_start`), and `sys.exit` would end only the thread.
    os._exit(1)


def _call(block: Any) -> Any:
    """Applies this worker's function to a block.

    `_start` received the function, which would otherwise be sent with every block.
    """
    return _function(block)
