"""Ancestral sampling: draws translations from the model's own distribution.

Each id is drawn from P(id | source, previous ids). A temperature can sharpen the distribution, and
top-k (Fan et al. 2018) or nucleus sampling (Holtzman et al. 2020) restrict it to the most probable
ids. Used for back-translation (Edunov et al. 2018) and for minimum Bayes risk.

Every random number is a hash of the sentence and the position that it is drawn for. A generator's
numbers depend on how many were drawn before, and TensorFlow's stateless ones on the shape that is
drawn: a sentence's samples would depend on its batch. The hash is splitmix64 (Steele et al. 2014),
a counter and a mixing function of 64 bits. It uses only integer operations that TensorFlow has on
all devices: wrapping products, shifts, exclusive or.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import tensorflow as tf

from t2t_repro.decoding.step_loop import SentenceConstants, StepLoop, prefix_id
from t2t_repro.model.masks import without_ids
from t2t_repro.vocabulary import EOS_ID, PAD_ID

if TYPE_CHECKING:
    from t2t_repro.decoding.settings import Sampling


_DIGITS = 53
"""Of a random number between 0 and 1."""

# splitmix64's increment and factors, as signed numbers.
_GOLDEN, _FIRST, _SECOND = (
    bits - 2**64 for bits in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


class _State(NamedTuple):
    """The samples after some steps."""

    last_ids: tf.Tensor  # [batch, samples]: EOS from the end of a sample on
    parents: tf.Tensor  # [batch, samples]: each extends itself
    ids: tf.Tensor  # [batch, samples, max_steps]
    log_probs: tf.Tensor  # [batch, samples]


@dataclass(frozen=True)
class SamplingSteps(StepLoop):
    """Draws samples, one id of each after the other."""

    settings: "Sampling"

    def begin(self, batch: tf.Tensor) -> _State:
        """Returns samples without ids."""
        samples = self.settings.samples
        return _State(
            last_ids=tf.fill([batch, samples], PAD_ID),
            parents=tf.tile(tf.range(samples)[None], [batch, 1]),
            ids=tf.fill([batch, samples, self.max_steps], PAD_ID),
            log_probs=tf.zeros([batch, samples]),
        )

    def known(self) -> tf.Tensor:
        """Returns a random state for each sample, [batch, samples] int64."""
        seeds = self.constraints.seeds
        if seeds is None:
            seeds = tf.constant(self.settings.seed, tf.int64)
        keys = hashed(keys_of(self.constraints.source), seeds)
        return hashed(keys[:, None], tf.range(self.settings.samples))

    def advance(
        self, state: _State, logits: tf.Tensor, step: tf.Tensor, row: SentenceConstants
    ) -> _State:
        """Draws an id of every sample that has not ended."""
        allowed = without_ids(logits, self.constraints.forbidden)
        drawn = self._drawn(allowed, hashed(row.known, step))
        if row.prefix:
            forced = prefix_id(row.prefix[0], step)[:, None]
            drawn = tf.where(forced != PAD_ID, forced, drawn)
        has_ended = state.last_ids == EOS_ID
        chosen = tf.gather(logits, drawn, batch_dims=2)
        log_p = chosen if self.constraints.normalized else _log_p(logits, drawn)
        gained = tf.where(has_ended, 0.0, log_p)
        drawn = tf.where(has_ended, PAD_ID, drawn)
        is_here = tf.range(tf.shape(state.ids)[-1]) == step
        return _State(
            last_ids=tf.where(has_ended, EOS_ID, drawn),
            parents=state.parents,
            ids=tf.where(is_here, drawn[:, :, None], state.ids),
            log_probs=state.log_probs + gained,
        )

    def is_done(self, state: _State, step: tf.Tensor | int, row: SentenceConstants) -> tf.Tensor:
        """Returns the rows at their limit, or with all samples ended."""
        has_ended = tf.reduce_all(state.last_ids == EOS_ID, axis=1)
        return (step >= row.max_target_lengths) | has_ended

    def results(self, state: _State) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the samples; every one exists, finished or not."""
        return state.ids, state.log_probs, tf.reduce_any(state.last_ids == EOS_ID, axis=1)

    def _drawn(self, logits: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
        """Draws from logits [batch, samples, vocab], with random states [batch, samples]."""
        vocab = logits.shape[-1]
        if self.settings.temperature != 1:
            logits /= self.settings.temperature
        p = tf.reshape(tf.nn.softmax(logits), [-1, vocab])
        flat = tf.reshape(states, [-1])
        nucleus = None if self.settings.nucleus == 1 else self.settings.nucleus
        if self.settings.top_k is not None and self.settings.top_k < vocab:
            ids = draw_from_top_k(p, flat, self.settings.top_k, nucleus)
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
    """Draws from the k most probable ids.

    Ties go to lower ids.

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
    """Draws from the nucleus of a distribution.

    It is the smallest set of most probable ids with a probability of at least `nucleus`. Nothing is
    sorted. An id is drawn from all. It belongs to the set if the ids before it (more probable, or
    equal with a lower id) have less than `nucleus` together. Otherwise the set is among the ids
    before it, and the next draw is from these.

    Args:
        p: [rows, vocab] float32, each row a distribution.
        states: [rows] int64.
        nucleus: above 0.

    Returns:
        [rows] int32.
    """
    ids = tf.range(p.shape[-1])

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
        lambda count, rows, *_: tf.size(rows) > 0,
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
    largest = tf.reduce_max(logits, axis=-1)
    p_largest = tf.reduce_max(tf.nn.softmax(logits), axis=-1)
    return tf.gather(logits, ids, batch_dims=2) - largest + tf.math.log(p_largest)


def hashed(state: tf.Tensor, counter: tf.Tensor | int) -> tf.Tensor:
    """Hashes each pair of a state and a counter.

    Args:
        state: int64 of any shape, a hash or a number that differs between rows.
        counter: integers of a shape that broadcasts.

    Returns:
        int64, 64 random bits.
    """
    x = state + (tf.cast(counter, tf.int64) + 1) * _GOLDEN
    x = tf.bitwise.bitwise_xor(x, _shifted(x, 30)) * _FIRST
    x = tf.bitwise.bitwise_xor(x, _shifted(x, 27)) * _SECOND
    return tf.bitwise.bitwise_xor(x, _shifted(x, 31))


def exponentials(states: tf.Tensor, counters: tf.Tensor) -> tf.Tensor:
    """Draws exponentially distributed numbers with mean 1.

    Args:
        states: int64 of any shape, hashes.
        counters: integers of a shape that broadcasts; each gives another number.

    Returns:
        float32, above 0.
    """
    bits = hashed(states, counters)
    # Small numbers keep the most digits: the smallest one decides.
    uniform = (tf.cast(_shifted(bits, 64 - _DIGITS), tf.float32) + 0.5) * 2.0**-_DIGITS
    return -tf.math.log1p(-uniform)


def keys_of(ids: tf.Tensor) -> tf.Tensor:
    """Hashes the ids of each sentence, without padding.

    Args:
        ids: [batch, length], PAD after each sentence.

    Returns:
        [batch] int64.
    """
    positions = tf.range(tf.shape(ids)[1])
    hashes = hashed(hashed(tf.cast(ids, tf.int64), 0), positions)
    return tf.reduce_sum(tf.where(ids != PAD_ID, hashes, 0), axis=1)


def _shifted(x: tf.Tensor, bits: int) -> tf.Tensor:
    """Shifts an int64 right as an unsigned number: zeros come in from the left."""
    signed = tf.bitwise.right_shift(x, tf.constant(bits, tf.int64))
    return tf.bitwise.bitwise_and(signed, 2 ** (64 - bits) - 1)
