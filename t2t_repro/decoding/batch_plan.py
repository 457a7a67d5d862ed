"""Which sentences are decoded together, and how many batches at a time, within the memory."""

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow as tf
from numpy.typing import NDArray

from t2t_repro.data.bucketing import group_by_length
from t2t_repro.decoding.available_memory import available_memory, gigabytes
from t2t_repro.errors import UserError

# A configuration may be a stranger's. The base model takes a third of it with 1024 hypotheses.
_MOST_BYTES = 2**34


@dataclass(frozen=True)
class BatchPlanner:
    """Groups sentences into batches of similar length.

    Attributes:
        tokens_per_batch: source subwords times beam size of a batch at most.
        workers: batches decoded at the same time at most.
        beam_size: hypotheses of a sentence.
        bytes_of: the memory that a sentence of so many source ids takes at most.
    """

    tokens_per_batch: int
    workers: int
    beam_size: int
    bytes_of: Callable[[int], int]

    def batches(self, sources: Sequence[Sequence[int]], memory: int) -> list[NDArray]:
        """Groups the numbers of the sentences that are not blank by length, shortest first.

        As many batches for every worker, as even as the lengths allow.

        Args:
            sources: ids of the sentences.
            memory: bytes for all workers; a sentence that takes more than its share is alone.
        """
        widths = [self._width(len(ids), memory // self.workers) for ids in sources]
        fewest = len(group_by_length(widths, self.tokens_per_batch))
        wanted = -(-fewest // self.workers) * self.workers
        budgets = range(max([*widths, 1]), self.tokens_per_batch)
        even = bisect.bisect_left(
            budgets, True, key=lambda budget: len(group_by_length(widths, budget)) <= wanted
        )
        return group_by_length(widths, budgets.start + even if budgets else self.tokens_per_batch)

    def _width(self, length: int, memory: int) -> int:
        """How many of the `tokens_per_batch` a sentence counts as; a blank one is in no batch."""
        share = -(-self.tokens_per_batch * self.bytes_of(length) // max(memory, 1))
        return max(length * self.beam_size, share) if length else 0

    def workers_for(
        self, batches: Sequence[NDArray], sources: Sequence[Sequence[int]], memory: int
    ) -> int:
        """Returns how many batches may be decoded at the same time, so that all have the memory."""
        largest = max(
            (len(batch) * self.bytes_of(len(sources[batch[-1]])) for batch in batches), default=1
        )
        return max(1, min(self.workers, memory // largest))

    def memory_for(self, length: int) -> int:
        """Returns what the batches decoded at the same time may take, in bytes.

        Args:
            length: of the longest sentence, for which there has to be enough.

        Raises:
            UserError: there is not.
        """
        needed, memory = self.bytes_of(length), _free_memory()
        if needed > memory:
            raise UserError(
                f"a sentence of {length} subwords takes up to {gigabytes(needed)} with "
                f"beam_size={self.beam_size}, expected at most {gigabytes(memory)}, half "
                "of what is free: bind a smaller BeamSearch.beam_size, Sampling.samples or "
                "Translator.max_source_length."
            )
        return memory

    def check_settings(self, max_extra_length: int) -> None:
        """Checks that a sentence of any length could be decoded.

        Raises:
            UserError: the empty one would take more than 16 GB.
        """
        if (least := self.bytes_of(0)) > _MOST_BYTES:
            raise UserError(
                f"with beam_size={self.beam_size} and Translator.max_extra_length="
                f"{max_extra_length} a sentence takes up to {gigabytes(least)}, expected at most "
                f"{gigabytes(_MOST_BYTES)}: bind a smaller BeamSearch.beam_size, or "
                "Sampling.samples, or less."
            )


def _free_memory() -> int:
    available = available_memory()
    # A GPU's is TensorFlow's to count.
    if available is None or tf.config.list_physical_devices("GPU"):
        return _MOST_BYTES
    return min(max(available // 2, 1), _MOST_BYTES)
