"""From a token store to padded batches: a tf.data pipeline over a plan of indices."""

import gin
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from t2t_repro.data.batch_shapes import choose_shapes
from t2t_repro.data.bucketing import PaddingReport, assign_shapes, padding_report
from t2t_repro.data.shuffling import EpochPlan, epoch_plan
from t2t_repro.data.token_store import TokenStore
from t2t_repro.ranges import check_range

# Tensor cores take eight numbers at a time.
_LENGTH_MULTIPLE_OF_XLA = 8


@gin.configurable(denylist=["store", "max_length", "seed", "compiled"])
class Batches:
    """The batches of a training run, a pure function of (seed, epoch, batch).

    Args:
        store: the training sentences.
        max_length: ids of the longest sentence there may be, on either side.
        seed: of the shuffling.
        compiled: whether XLA compiles what the batches go to.
        tokens_per_batch: padded source tokens, and as many padded target tokens, of a global
            batch at most (paper, section 5.1: about 25,000 each).
        max_shapes: most shapes a batch may have.
        row_multiple: a batch's rows are a multiple of it, so that as many devices can share it.
        length_multiple: a batch's lengths are multiples of it; by default 8 where XLA compiles,
            for the sake of tensor cores, and 1 elsewhere. Other lengths make other batches.

    Raises:
        UserError: one of these is below 1, or `tokens_per_batch` is too low for the longest
            sentences.
    """

    def __init__(
        self,
        store: TokenStore,
        max_length: int,
        seed: int,
        compiled: bool = False,
        tokens_per_batch: int = 25_000,
        max_shapes: int = 12,
        row_multiple: int = 8,
        length_multiple: int | None = None,
    ) -> None:
        if length_multiple is None:
            length_multiple = _LENGTH_MULTIPLE_OF_XLA if compiled else 1
        check_range("Batches.tokens_per_batch", tokens_per_batch, least=1)
        check_range("Batches.max_shapes", max_shapes, least=1)
        check_range("Batches.row_multiple", row_multiple, least=1)
        check_range("Batches.length_multiple", length_multiple, least=1)
        self._store = store
        self._seed = seed
        self.shapes = choose_shapes(
            store.source_lengths,
            store.target_lengths,
            tokens_per_batch=tokens_per_batch,
            max_shapes=max_shapes,
            row_multiple=row_multiple,
            length_multiple=length_multiple,
            max_length=max_length,
        )
        self._planned: tuple[int, EpochPlan] | None = None
        self._assignment = assign_shapes(self.shapes, store.source_lengths, store.target_lengths)

    def report(self) -> PaddingReport:
        """Counts real tokens and padding of an epoch."""
        return padding_report(self.shapes, self._store.source_lengths, self._store.target_lengths)

    def plan(self, epoch: int) -> EpochPlan:
        """Returns the batches of an epoch: every sentence once."""
        if self._planned is None or self._planned[0] != epoch:
            plan = epoch_plan(self.shapes, self._assignment, self._seed, epoch)
            self._planned = epoch, plan
        return self._planned[1]

    def count_tokens(self, epoch: int, batch: int, slices: int) -> tuple[int, int]:
        """Counts the real and the padded tokens of source and target of a batch together."""
        plan = self.plan(epoch)
        indices, shape = plan.batch(batch), self.shapes[plan.shape_of_batch[batch]]
        store = self._store
        real = store.source_lengths[indices].sum() + store.target_lengths[indices].sum()
        rows = -(-shape.rows // slices) * slices
        return int(real), rows * (shape.source_length + shape.target_length)

    def epoch(
        self, epoch: int, first_batch: int, slices: int, own_slices: range | None = None
    ) -> tf.data.Dataset:
        """Returns the padded batches of an epoch, from `first_batch` on.

        Row i of a batch goes to slice i mod slices; rows are added, of PAD alone, until all
        slices have as many.

        Args:
            epoch: counted from 0.
            first_batch: how many batches of the epoch to skip; costs nothing.
            slices: how many slices a batch is cut into.
            own_slices: those that are wanted, and read; all by default.

        Returns:
            a data set of (source, target) [own slices, rows, length] int32.
        """
        plan = self.plan(epoch)
        own = range(slices) if own_slices is None else own_slices

        def assemble(batch: NDArray) -> tuple[NDArray, ...]:
            shape = self.shapes[plan.shape_of_batch[batch]]
            rows = -(-shape.rows // slices)
            indices = np.full(rows * slices, -1, np.int64)
            chosen = plan.batch(int(batch))
            indices[: len(chosen)] = chosen
            indices = indices.reshape(rows, slices).T[own.start : own.stop].ravel()
            ids = self._store.padded_batch(
                indices, shape.source_length, shape.target_length, len(indices)
            )
            return tuple(side.reshape(len(own), rows, -1) for side in ids)

        def to_tensors(batch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            tensors = tf.numpy_function(assemble, [batch], (tf.int32, tf.int32))
            for tensor in tensors:
                tensor.set_shape([len(own), None, None])
            return tuple(tensors)

        numbers = tf.data.Dataset.range(first_batch, len(plan))
        return numbers.map(to_tensors, num_parallel_calls=2, deterministic=True).prefetch(4)
