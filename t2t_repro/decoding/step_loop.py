"""The loop of a search: one step after the other, until all sentences are done.

Every row of the batch has its own length limit and stops by itself, so a sentence's translation
does not depend on the batch that it is decoded in.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from t2t_repro.decoding.search import Cache, StepModel

SEGMENT = 16
"""The number of steps after which finished sentences are removed from the batch."""


class Row(NamedTuple):
    """The constants of each active sentence.

    Attributes:
        limits: [active] int32, the most ids of a translation.
        known: nested tensors [active, ...], anything else that the search needs.
    """

    limits: tf.Tensor
    known: Any


Advance = Callable[[Any, tf.Tensor, tf.Tensor, Row], Any]
"""(state, logits [active, beam, vocab], step, row) -> the state after that step."""

IsDone = Callable[[Any, tf.Tensor | int, Row], tf.Tensor]
"""(state, step, row) -> which rows cannot gain from another step, [active] bool."""


class _Active(NamedTuple):
    """The sentences of the batch that are not done."""

    places: tf.Tensor  # [active]: their rows in the batch
    row: Row
    state: Any
    cache: Cache


class StepLoop(NamedTuple):
    """Lets a model score the next ids and a search choose among them, until all rows are done.

    A row that is done does not change while others go on, and is removed from the batch after at
    most `SEGMENT` steps.

    Attributes:
        model: scores the next id. It may be called with rows that are done; its results for them
            are ignored.
        advance: chooses.
        is_done: tells which rows are done.
    """

    model: StepModel
    advance: Advance
    is_done: IsDone

    def run(self, cache: Cache, row: Row, state: Any) -> tuple[tf.Tensor, Any]:
        """Runs all steps.

        Works eagerly, and in a `tf.function` where all dimensions but beam and vocab are unknown.

        Args:
            cache: of the model before step 0, without room.
            row: of every sentence of the batch.
            state: before step 0.

        Returns:
            the number of steps, and the final state of the whole batch.
        """

        def is_any_left(step: tf.Tensor, search: _Active, results: Any) -> tf.Tensor:
            return tf.size(search.places) > 0

        def advance(step: tf.Tensor, search: _Active, results: Any) -> tuple:
            search = search._replace(cache=self.model.make_room(search.cache, SEGMENT))
            step, search = self._segment(step, search)
            # [active, 1]
            places = search.places[:, None]
            results = tf.nest.map_structure(
                lambda result, value: tf.tensor_scatter_nd_update(result, places, value),
                results,
                search.state,
            )
            return step, self._without_done(step, search), results

        places = tf.range(tf.shape(row.limits)[0])
        search = self._without_done(0, _Active(places, row, state, cache))
        steps, _, results = tf.while_loop(
            is_any_left,
            advance,
            (tf.constant(0), search, state),
            shape_invariants=(
                tf.TensorShape([]),
                _shapes_in_any_segment(search, self.model.make_room(search.cache, SEGMENT)),
                tf.nest.map_structure(lambda tensor: tensor.shape, state),
            ),
        )
        return steps, results

    def _segment(self, first_step: tf.Tensor, search: _Active) -> tuple[tf.Tensor, _Active]:
        """Runs `SEGMENT` steps, or fewer if all rows are done earlier."""
        row = search.row

        def goes_on(step: tf.Tensor, state: Any, cache: Cache) -> tf.Tensor:
            done = self.is_done(state, step, row)
            return (step < first_step + SEGMENT) & ~tf.reduce_all(done)

        def advance(step: tf.Tensor, state: Any, cache: Cache) -> tuple:
            logits, new_cache = self.model.step(state.last_ids, state.parents, step, cache)
            new_state = self.advance(state, logits, step, row)
            done = self.is_done(state, step, row)
            state = tf.nest.map_structure(
                lambda old, new: where_row(done, old, new), state, new_state
            )
            # Some models lose the static shape, which the loop needs.
            cache = tf.nest.map_structure(
                lambda old, new: tf.ensure_shape(new, old.shape), cache, new_cache
            )
            return step + 1, state, cache

        step, state, cache = tf.while_loop(
            goes_on, advance, (first_step, search.state, search.cache)
        )
        return step, search._replace(state=state, cache=cache)

    def _without_done(self, step: int | tf.Tensor, search: _Active) -> _Active:
        """Removes the rows that are done from the batch."""
        left = tf.where(~self.is_done(search.state, step, search.row))[:, 0]

        def gather() -> _Active:
            return tf.nest.map_structure(lambda tensor: tf.gather(tensor, left), search)

        return tf.cond(tf.size(left) < tf.size(search.places), gather, lambda: search)


def where_row(is_old: tf.Tensor, old: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
    """Selects rows: from old where is_old ([batch]), else from new ([batch, ...])."""
    return tf.where(tf.reshape(is_old, [-1] + [1] * (old.shape.rank - 1)), old, new)


def _shapes_in_any_segment(search: _Active, roomier_cache: Cache) -> Any:
    """Returns the shapes with the dimensions that change between segments left open."""

    def common(one: tf.Tensor, other: tf.Tensor) -> tf.TensorShape:
        shape = one.shape.most_specific_compatible_shape(other.shape)
        return tf.TensorShape([None]).concatenate(shape[1:])

    return tf.nest.map_structure(common, search, search._replace(cache=roomier_cache))
