"""Padded batches: a tf.data pipeline over the plan of an epoch."""

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from t2t_repro.data.batch_shapes import BatchSettings, EpochStores, capacity_needed, choose_shapes
from t2t_repro.data.corpora.mixture import EpochMixture
from t2t_repro.data.epoch_plan import EpochPlan, epoch_plan
from t2t_repro.data.prepared import PreparedData
from t2t_repro.data.token_store import TokenStore


class Batch(NamedTuple):
    """A batch, or the micro-batches of it that one worker computes.

    Attributes:
        source: [micro_batches, rows, source_length] int32, padded token ids.
        target: [micro_batches, rows, target_length] int32.
        capacity: [2] int32, source and target vectors into which a micro-batch is packed.
    """

    source: tf.Tensor
    target: tf.Tensor
    capacity: tf.Tensor


@dataclass(frozen=True)
class CorpusReport:
    """The size of a corpus in the first epoch.

    Attributes:
        sentences: number of sentence pairs.
        source_tokens: source ids, EOS included, padding not.
        target_tokens: likewise.
    """

    sentences: int
    source_tokens: int
    target_tokens: int


@dataclass(frozen=True)
class EpochReport(CorpusReport):
    """Statistics of the first epoch, also in epoch.json of the model directory.

    Other epochs differ only in the number of batches. Epochs of a mixture also differ in tokens.
    Tokens and batches are an estimate if every epoch is segmented again.

    Attributes:
        micro_batches: number in a batch.
        shapes: number of shapes.
        batches: number of batches.
        capacity: total source and target vectors that a compiled program computes in all batches.
        corpora: statistics of each corpus of a mixture, by name.
    """

    micro_batches: int
    shapes: int
    batches: int
    capacity: int
    corpora: Mapping[str, CorpusReport] = field(default_factory=dict)

    @property
    def real_share(self) -> float:
        """The share of the capacity that holds tokens, between 0 and 1."""
        return (self.source_tokens + self.target_tokens) / self.capacity

    def __str__(self) -> str:
        """Returns one line: "4,508,785 sentence pairs in 5,210 batches of 6 shapes: ...".

        The shares of each corpus of a mixture follow, each behind "; " and its name.
        """
        line = (
            f"{self.sentences:,} sentence pairs in {self.batches:,} batches of {self.shapes} "
            f"shapes: {self.real_share:.1%} real tokens, on average "
            f"{self.source_tokens / self.batches:,.0f} source and "
            f"{self.target_tokens / self.batches:,.0f} target tokens a batch"
        )
        for name, report in self.corpora.items():
            sentences = f"{report.sentences / self.sentences:.2%} of sentences"
            source = f"{report.source_tokens / self.source_tokens:.2%} of source"
            target = f"{report.target_tokens / self.target_tokens:.2%} of target tokens"
            line += f"; {name} {sentences} ({report.sentences:,}), {source}, {target}"
        return line


@dataclass(eq=False)
class Batches:
    """The batches of a training run, a pure function of (seed, epoch, batch).

    Attributes:
        store: the training sentences.
        settings: bound by gin.
        seed: seed of the shuffling.
        micro_batches: number in a batch; see `TrainStep`.
        is_static: whether micro-batches have the static shapes that a compiler needs. Otherwise
            empty rows, columns and capacity are cut off.
        mixture: chooses the sentences of an epoch; every sentence once by default.
        data: the data of `store`; only a segmentation needs them.
        shapes: the shapes of micro-batches.

    Raises:
        UserError: the longest sentence does not fit a micro-batch, or the subwords cannot be
            segmented in this way.
    """

    store: TokenStore
    settings: BatchSettings
    seed: int
    micro_batches: int = 1
    is_static: bool = False
    mixture: EpochMixture | None = None
    data: PreparedData | None = None

    def __post_init__(self) -> None:
        tokens = self.settings.tokens_per_batch // self.micro_batches
        self._planned: _PlannedEpoch | None = None
        self._store_maker: EpochStores | None = None
        if self.settings.segmentation:
            assert self.data, "a segmentation needs the data's subwords"
            # A sentence that becomes longer must still fit a micro-batch.
            longest = min(self.data.max_length, tokens)
            self._store_maker = self.settings.segmentation.epoch_stores(
                self.store, self.data.subwords, self.seed, self._sentences, longest
            )
        prepared = self.store.source_lengths, self.store.target_lengths
        # Of source and target, [sentences] each, indexed like `store`.
        self._lengths = self._store_maker.expected_lengths if self._store_maker else prepared
        self.shapes = choose_shapes(
            *self._lengths, tokens_per_micro_batch=tokens, max_shapes=self.settings.max_shapes
        )

    def close(self) -> None:
        """Ends background work."""
        if self._store_maker:
            self._store_maker.close()

    def report(self) -> EpochReport:
        """Returns statistics of the first epoch."""
        # An estimate with a segmentation: the exact plan would need the epoch's token store.
        plan = self._expected_plan(0) if self._store_maker else self.plan(0)
        # Of a micro-batch of each shape, source and target together.
        capacities = np.array([sum(shape.capacity) for shape in self.shapes])
        corpora: dict[str, CorpusReport] = {}
        if self.mixture:
            for name, stored in self.mixture.corpora.items():
                taken = plan.order[(plan.order >= stored.start) & (plan.order < stored.stop)]
                corpora[name] = CorpusReport(*self._sizes(taken))
        return EpochReport(
            *self._sizes(plan.order),
            micro_batches=self.micro_batches,
            shapes=len(self.shapes),
            batches=len(plan),
            capacity=int(capacities[plan.shape_of_batch].sum()) * self.micro_batches,
            corpora=corpora,
        )

    def _sizes(self, indices: NDArray[np.int64]) -> tuple[int, int, int]:
        """Returns the numbers of sentences, of source tokens and of target tokens."""
        source, target = (int(side[indices].sum()) for side in self._lengths)
        return len(indices), source, target

    def plan(self, epoch: int) -> EpochPlan:
        """Returns the plan of an epoch, from 0."""
        return self._planned_epoch(epoch).plan

    def _planned_epoch(self, epoch: int) -> "_PlannedEpoch":
        """Returns an epoch with its store and plan, which are kept until another is asked for."""
        if self._planned is None or self._planned.epoch != epoch:
            if self._store_maker:
                store = self._store_maker(epoch)
                plan = self._plan_from_lengths(epoch, store.source_lengths, store.target_lengths)
            else:
                # Exact: without a segmentation, the expected lengths are those of the store.
                store, plan = self.store, self._expected_plan(epoch)
            self._planned = _PlannedEpoch(epoch, store, plan)
        return self._planned

    def _expected_plan(self, epoch: int) -> EpochPlan:
        """Plans an epoch of `store`, as if its sentences had the lengths that `shapes` are for.

        They have, unless they are segmented again in every epoch.
        """
        sentences = self._sentences(epoch)
        plan = self._plan_from_lengths(epoch, *(side[sentences] for side in self._lengths))
        return replace(plan, order=sentences[plan.order])

    def _plan_from_lengths(self, epoch: int, source: NDArray, target: NDArray) -> EpochPlan:
        """Plans an epoch of sentences with these source and target lengths, [sentences] each."""
        return epoch_plan(self.shapes, source, target, self.micro_batches, self.seed, epoch)

    def _sentences(self, epoch: int) -> NDArray[np.int64]:
        """Returns the indices in the store of an epoch's sentences, [sentences], ascending."""
        return self.mixture.sentences(epoch) if self.mixture else np.arange(len(self.store))

    def count_tokens(self, epoch: int, batch: int) -> int:
        """Returns the number of source and target tokens of a batch together, without padding."""
        planned = self._planned_epoch(epoch)
        lengths = planned.store.source_lengths, planned.store.target_lengths
        indices = planned.plan.sentences(batch)
        return sum(int(side[indices].sum()) for side in lengths)

    def epoch(
        self, epoch: int, first_batch: int, own_micro_batches: range | None = None
    ) -> tf.data.Dataset:
        """Returns the batches of an epoch.

        Args:
            epoch: from 0.
            first_batch: number of batches to skip, at no cost.
            own_micro_batches: the micro-batches of a batch that this worker computes, by their
                numbers from 0; all by default.

        Returns:
            a data set of `Batch`.
        """
        planned = self._planned_epoch(epoch)
        own = range(self.micro_batches) if own_micro_batches is None else own_micro_batches

        # TensorFlow keeps a `numpy_function`, and all that it refers to, until the process ends.
        # So it refers to the epoch weakly, and the data set alone keeps the epoch.
        planned_reference = weakref.ref(planned)

        def read_batch(number: NDArray) -> tuple[NDArray, ...]:
            """Returns the arrays of a batch, by its number [], int64."""
            living = planned_reference()
            if living is None:
                # Read ahead for a data set that was deleted.
                no_ids = np.zeros((len(own), 1, 1), np.int32)
                return no_ids, no_ids, np.zeros(2, np.int32)
            return self._assemble(living, int(number), own)

        def to_tensors(number: tf.Tensor) -> Batch:
            """Returns a batch, by its number."""
            source, target, capacity = tf.numpy_function(read_batch, [number], [tf.int32] * 3)
            # A `numpy_function` does not know the shapes of its results.
            for tensor in (source, target):
                tensor.set_shape([len(own), None, None])
            capacity.set_shape([2])
            return Batch(source, target, capacity)

        numbers = tf.data.Dataset.range(first_batch, len(planned.plan))
        batches = numbers.map(to_tensors, num_parallel_calls=2, deterministic=True).prefetch(4)
        # The thread of tf.data's autotuning sleeps for up to a minute, and the end of an iterator
        # sometimes waits for it (TensorFlow 2.21). There is nothing to tune here.
        options = tf.data.Options()
        options.autotune.enabled = False
        data_set = batches.with_options(options)
        # The reference that keeps the epoch.
        data_set.planned = planned
        return data_set

    def _assemble(self, planned: "_PlannedEpoch", number: int, own: range) -> tuple[NDArray, ...]:
        """Returns the arrays of a `Batch`, by its number, with `own` of its micro-batches.

        Micro-batches with fewer rows than others are filled up with rows of PAD.
        """
        micro_batches = planned.plan.micro_batches(number)[own.start : own.stop]
        shape = self.shapes[planned.plan.shape_of_batch[number]]
        # At least one row: the micro-batches of this worker may all be empty.
        rows = shape.rows if self.is_static else max(1, *map(len, micro_batches))
        # [micro_batches, rows]; the store makes a row of PAD for -1.
        indices = np.full((len(micro_batches), rows), -1, np.int64)
        for row, sentences in zip(indices, micro_batches, strict=True):
            row[: len(sentences)] = sentences
        lengths = shape.lengths if self.is_static else (None, None)
        padded = planned.store.padded_batch(indices.ravel(), lengths)
        source, target = (side.reshape(*indices.shape, -1) for side in padded)
        capacity = shape.capacity if self.is_static else capacity_needed(source, target)
        return source, target, np.array(capacity, np.int32)


@dataclass(frozen=True, eq=False)
class _PlannedEpoch:
    """An epoch with its sentences and batches.

    Attributes:
        epoch: from 0.
        store: the sentences.
        plan: the batches, with indices of sentences in `store`.
    """

    epoch: int
    store: TokenStore
    plan: EpochPlan
