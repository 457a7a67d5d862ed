"""Ancestral sampling: translations drawn from the model's own distribution.

Each id is drawn from P(id | source, ids before), which may be sharpened by a temperature and cut to
the most probable ids (top-k: Fan et al. 2018; nucleus: Holtzman et al. 2020). So one gets
translations that differ: for translating back (Edunov et al. 2018), for minimum Bayes risk.
"""

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import gin
import tensorflow as tf

from t2t_repro.config.values import Count, Range, Seed, validated
from t2t_repro.decoding.random_numbers import exponentials, hashed
from t2t_repro.decoding.search import (
    Cache,
    DecodingConstraints,
    SearchResult,
    StepModel,
    given_id,
    without_pad,
)
from t2t_repro.decoding.step_loop import Row, StepLoop, checked_limits
from t2t_repro.vocabulary import EOS_ID, PAD_ID

_MAX_SAMPLES = 1024
_LEAST_TEMPERATURE, _MAX_TEMPERATURE = 0.001, 1000


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

    What is drawn is a function of the seed, the ids of x and the number of the sample: it is the
    same in every batch, up to what rounding does to the model's probabilities.

    The score of a sample is log P(y | x) of the model itself, in nats, whatever temperature, top_k
    and nucleus are: scores of samples that were drawn in other ways can be compared. The samples
    come in the order in which they were drawn, so that the first n are what n samples would be.

    Attributes:
        samples: how many translations of each sentence are drawn.
        temperature: logits are divided by it: below 1 probable ids become more probable, near 0
            sampling is greedy decoding.
        top_k: ids are drawn from so many, the most probable ones; None: from all.
        nucleus: ids are drawn from the smallest set of most probable ones that has at least this
            probability (after temperature and top_k); None: from all.
        seed: another one gives other translations.

    Raises:
        UserError: a number is outside of its range.
    """

    samples: Annotated[int, Range(least=1, most=_MAX_SAMPLES)] = 1
    temperature: Annotated[float, Range(least=_LEAST_TEMPERATURE, most=_MAX_TEMPERATURE)] = 1.0
    top_k: Count | None = None
    nucleus: Annotated[float, Range(above=0, most=1)] | None = None
    seed: Seed = 1

    @property
    def beam_size(self) -> int:
        """How many translations of a sentence are drawn side by side."""
        return self.samples

    def search(
        self,
        model: StepModel,
        cache: Cache,
        limits: tf.Tensor,
        max_steps: int | tf.Tensor,
        n_best: int | tf.Tensor = 1,
        given: DecodingConstraints | None = None,
    ) -> SearchResult:
        """Draws translations for a batch of sentences.

        Args:
            model: scores the next id.
            cache: of the model before step 0, without room.
            limits: [batch] integers, the most ids that a row may have, EOS included.
            max_steps: width of the result.
            n_best: how many of the samples are returned, the first.
            given: keys, seeds and prefixes of the sentences, and whether PAD is forbidden.

        Returns:
            See `SearchResult`; every sample exists, finished or not.

        Raises:
            ValueError: if an argument, or what the model returns, has the wrong shape, or n_best
                is not in 1 ... samples.
        """
        limits = checked_limits(self.samples, cache, limits, max_steps, n_best)
        given = given or DecodingConstraints(tf.zeros_like(limits, tf.int64))
        prefix = () if given.prefix is None else (given.prefix,)

        def advance(state: _State, logits: tf.Tensor, step: tf.Tensor, row: Row) -> _State:
            states, *prefix = row.known
            logits = tf.cast(logits, tf.float32)
            p = tf.nn.softmax(logits)
            states_now = hashed(states, step)
            if given.forbid_pad:
                allowed = without_pad(logits)
                drawn = self._drawn(tf.nn.softmax(allowed), allowed, states_now)
            else:
                drawn = self._drawn(p, logits, states_now)
            if prefix:
                (begun,) = prefix
                forced = given_id(begun, step)[:, None]
                drawn = tf.where(forced != PAD_ID, forced, drawn)
            return _next_state(state, drawn, _log_p(p, logits, drawn), step)

        def is_done(state: _State, step: tf.Tensor | int, row: Row) -> tf.Tensor:
            return (step >= row.limits) | tf.reduce_all(state.last_ids == EOS_ID, axis=1)

        state = self._initial_state(limits, max_steps)
        row = Row(limits, (self._random_states(given), *prefix))
        steps, state = StepLoop(model, advance, is_done).run(cache, row, state)
        return SearchResult(
            ids=state.ids[:, :n_best],
            scores=state.log_probs[:, :n_best],
            finished=tf.reduce_any(state.last_ids == EOS_ID, axis=1),
            steps=steps,
        )

    def _random_states(self, given: DecodingConstraints) -> tf.Tensor:
        """What the random numbers of each sample are made from, [batch, samples] int64."""
        seeds = given.seeds if given.seeds is not None else tf.constant(self.seed, tf.int64)
        return hashed(hashed(given.keys, seeds)[:, None], tf.range(self.samples))

    def _initial_state(self, limits: tf.Tensor, max_steps: int | tf.Tensor) -> _State:
        batch = limits.shape[0] if limits.shape[0] is not None else tf.shape(limits)[0]
        return _State(
            last_ids=tf.fill([batch, self.samples], PAD_ID),
            parents=tf.tile(tf.range(self.samples)[None], [batch, 1]),
            ids=tf.fill([batch, self.samples, max_steps], PAD_ID),
            log_probs=tf.zeros([batch, self.samples]),
        )

    def _drawn(self, p: tf.Tensor, logits: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
        """Draws from p [batch, samples, vocab] of logits, with random states [batch, samples]."""
        if self.temperature != 1:
            p = tf.nn.softmax(logits / self.temperature)
        ids = self._draw(tf.reshape(p, [-1, p.shape[-1]]), tf.reshape(states, [-1]))
        return tf.reshape(ids, tf.shape(states))

    def _draw(self, p: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
        nucleus = None if self.nucleus == 1 else self.nucleus
        if self.top_k is not None and self.top_k < p.shape[-1]:
            return draw_from_top_k(p, states, self.top_k, nucleus)
        if nucleus is not None:
            return draw_from_nucleus(p, states, nucleus)
        return draw(p, states)


def draw(p: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
    """Draws an id with probability p[id] / Σ p.

    Draws E[id] ~ Exp(1) and returns argmin E[id] / p[id], which is id with this probability. (Its
    logarithm is Gumbel-max.) A race among all ids would need a random number for each; here groups
    of neighbouring ids race first, then the ids of the winner, about 2·√vocab. Unlike with the
    inverse of a distribution function, rounding errors of other ids hardly matter.

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
    """Draws from the k most probable ids; of equal ones those with lower numbers belong to them.

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
    # Each id has its own time, wherever it is ranked: a tie that rounding decides changes nothing.
    winner = _first(p, exponentials(states[:, None], ids))
    return tf.gather(ids, winner, batch_dims=1)


def draw_from_nucleus(p: tf.Tensor, states: tf.Tensor, nucleus: float) -> tf.Tensor:
    """Draws from the smallest set of most probable ids with a probability of at least `nucleus`.

    Nothing is sorted. An id is drawn from all; it belongs to the set if those before it (more
    probable ones, or equal ones with lower numbers) have less than `nucleus` together. Else the set
    is among those before it, and one of these is drawn.

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
        found = draw(p, hashed(tf.gather(states, rows), count))
        drawn = tf.tensor_scatter_nd_update(drawn, rows[:, None], found)
        p_found = tf.gather(p, found, batch_dims=1)[:, None]
        is_before = (p > p_found) | ((p == p_found) & (ids < found[:, None]))
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
    """Who wins the race, [rows] int32: rates p and unit times [rows, racers]."""
    return tf.argmax(p / times, axis=-1, output_type=tf.int32)


def _log_p(p: tf.Tensor, logits: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """The log-probabilities of ids [batch, samples], where p may be too small for float32."""
    # The largest p is 1 / Σ exp(z - max z).
    largest, p_largest = (tf.reduce_max(of_all, axis=-1) for of_all in (logits, p))
    return tf.gather(logits, ids, batch_dims=2) - largest + tf.math.log(p_largest)


def _next_state(state: _State, drawn: tf.Tensor, log_p: tf.Tensor, step: tf.Tensor) -> _State:
    """Adds the ids drawn, [batch, samples] like their log-probabilities, to what goes on."""
    has_ended = state.last_ids == EOS_ID
    drawn = tf.where(has_ended, PAD_ID, drawn)
    is_here = tf.range(tf.shape(state.ids)[-1]) == step
    return _State(
        last_ids=tf.where(has_ended, EOS_ID, drawn),
        parents=state.parents,
        ids=tf.where(is_here, drawn[:, :, None], state.ids),
        log_probs=state.log_probs + tf.where(has_ended, 0.0, log_p),
    )
