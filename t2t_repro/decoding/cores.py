"""Which cores decode: a batch a core, as many batches at a time as there are cores."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import tensorflow as tf
from numpy.typing import NDArray

from t2t_repro.data.parallel import usable_cores
from t2t_repro.model.kernels import gpu


def idle_workers() -> int:
    """How many batches to decode at a time: one on a GPU, which it keeps busy; else one a core."""
    return 1 if gpu.has_gpu() else usable_cores()


def for_each_batch(
    work: Callable[[NDArray], None], batches: Sequence[NDArray], workers: int
) -> None:
    """Does the work of all batches, several at a time.

    Args:
        work: what is to be done with a batch.
        batches: of sentences' numbers, those of the shortest sentences first.
        workers: how many batches at a time.
    """
    with ThreadPoolExecutor(workers) as pool:
        # The longest first, so that no worker is left alone with them in the end.
        for _ in pool.map(work, reversed(batches)):
            pass


def one_core_a_batch() -> None:
    """Has every operation run on one core, in the whole process, from before its first operation.

    Batches that share their cores operation by operation wait for each other at every one: two of
    a small model take up to twice as long. One batch alone would hardly gain by more cores, as
    what a few rows need is too little to divide.
    """
    if not gpu.has_gpu():
        tf.config.threading.set_intra_op_parallelism_threads(1)
