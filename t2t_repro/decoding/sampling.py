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

# The random bits that a number between 0 and 1 is made of.
_UNIFORM_BITS = 53
# splitmix64's constants, as signed numbers.
_INCREMENT = 0x9E3779B97F4A7C15 - 2**64
_FACTOR_1 = 0xBF58476D1CE4E5B9 - 2**64
_FACTOR_2 = 0x94D049BB133111EB - 2**64


class _State(NamedTuple):
    """The samples after some steps."""

    last_ids: tf.Tensor  # [batch, samples] int32: EOS from the end of a sample on
    parents: tf.Tensor  # [batch, samples] int32: each extends itself
    ids: tf.Tensor  # [batch, samples, max_steps] int32
    log_probs: tf.Tensor  # [batch, samples] float32


@dataclass(frozen=True)
class SamplingSteps(StepLoop):
    """Draws samples of each sentence; each step draws the next id of every sample."""

    settings: "Sampling"

    def begin(self, batch: tf.Tensor) -> _State:
        """Returns the state of samples without ids (see `StepLoop`)."""
        samples = self.settings.samples
        return _State(
            last_ids=tf.fill([batch, samples], PAD_ID),
            parents=tf.tile(tf.range(samples)[None], [batch, 1]),
            ids=tf.fill([batch, samples, self.max_steps], PAD_ID),
            log_probs=tf.zeros([batch, samples]),
        )

    def extra_constants(self) -> tf.Tensor:
        """Returns the random state of each sample, [batch, samples] int64 (see `hashed`)."""
        given = self.constraints.seeds
        seeds = tf.constant(self.settings.seed, tf.int64) if given is None else given
        sentence_states = hashed(keys_of(self.constraints.source), seeds)
        return hashed(sentence_states[:, None], tf.range(self.settings.samples))

    def advance(
        self, state: _State, logits: tf.Tensor, step: tf.Tensor, row: SentenceConstants
    ) -> _State:
        """Draws the next id of every sample that has not ended (see `StepLoop`)."""
        drawn = self._draw(without_ids(logits, self.constraints.forbidden), hashed(row.extra, step))
        if row.prefix:
            forced = prefix_id(row.prefix[0], step)[:, None]
            drawn = tf.where(forced != PAD_ID, forced, drawn)
        # From all logits, forbidden ids included, and without temperature: a score is the model's
        # own log P (see `DecodingConstraints`).
        logits_of_drawn = tf.gather(logits, drawn, batch_dims=2)
        log_p = logits_of_drawn if self.constraints.normalized else _log_p(logits, drawn)
        has_ended = state.last_ids == EOS_ID
        new_ids = tf.where(has_ended, PAD_ID, drawn)
        is_this_step = tf.range(tf.shape(state.ids)[-1]) == step
        return _State(
            last_ids=tf.where(has_ended, EOS_ID, new_ids),
            parents=state.parents,
            ids=tf.where(is_this_step, new_ids[:, :, None], state.ids),
            log_probs=state.log_probs + tf.where(has_ended, 0.0, log_p),
        )

    def is_done(self, state: _State, step: tf.Tensor | int, row: SentenceConstants) -> tf.Tensor:
        """Returns which rows are at their length limit, or have only ended samples: [active]."""
        return (step >= row.max_target_lengths) | tf.reduce_all(state.last_ids == EOS_ID, axis=1)

    def results(self, state: _State) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns all samples, finished or not (see `StepLoop`)."""
        return state.ids, state.log_probs, tf.reduce_any(state.last_ids == EOS_ID, axis=1)

    def _draw(self, logits: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
        """Draws ids [batch, samples] int32, with temperature, top_k and nucleus of the settings.

        Args:
            logits: [batch, samples, vocab] float32.
            states: [batch, samples] int64, a random state for each draw.
        """
        vocab = logits.shape[-1]
        if self.settings.temperature != 1:
            logits /= self.settings.temperature
        p = tf.reshape(tf.nn.softmax(logits), [-1, vocab])
        flat_states = tf.reshape(states, [-1])
        nucleus = None if self.settings.nucleus == 1 else self.settings.nucleus
        if self.settings.top_k is not None and self.settings.top_k < vocab:
            ids = draw_from_top_k(p, flat_states, self.settings.top_k, nucleus)
        elif nucleus is not None:
            ids = draw_from_nucleus(p, flat_states, nucleus)
        else:
            ids = draw(p, flat_states)
        return tf.reshape(ids, tf.shape(states))


def draw(p: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
    """Draws an id with probability p[id] / Σ p.

    With independent times E[id] ~ Exp(1), argmin E[id] / p[id] has this distribution: Gumbel-max
    without logarithms. That would take a random number for each id. Instead, groups of
    neighbouring ids race first, then the ids of the winning group: about 2·√vocab numbers. Unlike
    with an inverse distribution function, rounding errors of other ids hardly matter.

    Args:
        p: [rows, vocab] float32, at least 0; need not sum to 1.
        states: [rows] int64, a random state for each row (see `hashed`).

    Returns:
        [rows] int32.
    """
    vocab = p.shape[-1]
    group_size = math.isqrt(vocab - 1) + 1  # ceil(√vocab)
    num_groups = -(-vocab // group_size)
    # Ids beyond the vocabulary have p = 0: they never win.
    padded = tf.pad(p, [[0, 0], [0, num_groups * group_size - vocab]])
    groups = tf.reshape(padded, [-1, num_groups, group_size])
    times = exponentials(states[:, None], tf.range(num_groups + group_size))
    group = _race_winner(tf.reduce_sum(groups, axis=-1), times[:, :num_groups])
    member = _race_winner(tf.gather(groups, group, batch_dims=1), times[:, num_groups:])
    return group * group_size + member


def draw_from_top_k(
    p: tf.Tensor, states: tf.Tensor, k: int, nucleus: float | None = None
) -> tf.Tensor:
    """Draws from the k most probable ids; a tie at the k-th place goes to the lower ids.

    Args:
        p: [rows, vocab] float32.
        states: [rows] int64, see `draw`.
        k: at most vocab.
        nucleus: draws from the nucleus of those k (see `draw_from_nucleus`); None: from all k.

    Returns:
        [rows] int32.
    """
    top_p, ids = tf.math.top_k(p, k)
    if nucleus is not None:
        p_before = tf.cumsum(top_p, axis=-1, exclusive=True)
        most = nucleus * tf.reduce_sum(top_p, axis=-1, keepdims=True)
        top_p = tf.where(p_before < most, top_p, 0.0)
    # Times belong to ids, not to ranks, so that rounding in near ties changes nothing.
    winner = _race_winner(top_p, exponentials(states[:, None], ids))
    return tf.gather(ids, winner, batch_dims=1)


def draw_from_nucleus(p: tf.Tensor, states: tf.Tensor, nucleus: float) -> tf.Tensor:
    """Draws from the nucleus of a distribution.

    The nucleus is the smallest set of most probable ids with a total probability of at least
    `nucleus`. It is not computed, which would take sorting. Instead an id is drawn from all ids. It
    is in the nucleus if the ids before it (more probable, or equal with a lower id) have a total
    probability below `nucleus`. Otherwise the next draw is from the ids before it, which include
    the nucleus.

    Args:
        p: [rows, vocab] float32, each row a distribution.
        states: [rows] int64, see `draw`.
        nucleus: total probability, above 0.

    Returns:
        [rows] int32.
    """
    ids = tf.range(p.shape[-1])

    def redraw(attempt: tf.Tensor, rows: tf.Tensor, p_left: tf.Tensor, drawn: tf.Tensor) -> tuple:
        """Draws an id for each of some rows.

        Args:
            attempt: int32 scalar, the number of earlier draws.
            rows: [left] int32, those whose last id is outside of the nucleus; at first all.
            p_left: [left, vocab], p of the ids that these rows may still get, 0 for others.
            drawn: [all rows] int32, the last id that each got.

        Returns:
            the arguments of the next call.
        """
        new_ids = draw(p_left, hashed(tf.gather(states, rows), attempt))
        drawn = tf.tensor_scatter_nd_update(drawn, rows[:, None], new_ids)
        p_new = tf.gather(p_left, new_ids, batch_dims=1)[:, None]
        is_before = (p_left > p_new) | ((p_left == p_new) & (ids < new_ids[:, None]))
        p_before = tf.where(is_before, p_left, 0.0)
        # Indices into `rows`.
        outside = tf.where(tf.reduce_sum(p_before, axis=-1) >= nucleus)[:, 0]
        return attempt + 1, tf.gather(rows, outside), tf.gather(p_before, outside), drawn

    rows = tf.range(tf.shape(p)[0])
    # Of the attempt, the rows and their p: their number falls from attempt to attempt.
    shapes = (tf.TensorShape([]), tf.TensorShape([None]), tf.TensorShape([None, p.shape[-1]]))
    *_, drawn = tf.while_loop(
        lambda attempt, rows, *_: tf.size(rows) > 0,
        redraw,
        (tf.constant(0), rows, p, tf.zeros_like(rows)),
        shape_invariants=(*shapes, rows.shape),
    )
    return drawn


def _race_winner(p: tf.Tensor, times: tf.Tensor) -> tf.Tensor:
    """Returns argmin times / p, [rows] int32, from p and times [rows, racers]; p = 0 never wins."""
    return tf.argmax(p / times, axis=-1, output_type=tf.int32)


def _log_p(logits: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Returns the log-probabilities of ids [batch, samples], also where p underflows float32."""
    # log p = z - max z - log Σ exp(z - max z), and the largest p is 1 / Σ exp(z - max z).
    largest_logit = tf.reduce_max(logits, axis=-1)
    largest_p = tf.reduce_max(tf.nn.softmax(logits), axis=-1)
    return tf.gather(logits, ids, batch_dims=2) - largest_logit + tf.math.log(largest_p)


def hashed(state: tf.Tensor, counter: tf.Tensor | int) -> tf.Tensor:
    """Hashes each pair of a state and a counter by splitmix64.

    Args:
        state: int64 of any shape, a hash or a number that differs between rows.
        counter: integers of a shape that broadcasts.

    Returns:
        int64 of the broadcast shape, 64 random bits each. It can be the state of further hashes.
    """
    # + 1: splitmix64 adds its increment before the first number, too.
    bits = state + (tf.cast(counter, tf.int64) + 1) * _INCREMENT
    bits = tf.bitwise.bitwise_xor(bits, _shift_right(bits, 30)) * _FACTOR_1
    bits = tf.bitwise.bitwise_xor(bits, _shift_right(bits, 27)) * _FACTOR_2
    return tf.bitwise.bitwise_xor(bits, _shift_right(bits, 31))


def exponentials(states: tf.Tensor, counters: tf.Tensor) -> tf.Tensor:
    """Draws exponentially distributed numbers with mean 1, the times of races (see `draw`).

    Args:
        states: int64 of any shape, hashes.
        counters: integers of a shape that broadcasts; each gives another number.

    Returns:
        float32 of the broadcast shape, above 0 and finite.
    """
    bits = _shift_right(hashed(states, counters), 64 - _UNIFORM_BITS)
    # Inside of (0, 1): + 0.5 keeps it above 0, and float32 would round the largest numbers to 1,
    # whose time is infinite.
    uniform = tf.minimum((tf.cast(bits, tf.float32) + 0.5) * 2.0**-_UNIFORM_BITS, 1 - 2.0**-24)
    # Both -log(u) and -log(1 - u) are exponential. This one is precise where it is small, and a
    # race is decided by the smallest times.
    return -tf.math.log1p(-uniform)


def keys_of(ids: tf.Tensor) -> tf.Tensor:
    """Hashes the ids of each sentence; padding does not change the hash.

    Args:
        ids: [batch, length], PAD after each sentence.

    Returns:
        [batch] int64.
    """
    # Of each id at its position.
    hashes = hashed(hashed(tf.cast(ids, tf.int64), 0), tf.range(tf.shape(ids)[1]))
    return tf.reduce_sum(tf.where(ids != PAD_ID, hashes, 0), axis=1)


def _shift_right(numbers: tf.Tensor, bits: int) -> tf.Tensor:
    """Shifts int64 numbers right as unsigned ones: zeros come in from the left."""
    # TensorFlow fills with copies of the sign bit.
    with_sign = tf.bitwise.right_shift(numbers, tf.constant(bits, tf.int64))
    return tf.bitwise.bitwise_and(with_sign, 2 ** (64 - bits) - 1)
