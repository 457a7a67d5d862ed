"""Ancestral sampling: draws translations from the model's own distribution.

Each id is drawn from P(id | source, previous ids). A temperature can sharpen the distribution, and
top-k (Fan et al. 2018) or nucleus sampling (Holtzman et al. 2020) restrict it to the most probable
ids. Used for back-translation (Edunov et al. 2018) and for minimum Bayes risk.
"""

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import gin
import tensorflow as tf

from t2t_repro.config.values import Count, Range, Seed, validated
from t2t_repro.decoding.random_numbers import exponentials, hashed
from t2t_repro.decoding.search import Cache, DecodingConstraints, SearchResult, StepModel, prefix_id
from t2t_repro.decoding.step_loop import Row, StepLoop
from t2t_repro.model.masks import without_ids
from t2t_repro.vocabulary import EOS_ID, PAD_ID


class _State(NamedTuple):
    """The samples after some steps."""

    last_ids: tf.Tensor  # [batch, samples]: EOS from the end of a sample on
    parents: tf.Tensor  # [batch, samples]: each extends itself
    ids: tf.Tensor  # [batch, samples, max_steps]
    log_probs: tf.Tensor  # [batch, samples]


@gin.configurable
@validated
@dataclass(frozen=True)
class Sampling:
    """Draws translations y of a sentence x from P(y | x), independently of each other.

    A sample is a function of the seed, the ids of x and the number of the sample. So it is the same
    in every batch, up to rounding of the model's probabilities.

    The score of a sample is log P(y | x) of the model itself, in nats, for any temperature, top_k
    and nucleus, so that scores can be compared. Samples come in the order in which they were
    drawn: the first n of many are the same as n samples.

    Attributes:
        samples: translations drawn of each sentence.
        temperature: divides the logits. Below 1 probable ids become more probable; near 0 sampling
            is greedy decoding.
        top_k: draws from so many most probable ids; None: from all.
        nucleus: draws from the smallest set of most probable ids that has at least this
            probability (after temperature and top_k); None: from all.
        seed: of the random numbers.

    Raises:
        UserError: a number is outside of its range.
    """

    samples: Annotated[int, Range(least=1, most=1024)] = 1
    temperature: Annotated[float, Range(least=0.001, most=1000)] = 1.0
    top_k: Count | None = None
    nucleus: Annotated[float, Range(above=0, most=1)] | None = None
    seed: Seed = 1

    @property
    def beam_size(self) -> int:
        """The number of translations of a sentence that are drawn side by side."""
        return self.samples

    def search(
        self,
        model: StepModel,
        cache: Cache,
        limits: tf.Tensor,
        max_steps: int | tf.Tensor,
        n_best: int | tf.Tensor = 1,
        constraints: DecodingConstraints | None = None,
    ) -> SearchResult:
        """Draws translations for a batch of sentences.

        Args:
            model: scores the next id.
            cache: of the model before step 0, without room.
            limits: [batch] integers, the most ids that a row may have, EOS included.
            max_steps: width of the result.
            n_best: how many samples are returned.
            constraints: keys, seeds, prefixes and `forbidden`. Scores are normalised.

        Returns:
            See `SearchResult`; every sample exists, finished or not.
        """
        limits = tf.minimum(tf.cast(limits, tf.int32), max_steps)
        constraints = constraints or DecodingConstraints(tf.zeros_like(limits, tf.int64))
        prefix = () if constraints.prefix is None else (constraints.prefix,)

        def advance(state: _State, logits: tf.Tensor, step: tf.Tensor, row: Row) -> _State:
            states, *prefix = row.known
            logits = tf.cast(logits, tf.float32)
            drawn = self._drawn(without_ids(logits, constraints.forbidden), hashed(states, step))
            if prefix:
                (prefix_ids,) = prefix
                forced = prefix_id(prefix_ids, step)[:, None]
                drawn = tf.where(forced != PAD_ID, forced, drawn)
            return _next_state(state, drawn, _log_p(logits, drawn), step)

        def is_done(state: _State, step: tf.Tensor | int, row: Row) -> tf.Tensor:
            return (step >= row.limits) | tf.reduce_all(state.last_ids == EOS_ID, axis=1)

        state = self._initial_state(limits, max_steps)
        row = Row(limits, (self._random_states(constraints), *prefix))
        steps, state = StepLoop(model, advance, is_done).run(cache, row, state)
        return SearchResult(
            ids=state.ids[:, :n_best],
            scores=state.log_probs[:, :n_best],
            finished=tf.reduce_any(state.last_ids == EOS_ID, axis=1),
            steps=steps,
        )

    def _random_states(self, constraints: DecodingConstraints) -> tf.Tensor:
        """Returns a random state for each sample, [batch, samples] int64."""
        seeds = tf.constant(self.seed, tf.int64) if constraints.seeds is None else constraints.seeds
        return hashed(hashed(constraints.keys, seeds)[:, None], tf.range(self.samples))

    def _initial_state(self, limits: tf.Tensor, max_steps: int | tf.Tensor) -> _State:
        batch = limits.shape[0] if limits.shape[0] is not None else tf.shape(limits)[0]
        return _State(
            last_ids=tf.fill([batch, self.samples], PAD_ID),
            parents=tf.tile(tf.range(self.samples)[None], [batch, 1]),
            ids=tf.fill([batch, self.samples, max_steps], PAD_ID),
            log_probs=tf.zeros([batch, self.samples]),
        )

    def _drawn(self, logits: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
        """Draws from logits [batch, samples, vocab], with random states [batch, samples]."""
        vocab = logits.shape[-1]
        if self.temperature != 1:
            logits /= self.temperature
        p = tf.reshape(tf.nn.softmax(logits), [-1, vocab])
        flat = tf.reshape(states, [-1])
        nucleus = None if self.nucleus == 1 else self.nucleus
        if self.top_k is not None and self.top_k < vocab:
            ids = draw_from_top_k(p, flat, self.top_k, nucleus)
        elif nucleus is not None:
            ids = draw_from_nucleus(p, flat, nucleus)
        else:
            ids = draw(p, flat)
        return tf.reshape(ids, tf.shape(states))


def draw(p: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
    """Draws an id with probability p[id] / Σ p.

    Draws E[id] ~ Exp(1) and returns argmin E[id] / p[id], which is id with this probability. (Its
    logarithm is Gumbel-max.) That would take a random number for each id. Here groups of
    neighbouring ids race first, then the ids of the winning group: about 2·√vocab numbers. Unlike
    with an inverse distribution function, rounding errors of other ids hardly matter.

    Args:
        p: [rows, vocab] float32, at least 0; need not sum to 1.
        states: [rows] int64.

    Returns:
        [rows] int32.
    """
    vocab = p.shape[-1]
    size = math.isqrt(vocab - 1) + 1
    count = -(-vocab // size)
    if room := count * size - vocab:
        p = tf.pad(p, [[0, 0], [0, room]])
    groups = tf.reshape(p, [-1, count, size])
    times = exponentials(states[:, None], tf.range(count + size))
    group = _first(tf.reduce_sum(groups, axis=-1), times[:, :count])
    member = _first(tf.gather(groups, group, batch_dims=1), times[:, count:])
    return group * size + member


def draw_from_top_k(
    p: tf.Tensor, states: tf.Tensor, k: int, nucleus: float | None = None
) -> tf.Tensor:
    """Draws from the k most probable ids; ties go to lower ids.

    Args:
        p: [rows, vocab] float32.
        states: [rows] int64.
        k: less than vocab.
        nucleus: draws from the nucleus of those k; see `draw_from_nucleus`.

    Returns:
        [rows] int32.
    """
    p, ids = tf.math.top_k(p, k)
    if nucleus is not None:
        before = tf.cumsum(p, axis=-1, exclusive=True)
        p = tf.where(before < nucleus * tf.reduce_sum(p, axis=-1, keepdims=True), p, 0.0)
    # Times belong to ids, not to ranks, so that rounding in near ties changes nothing.
    winner = _first(p, exponentials(states[:, None], ids))
    return tf.gather(ids, winner, batch_dims=1)


def draw_from_nucleus(p: tf.Tensor, states: tf.Tensor, nucleus: float) -> tf.Tensor:
    """Draws from the smallest set of most probable ids with a probability of at least `nucleus`.

    Nothing is sorted. An id is drawn from all. It belongs to the set if the ids before it (more
    probable, or equal with a lower id) have less than `nucleus` together. Otherwise the set is
    among the ids before it, and the next draw is from these.

    Args:
        p: [rows, vocab] float32, each row a distribution.
        states: [rows] int64.
        nucleus: above 0.

    Returns:
        [rows] int32.
    """
    ids = tf.range(p.shape[-1])

    def is_any_left(count: tf.Tensor, rows: tf.Tensor, p: tf.Tensor, drawn: tf.Tensor) -> tf.Tensor:
        return tf.size(rows) > 0

    def advance(count: tf.Tensor, rows: tf.Tensor, p: tf.Tensor, drawn: tf.Tensor) -> tuple:
        new = draw(p, hashed(tf.gather(states, rows), count))
        drawn = tf.tensor_scatter_nd_update(drawn, rows[:, None], new)
        p_new = tf.gather(p, new, batch_dims=1)[:, None]
        is_before = (p > p_new) | ((p == p_new) & (ids < new[:, None]))
        p_before = tf.where(is_before, p, 0.0)
        left = tf.where(tf.reduce_sum(p_before, axis=-1) >= nucleus)[:, 0]
        return count + 1, tf.gather(rows, left), tf.gather(p_before, left), drawn

    rows = tf.range(tf.shape(p)[0])
    shapes = (tf.TensorShape([]), tf.TensorShape([None]), tf.TensorShape([None, p.shape[-1]]))
    *_, drawn = tf.while_loop(
        is_any_left,
        advance,
        (tf.constant(0), rows, p, tf.zeros_like(rows)),
        shape_invariants=(*shapes, rows.shape),
    )
    return drawn


def _first(p: tf.Tensor, times: tf.Tensor) -> tf.Tensor:
    """Returns the winner of a race, [rows] int32, from rates p and unit times [rows, racers]."""
    return tf.argmax(p / times, axis=-1, output_type=tf.int32)


def _log_p(logits: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Returns the log-probabilities of ids [batch, samples], also where p underflows float32."""
    # The largest p is 1 / Σ exp(z - max z).
    largest, p_largest = (
        tf.reduce_max(of_all, axis=-1) for of_all in (logits, tf.nn.softmax(logits))
    )
    return tf.gather(logits, ids, batch_dims=2) - largest + tf.math.log(p_largest)


def _next_state(state: _State, drawn: tf.Tensor, log_p: tf.Tensor, step: tf.Tensor) -> _State:
    """Appends drawn ids and their log-probabilities [batch, samples] to unfinished samples."""
    has_ended = state.last_ids == EOS_ID
    drawn = tf.where(has_ended, PAD_ID, drawn)
    is_here = tf.range(tf.shape(state.ids)[-1]) == step
    return _State(
        last_ids=tf.where(has_ended, EOS_ID, drawn),
        parents=state.parents,
        ids=tf.where(is_here, drawn[:, :, None], state.ids),
        log_probs=state.log_probs + tf.where(has_ended, 0.0, log_p),
    )
