"""The loop of a search: one step after the other, until all sentences are done.

Every row of the batch has its own length limit and stops by itself, so a sentence's translation
does not depend on the batch that it is decoded in.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from t2t_repro.decoding.search import Cache, DecodingConstraints, SearchResult, StepModel
from t2t_repro.vocabulary import PAD_ID

SEGMENT = 16
"""The number of steps after which finished sentences are removed from the batch."""


class SentenceConstants(NamedTuple):
    """The constants of each active sentence, one row each.

    Attributes:
        max_target_lengths: [active] int32, the most ids of a translation.
        prefix: ([active, prefix_length] int32,); () without prefixes, as None is not a tensor.
        extra: nested tensors [active, ...], anything else that the search needs.
    """

    max_target_lengths: tf.Tensor
    prefix: tuple[tf.Tensor, ...]
    extra: Any


class _Active(NamedTuple):
    """The sentences of the batch that are not done."""

    batch_rows: tf.Tensor  # [active] int32: their rows in the batch
    row: SentenceConstants
    state: Any
    cache: Cache


@dataclass(frozen=True)
class StepLoop(ABC):
    """A search for the translations of a batch, one step after the other.

    At each step a model scores the next ids and the search chooses, until all rows are done. A row
    that is done does not change while others go on, and is removed from the batch after at most
    `SEGMENT` steps.

    Attributes:
        settings: the search's settings.
        model: scores the next id. It may be called with rows that are done; its results for them
            are ignored.
        cache, max_target_lengths, max_steps, n_best, constraints: see `Search.search`.
    """

    settings: Any
    model: StepModel
    cache: Cache
    max_target_lengths: tf.Tensor
    max_steps: int | tf.Tensor
    n_best: int | tf.Tensor
    constraints: DecodingConstraints

    @abstractmethod
    def begin(self, batch: tf.Tensor) -> Any:
        """Returns the state of `batch` sentences before step 0."""

    @abstractmethod
    def advance(
        self, state: Any, logits: tf.Tensor, step: tf.Tensor, row: SentenceConstants
    ) -> Any:
        """Returns the state after a step, from the state and float32 logits [active, beam, vocab].

        The state has `last_ids` and `parents`, the arguments of `StepModel.step`.
        """

    @abstractmethod
    def is_done(self, state: Any, step: tf.Tensor | int, row: SentenceConstants) -> tf.Tensor:
        """Returns which rows cannot gain from another step, [active] bool."""

    @abstractmethod
    def results(self, state: Any) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns ids [batch, beam, max_steps], scores [batch, beam] and finished [batch]."""

    def extra_constants(self) -> Any:
        """Returns `SentenceConstants.extra` of the whole batch."""
        return ()

    def run(self) -> SearchResult:
        """Searches until all rows are done, and returns the `n_best` hypotheses of each.

        After each segment of `SEGMENT` steps, the state of the active rows is copied into that of
        the batch. Only rows that are not done are active in the next segment.

        Works eagerly, and in a `tf.function` where all dimensions but beam and vocab are unknown.
        """
        batch = tf.shape(self.max_target_lengths)[0]
        prefixes = () if self.constraints.prefix is None else (self.constraints.prefix,)
        row = SentenceConstants(self.max_target_lengths, prefixes, self.extra_constants())
        state = self.begin(batch)
        # Some rows may be done already; under XLA, the loop would never end with them in it.
        search = self._without_done(0, _Active(tf.range(batch), row, state, self.cache))
        search_shapes = _shapes_in_any_segment(search, self.model.make_room(search.cache, SEGMENT))
        state_shapes = tf.nest.map_structure(lambda tensor: tensor.shape, state)
        steps, _, state = tf.while_loop(
            lambda step, search, batch_state: tf.size(search.batch_rows) > 0,
            self._run_segment,
            (tf.constant(0), search, state),
            shape_invariants=(tf.TensorShape([]), search_shapes, state_shapes),
        )
        ids, scores, finished = self.results(state)
        return SearchResult(ids[:, : self.n_best], scores[:, : self.n_best], finished, steps)

    def _run_segment(self, step: tf.Tensor, search: _Active, batch_state: Any) -> tuple:
        """Runs the active rows for a segment, and copies their state into that of the batch.

        Returns the next step, the rows that are not done, and the batch's state.
        """
        search = search._replace(cache=self.model.make_room(search.cache, SEGMENT))
        step, search = self._run_steps(step, search)
        # [active, 1], as the scatter needs them.
        indices = search.batch_rows[:, None]

        def updated(whole: tf.Tensor, active: tf.Tensor) -> tf.Tensor:
            return tf.tensor_scatter_nd_update(whole, indices, active)

        batch_state = tf.nest.map_structure(updated, batch_state, search.state)
        return step, self._without_done(step, search), batch_state

    def _run_steps(self, first: tf.Tensor, search: _Active) -> tuple[tf.Tensor, _Active]:
        """Runs `SEGMENT` steps, or fewer if all rows are done; returns the step after the last."""

        def goes_on(step: tf.Tensor, state: Any, cache: Cache) -> tf.Tensor:
            return (step < first + SEGMENT) & ~tf.reduce_all(self.is_done(state, step, search.row))

        run_step = partial(self._run_step, search.row)
        step, state, cache = tf.while_loop(goes_on, run_step, (first, search.state, search.cache))
        return step, search._replace(state=state, cache=cache)

    def _run_step(self, row: SentenceConstants, step: tf.Tensor, state: Any, cache: Cache) -> tuple:
        """Runs a step; returns the next step, the new state and the new cache."""
        scores, new_cache = self.model.step(state.last_ids, state.parents, step, cache)
        logits = tf.cast(scores, tf.float32)
        if self.constraints.free:
            # The first `free` ids of a prefix have probability 1: log P(id) = 0.
            forced = prefix_id(row.prefix[0], step)
            certain = tf.one_hot(forced, logits.shape[-1], 0.0, float("-inf"))[:, None]
            logits = tf.where(step < self.constraints.free, certain, logits)
        new_state = self.advance(state, logits, step, row)
        done = self.is_done(state, step, row)
        state = tf.nest.map_structure(partial(where_row, done), state, new_state)
        # Some models lose the static shape, which the loop needs.
        cache = tf.nest.map_structure(
            lambda old, new: tf.ensure_shape(new, old.shape), cache, new_cache
        )
        return step + 1, state, cache

    def _without_done(self, step: int | tf.Tensor, search: _Active) -> _Active:
        """Returns `search` with only the rows that are not done at this step."""
        active = tf.where(~self.is_done(search.state, step, search.row))[:, 0]

        def gather_active() -> _Active:
            return tf.nest.map_structure(lambda tensor: tf.gather(tensor, active), search)

        return tf.cond(tf.size(active) < tf.size(search.batch_rows), gather_active, lambda: search)


def prefix_id(prefix: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
    """Returns the ids [batch] of prefixes [batch, prefix_length] at a step; PAD after their end."""
    is_here = tf.range(tf.shape(prefix)[1]) == step
    # PAD is 0, so the sum is the id at this step.
    return tf.reduce_sum(tf.where(is_here, prefix, PAD_ID), axis=1)


def where_row(is_old: tf.Tensor, old: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
    """Selects each row of a result [batch, ...] from `old` where `is_old` [batch], else `new`."""
    return tf.where(tf.reshape(is_old, [-1] + [1] * (old.shape.rank - 1)), old, new)


def _shapes_in_any_segment(search: _Active, longer_cache: Cache) -> Any:
    """Returns an `_Active` of shapes, with None for dimensions that differ between segments.

    These are axis 0, the active rows, and the lengths that grow from the search's cache to
    `longer_cache`, the same with room for one more segment.
    """

    def common_shape(before: tf.Tensor, after: tf.Tensor) -> tf.TensorShape:
        shape = before.shape.most_specific_compatible_shape(after.shape)
        return tf.TensorShape([None]).concatenate(shape[1:])

    return tf.nest.map_structure(common_shape, search, search._replace(cache=longer_cache))
