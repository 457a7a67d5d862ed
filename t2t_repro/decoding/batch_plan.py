"""Groups sentences into batches of similar length that fit in memory, and decodes them in parallel.

Each core decodes one batch at a time. TensorFlow is imported inside of the functions that need it:
engines without TensorFlow compute batches too.
"""

import bisect
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from t2t_repro.data.batch_shapes import group_by_length
from t2t_repro.data.parallel import usable_cores
from t2t_repro.errors import UserError
from t2t_repro.progress import Report
from t2t_repro.text.characters import visible
from t2t_repro.vocabulary import PAD_ID

Result = TypeVar("Result")

# The most memory for decoding, 16 GiB. The base model takes a third of it for a sentence with 1024
# hypotheses.
_MOST_BYTES = 2**34


class EncodedSentences(NamedTuple):
    """Encoded sentences of one language.

    Attributes:
        lines: their texts.
        ids: the ids of each, EOS last; beginnings of translations have none. A source or target
            without ids is in no batch.
        truncated: the indices of the sentences that were cut off.
    """

    lines: Sequence[str]
    ids: list[list[int]]
    truncated: set[int]

    @classmethod
    def cut(cls, lines: Sequence[str], ids: list[list[int]], longest: int) -> "EncodedSentences":
        """Cuts long sentences off to `longest` ids, EOS still the last; changes `ids` in place."""
        truncated = {index for index, line_ids in enumerate(ids) if len(line_ids) > longest}
        for index in truncated:
            del ids[index][longest - 1 : -1]
        return cls(lines, ids, truncated)

    def with_blanks_emptied(self) -> "EncodedSentences":
        """Returns the same sentences, but those that are blank, or EOS alone, have no ids."""
        pairs = zip(self.lines, self.ids, strict=True)
        emptied = [ids if visible(line.strip()) and len(ids) > 1 else [] for line, ids in pairs]
        return self._replace(ids=emptied)

    def padded(self, batch: Collection[int]) -> NDArray[np.int32]:
        """Returns the ids of the sentences with these indices (see `padded` below)."""
        return padded([self.ids[index] for index in batch])


class BatchPlanner(NamedTuple):
    """Groups sentences into batches of similar length.

    Attributes:
        tokens_per_batch: the most padded source subwords, times beam size, of a batch.
        workers: the most batches decoded at the same time.
        beam_size: hypotheses of a sentence.
        bytes_of: number of source ids -> the most bytes that decoding such a sentence takes.
    """

    tokens_per_batch: int
    workers: int
    beam_size: int
    bytes_of: Callable[[int], int]

    def plan(self, lengths: Sequence[int]) -> tuple[list[NDArray], int]:
        """Groups sentences by length.

        Blank ones, of length 0, are left out. There are at most as many batches as needed, rounded
        up to a multiple of `workers`, and they are as even as the lengths allow. A sentence that
        takes more memory than a worker's share is a batch by itself.

        Args:
            lengths: the number of ids of each sentence.

        Returns:
            the indices of each batch's sentences, the shortest first; and how many batches fit in
            memory at the same time.

        Raises:
            UserError: the longest sentence does not fit in memory.
        """
        memory = self._memory_for(max(lengths, default=0))
        # Computed once for each length.
        cost_of = {length: self._cost(length, memory // self.workers) for length in {*lengths}}
        costs = [cost_of[length] for length in lengths]
        batches = group_by_length(costs, self._smallest_budget(costs))
        # The last sentence of a batch is the longest.
        sizes = [len(batch) * self.bytes_of(lengths[batch[-1]]) for batch in batches]
        return batches, max(1, min(self.workers, memory // max(sizes, default=1)))

    def _smallest_budget(self, costs: Sequence[int]) -> int:
        """Returns the least budget for which there are no more batches than `plan` allows.

        It makes the batches the most even. It is at most `tokens_per_batch`, even if a sentence
        costs more.
        """
        fewest = len(group_by_length(costs, self.tokens_per_batch))
        # Rounded up to a multiple of `workers`.
        most = -(-fewest // self.workers) * self.workers

        def is_enough(budget: int) -> bool:
            return len(group_by_length(costs, budget)) <= most

        budgets = range(max([*costs, 1]), self.tokens_per_batch)
        # The first budget that is enough: all larger ones are enough, too. If none is, the index is
        # the length of `budgets`, which gives `tokens_per_batch`.
        index = bisect.bisect_left(budgets, True, key=is_enough)
        return budgets.start + index if budgets else self.tokens_per_batch

    def _cost(self, length: int, memory: int) -> int:
        """Returns how much of `tokens_per_batch` a sentence takes up; 0 if it is blank.

        Its ids times beam size, but at least the share that it takes of `memory` bytes.
        """
        memory_tokens = -(-self.tokens_per_batch * self.bytes_of(length) // max(memory, 1))
        return max(length * self.beam_size, memory_tokens) if length else 0

    def _memory_for(self, longest: int) -> int:
        """Returns the bytes that all batches decoded at the same time may take together.

        That is half of the free memory, and at most `_MOST_BYTES`: the latter on a GPU, or if what
        is free is unknown.

        Raises:
            UserError: a sentence of `longest` ids needs more memory than that.
        """
        needed = self.bytes_of(longest)
        # On a GPU, TensorFlow manages memory itself.
        available = None if _has_gpu() else available_memory()
        memory = _MOST_BYTES if available is None else min(max(available // 2, 1), _MOST_BYTES)
        if needed > memory:
            problem = f"a sentence of {longest} subwords takes up to {needed / 1e9:.3g} GB"
            most = f"{memory / 1e9:.3g} GB (half of what is free, up to {_MOST_BYTES / 1e9:.3g} GB)"
            smaller = "beam_size (Sampling.samples) of the search or Translator.max_source_length"
            raise UserError(f"{problem}, expected at most {most}: bind a smaller {smaller}.")
        return memory


def default_workers() -> int:
    """Returns how many batches to decode at the same time: one on a GPU, else one for each core."""
    return 1 if _has_gpu() else usable_cores()


def _has_gpu() -> bool:
    """Returns whether TensorFlow sees a GPU."""
    from t2t_repro.model.kernels.gpu import has_gpu

    return has_gpu()


def compute_batches(
    compute: Callable[[NDArray], Iterable[Result]],
    batches: Sequence[NDArray],
    workers: int,
    results: list[Result],
    report: Report = None,
) -> list[Result]:
    """Computes a result for each sentence, several batches at a time.

    An error in one batch is raised, and the batches that have not begun are not computed.

    Args:
        compute: returns the results of a batch, from the indices of its sentences.
        batches: the indices of each batch's sentences, the shortest sentences first.
        workers: batches at a time.
        results: one for each sentence, overwritten in place and returned; those in no batch stay.
        report: is called after each batch with the share of sentences that are done.
    """

    def fill_in(batch: NDArray) -> None:
        for index, result in zip(batch, compute(batch), strict=True):
            results[index] = result

    # The longest first, so that no worker is left alone with them at the end.
    order = batches[::-1]
    done, total = 0, sum(map(len, batches))
    with ThreadPoolExecutor(workers) as pool:
        # Nothing else holds what `map` returns: an error here cancels the batches that wait.
        for batch, _ in zip(order, pool.map(fill_in, order), strict=True):
            done += len(batch)
            if report:
                report(done / total)
    return results


class EncodedPairs(NamedTuple):
    """Pairs of sentences, which are computed batch by batch.

    Attributes:
        sources: the source of each pair.
        targets: the target of each pair.
        tokens_per_batch: the most padded ids of a batch, on the longer side.
        workers: batches at a time.
    """

    sources: EncodedSentences
    targets: EncodedSentences
    tokens_per_batch: int
    workers: int

    def compute(
        self, function: Callable[[NDArray], Iterable[Result]], blank: Result, report: Report = None
    ) -> list[Result]:
        """Computes a result for each pair.

        Args:
            function: returns the results of a batch, from the indices of its pairs.
            blank: the result where source or target has no ids.
            report: see `compute_batches`.
        """
        pairs = zip(self.sources.ids, self.targets.ids, strict=True)
        lengths = [max(map(len, pair)) if all(pair) else 0 for pair in pairs]
        batches = group_by_length(lengths, self.tokens_per_batch)
        return compute_batches(function, batches, self.workers, [blank] * len(lengths), report)


def limit_operations_to_one_core() -> None:
    """Limits every TensorFlow operation of this process to one core, unless it has a GPU.

    Call it before the first operation. It is for batches that are decoded in parallel. If each used
    all cores, they would wait for each other at every operation: two batches of a small model take
    up to twice as long. One batch alone hardly gains from more cores.
    """
    import tensorflow as tf

    if not _has_gpu():
        # A module of the user's has computed something: it is too late.
        with suppress(RuntimeError):
            tf.config.threading.set_intra_op_parallelism_threads(1)


def padded(sentences: Sequence[Sequence[int]], padding: int = PAD_ID) -> NDArray[np.int32]:
    """Returns the ids of sentences, at least one, as an array [batch, length], padding last."""
    ids = np.full((len(sentences), max(map(len, sentences))), padding, np.int32)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = sentence
    return ids


def available_memory() -> int | None:
    """Returns the free memory in bytes, or None if unknown.

    It is the machine's, or the container's (cgroup v2) if that is lower. Without /proc, as on
    macOS, it is the machine's whole memory.
    """
    limits = []
    # Without /proc there are no containers, either.
    with suppress(OSError, ValueError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        limits += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")]
        limits.append(_container_memory())
    if not limits and {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= os.sysconf_names.keys():
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(limits, default=None)


def _container_memory() -> int:
    """Returns the bytes that are free in the container (cgroup v2).

    Raises:
        OSError: this is no container.
        ValueError: the container has no limit: it is "max".
    """
    cgroup = Path("/sys/fs/cgroup")
    limit = int((cgroup / "memory.max").read_text())
    lines = (cgroup / "memory.stat").read_text().splitlines()
    # The kernel frees its file cache on demand: the lines active_file and inactive_file.
    cached = sum(int(line.split()[1]) for line in lines if "active_file " in line)
    return limit - int((cgroup / "memory.current").read_text()) + cached
