"""From a token store to padded batches: a tf.data pipeline over a plan of indices."""

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

import gin
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from t2t_repro.config.values import Count, Range, validated
from t2t_repro.data.batch_shapes import BatchShape, choose_shapes, slots_needed
from t2t_repro.data.epoch_plan import EpochPlan, epoch_plan
from t2t_repro.data.epoch_store import EpochStores, Segmentation, Segmented
from t2t_repro.data.mixing import EpochMixture
from t2t_repro.data.token_store import TokenStore
from t2t_repro.data.untuned import untuned


@dataclass(frozen=True)
class CorpusReport:
    """What an epoch holds of one corpus of a mixture.

    Attributes:
        sentences: number of sentence pairs.
        source_tokens: source ids, EOS included.
        target_tokens: likewise.
    """

    sentences: int
    source_tokens: int
    target_tokens: int


@dataclass(frozen=True)
class EpochReport:
    """What the first epoch holds; later ones hold the same, in almost as many batches.

    Of a mixture they hold as many sentences of every corpus, but others, and so almost as many
    tokens. Where every epoch is segmented anew, tokens and batches are an estimate.

    Attributes:
        sentences: number of sentence pairs.
        micro_batches: of a batch.
        shapes: number of shapes.
        batches: number of batches.
        source_tokens: source ids, EOS included, padding not.
        target_tokens: likewise.
        capacity: source and target vectors that a compiled program computes for all batches.
        corpora: of a mixture, what is each corpus's, by its name.
    """

    sentences: int
    micro_batches: int
    shapes: int
    batches: int
    source_tokens: int
    target_tokens: int
    capacity: int
    corpora: Mapping[str, CorpusReport] = field(default_factory=dict)

    @property
    def real_share(self) -> float:
        """The share of slots that hold a token, between 0 and 1."""
        return (self.source_tokens + self.target_tokens) / self.capacity

    def __str__(self) -> str:
        return (
            f"{self.sentences:,} sentence pairs in {self.batches:,} batches of {self.shapes} "
            f"shapes: {self.real_share:.1%} real tokens, on average "
            f"{self.source_tokens / self.batches:,.0f} source and "
            f"{self.target_tokens / self.batches:,.0f} target tokens a batch"
        ) + "".join(
            f"; {name} {of_one.sentences / self.sentences:.2%} of sentences "
            f"({of_one.sentences:,}), {of_one.source_tokens / self.source_tokens:.2%} of source, "
            f"{of_one.target_tokens / self.target_tokens:.2%} of target tokens"
            for name, of_one in self.corpora.items()
        )


@gin.configurable(denylist=["store", "seed", "micro_batches", "is_static", "mixing", "data"])
@validated
class Batches:
    """The batches of a training run, a pure function of (seed, epoch, batch).

    Args:
        store: the training sentences.
        seed: of the shuffling.
        micro_batches: how many slices a batch has; see `TrainStep`.
        is_static: whether slices have the shapes that a compiler knows. Otherwise rows, columns
            and slots that are empty are cut off.
        tokens_per_batch: real source tokens, or real target tokens where there are more of them,
            of a full global batch (paper, section 5.1: about 25,000 each).
        max_shapes: most shapes a slice may have, 100 at most.
        mixing: which sentences of the store an epoch has; every one once by default.
        segmentation: segments all sentences anew in every epoch, such as `SubwordDropout`; shapes
            have room for what becomes longer, see `EpochStores`.
        data: what `store` was prepared with; only a segmentation needs it.

    Attributes:
        shapes: of slices.

    Raises:
        UserError: a number is below 1, `tokens_per_batch` is too low for the longest sentence, or
            the subwords cannot be segmented so.
        ValueError: there is a segmentation, but no data.
    """

    def __init__(
        self,
        store: TokenStore,
        seed: int,
        micro_batches: int = 1,
        is_static: bool = False,
        tokens_per_batch: Count = 25_000,
        max_shapes: Annotated[int, Range(least=1, most=100)] = 6,
        mixing: EpochMixture | None = None,
        segmentation: Segmentation | None = None,
        data: Segmented | None = None,
    ) -> None:
        self._store = store
        self._lengths = store.source_lengths, store.target_lengths
        self._seed = seed
        self._slices = micro_batches
        self._is_static = is_static
        self._mixing = mixing
        self._stores: EpochStores | None = None
        tokens_per_slice = tokens_per_batch // micro_batches
        if segmentation is not None:
            if data is None:
                raise ValueError("a segmentation is given, but no data: expected both.")
            segmenters = segmentation.segmenters(data.subwords, seed)
            if segmenters != (None, None):
                longest = min(data.max_length, tokens_per_slice)
                self._stores = EpochStores(
                    store, segmenters, self._sentences, longest, segmentation.workers
                )
                self._lengths = self._stores.expected_lengths
        self.shapes = choose_shapes(
            *self._lengths, tokens_per_slice=tokens_per_slice, max_shapes=max_shapes
        )
        self._planned: _Planned | None = None

    def close(self) -> None:
        """Ends what is done in the background."""
        if self._stores:
            self._stores.close()

    def report(self) -> EpochReport:
        """Counts tokens and slots of the first epoch."""
        plan = self._expected_plan(0) if self._stores else self.plan(0)
        source_tokens, target_tokens = self._count(plan.order)
        capacity = np.array([sum(shape.capacity) for shape in self.shapes])
        corpora = self._mixing.corpora if self._mixing else {}
        return EpochReport(
            sentences=len(plan.order),
            micro_batches=self._slices,
            shapes=len(self.shapes),
            batches=len(plan),
            source_tokens=source_tokens,
            target_tokens=target_tokens,
            capacity=int(capacity[plan.shape_of_batch].sum()) * self._slices,
            corpora={name: self._report_on(own, plan.order) for name, own in corpora.items()},
        )

    def _report_on(self, own: range, order: NDArray[np.int64]) -> CorpusReport:
        """What an order has of some sentences."""
        taken = order[(order >= own.start) & (order < own.stop)]
        return CorpusReport(len(taken), *self._count(taken))

    def _count(self, indices: NDArray[np.int64]) -> tuple[int, int]:
        """The source and the target tokens of sentences."""
        source, target = (int(side[indices].sum()) for side in self._lengths)
        return source, target

    def plan(self, epoch: int) -> EpochPlan:
        """Returns the batches of an epoch: every sentence once, or as they are mixed."""
        return self._of_epoch(epoch).plan

    def _of_epoch(self, epoch: int) -> "_Planned":
        if self._planned is None or self._planned.epoch != epoch:
            if self._stores:
                store = self._stores(epoch)
                plan = self._new_plan(epoch, store.source_lengths, store.target_lengths)
            else:
                store, plan = self._store, self._expected_plan(epoch)
            self._planned = _Planned(epoch, store, plan)
        return self._planned

    def _expected_plan(self, epoch: int) -> EpochPlan:
        """The batches of an epoch whose sentences are as long as expected."""
        if self._mixing is None:
            return self._new_plan(epoch, *self._lengths)
        taken = self._sentences(epoch)
        plan = self._new_plan(epoch, *(side[taken] for side in self._lengths))
        return replace(plan, order=taken[plan.order])

    def _new_plan(self, epoch: int, source: NDArray, target: NDArray) -> EpochPlan:
        return epoch_plan(self.shapes, source, target, self._slices, self._seed, epoch)

    def _sentences(self, epoch: int) -> NDArray[np.int64]:
        """The sentences of an epoch, as the store numbers them; rising."""
        return self._mixing.sentences(epoch) if self._mixing else np.arange(len(self._store))

    def count_tokens(self, epoch: int, batch: int) -> int:
        """Counts the tokens of source and target of a batch together, padding left out."""
        planned = self._of_epoch(epoch)
        indices, store = planned.plan.sentences(batch), planned.store
        return int(store.source_lengths[indices].sum() + store.target_lengths[indices].sum())

    def epoch(
        self, epoch: int, first_batch: int, own_slices: range | None = None
    ) -> tf.data.Dataset:
        """Returns the padded batches of an epoch, from `first_batch` on.

        Args:
            epoch: counted from 0.
            first_batch: how many batches of the epoch to skip; costs nothing.
            own_slices: those that are wanted, and read; all by default.

        Returns:
            a data set of source and target [own slices, rows, length], and slots [2], int32: what
            `TrainStep` asks for.

        Raises:
            ValueError: slices are asked for that there are not.
        """
        planned = self._of_epoch(epoch)
        own = range(self._slices) if own_slices is None else own_slices
        if own.stop > self._slices:
            raise ValueError(f"own_slices is {own}, expected some of {self._slices} slices.")

        # TensorFlow keeps the function of `numpy_function`, and all that it refers to, until the
        # process ends. So that refers to the epoch weakly: the data set alone keeps it.
        of_data_set = weakref.ref(planned)
        nothing = (*[np.zeros((len(own), 1, 1), np.int32)] * 2, np.zeros(2, np.int32))

        def assemble(batch: NDArray) -> tuple[NDArray, ...]:
            if (epoch := of_data_set()) is None:
                # Read ahead for a data set that is gone.
                return nothing
            micro_batches = epoch.plan.micro_batches(int(batch))[own.start : own.stop]
            shape = self.shapes[epoch.plan.shape_of_batch[batch]]
            return self._assemble(epoch.store, micro_batches, shape)

        def to_tensors(batch: tf.Tensor) -> tuple[tf.Tensor, ...]:
            source, target, capacity = tf.numpy_function(assemble, [batch], [tf.int32] * 3)
            for tensor in (source, target):
                tensor.set_shape([len(own), None, None])
            capacity.set_shape([2])
            return source, target, capacity

        numbers = tf.data.Dataset.range(first_batch, len(planned.plan))
        batches = numbers.map(to_tensors, num_parallel_calls=2, deterministic=True)
        data_set = untuned(batches.prefetch(4))
        # An iterator refers to its data set, and that to those that it is made of.
        data_set.planned = planned
        return data_set

    def _assemble(
        self, store: TokenStore, micro_batches: list[NDArray[np.int64]], shape: BatchShape
    ) -> tuple[NDArray, ...]:
        """Makes the arrays of some slices, given as sentence indices."""
        rows, (source_length, target_length) = shape.rows, shape.lengths
        if not self._is_static:
            together = np.concatenate(micro_batches)
            rows = max(1, *map(len, micro_batches))
            source_length, target_length = (
                int(side[together].max(initial=1))
                for side in (store.source_lengths, store.target_lengths)
            )
        indices = np.full((len(micro_batches), rows), -1, np.int64)
        for row, of_slice in zip(indices, micro_batches, strict=True):
            row[: len(of_slice)] = of_slice
        padded = store.padded_batch(indices.ravel(), source_length, target_length, indices.size)
        source, target = (side.reshape(*indices.shape, -1) for side in padded)
        capacity = (
            np.array(shape.capacity, np.int32) if self._is_static else slots_needed(source, target)
        )
        return source, target, capacity


@dataclass(frozen=True, eq=False)
class _Planned:
    """An epoch.

    Attributes:
        epoch: counted from 0.
        store: its sentences.
        plan: its batches, of the store's sentences.
    """

    epoch: int
    store: TokenStore
    plan: EpochPlan
