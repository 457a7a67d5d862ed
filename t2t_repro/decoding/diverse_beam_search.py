"""Diverse beam search: translations that differ (Vijayakumar et al. 2016, "Diverse Beam Search").

The beam is divided into groups. At every step they choose one after the other, and each has to pay
for an id that earlier groups have chosen at this position (Hamming diversity).
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import gin
import tensorflow as tf

from t2t_repro.config.values import Range, validated
from t2t_repro.decoding.beam_search import (
    MAX_BEAM,
    MAX_PENALTY,
    BeamSearch,
    BeamState,
    Candidates,
    best_hypotheses,
    where_given,
)
from t2t_repro.decoding.length_penalty import LengthPenalty, wu_penalty
from t2t_repro.decoding.random_numbers import keys_of
from t2t_repro.decoding.search import (
    UNFILLED_SCORE,
    Cache,
    DecodingConstraints,
    SearchResult,
    StepModel,
    given_id,
    without_pad,
)
from t2t_repro.decoding.step_loop import Row, StepLoop, checked_limits
from t2t_repro.errors import UserError
from t2t_repro.vocabulary import EOS_ID, PAD_ID

# Every group is a part of the graph by itself.
_MAX_GROUPS = 64


class _Group(NamedTuple):
    """What a group knows after some steps."""

    beam: BeamState
    penalties: tf.Tensor  # [batch, group_size]: what is held against each alive hypothesis


class _State(NamedTuple):
    """What all groups know; their hypotheses one after the other are the model's beam."""

    last_ids: tf.Tensor  # [batch, beam]
    parents: tf.Tensor  # [batch, beam]
    groups: tuple[_Group, ...]


@gin.configurable
@validated
@dataclass(frozen=True)
class DiverseBeamSearch:
    """Finds hypotheses y with a high log P(y) - strength · Σ_t (how many others have y_t at t).

    The others are the alive hypotheses of the groups before; so the first group's search is
    `BeamSearch`, with beam_size / groups hypotheses. The sum decides which hypotheses a group goes
    on with. Scores are log P(y) / lp(|y|), as of `BeamSearch`, and by them the hypotheses of all
    groups are ranked in the end; one that several groups have found counts once.

    Attributes:
        groups: into how many the beam is divided.
        beam_size: hypotheses of all groups together, a multiple of `groups`.
        strength: lambda of the paper, in nats; there 0.2 to 0.8 are found to be good.
        length_penalty: alpha, see `BeamSearch`.
        penalty: likewise.

    Raises:
        UserError: a number is outside of its range, or the beam cannot be divided.
    """

    groups: Annotated[int, Range(least=1, most=_MAX_GROUPS)] = 4
    beam_size: Annotated[int, Range(least=1, most=MAX_BEAM)] = 4
    strength: Annotated[float, Range(least=0, most=1000)] = 0.5
    length_penalty: Annotated[float, Range(least=0, most=MAX_PENALTY)] = 0.6
    penalty: LengthPenalty = wu_penalty

    def __post_init__(self) -> None:
        if self.beam_size % self.groups:
            raise UserError(
                f"DiverseBeamSearch.beam_size is {self.beam_size}, expected a multiple of "
                f"DiverseBeamSearch.groups = {self.groups}."
            )

    def search(
        self,
        model: StepModel,
        cache: Cache,
        limits: tf.Tensor,
        max_steps: int | tf.Tensor,
        n_best: int | tf.Tensor = 1,
        given: DecodingConstraints | None = None,
    ) -> SearchResult:
        """Decodes a batch of sentences; see `BeamSearch.search`."""
        limits = checked_limits(self.beam_size, cache, limits, max_steps, n_best)
        prefix = () if given is None or given.prefix is None else (given.prefix,)
        forbid_pad = given is not None and given.forbid_pad
        search = BeamSearch(self.beam_size // self.groups, self.length_penalty, self.penalty)
        # Of different hypotheses, no group has more than that among the n_best of all.
        n_best_of_group = tf.minimum(n_best, search.beam_size)

        def advance(state: _State, logits: tf.Tensor, step: tf.Tensor, row: Row) -> _State:
            groups: list[_Group] = []
            counts = tf.zeros([tf.shape(logits)[0], logits.shape[-1]])
            for group, of_group in zip(
                state.groups, tf.split(logits, self.groups, axis=1), strict=True
            ):
                log_p = tf.nn.log_softmax(tf.cast(of_group, tf.float32))
                if forbid_pad:
                    log_p = without_pad(log_p)
                candidates = self._candidates(group, log_p, counts)
                if row.known:
                    (begun,) = row.known
                    forced = given_id(begun, step)
                    log_probs = group.beam.alive_log_probs
                    candidates = where_given(forced, log_probs, of_group, candidates)
                beam = search.next_state(group.beam, candidates, step)
                groups.append(_Group(beam, self._penalties(group, beam, counts)))
                counts += _counted(beam, logits.shape[-1])
            return _joined(groups)

        def is_done(state: _State, step: tf.Tensor | int, row: Row) -> tf.Tensor:
            done = [
                search.is_done(group.beam, step, row.limits, n_best_of_group)
                for group in state.groups
            ]
            return tf.reduce_all(tf.stack(done), axis=0)

        beam = search.initial_state(limits, max_steps)
        start = _joined([_Group(beam, tf.zeros_like(beam.alive_log_probs))] * self.groups)
        steps, state = StepLoop(model, advance, is_done).run(cache, Row(limits, prefix), start)
        return best_hypotheses(_together(state.groups), steps, n_best)

    def _candidates(self, group: _Group, log_p: tf.Tensor, counts: tf.Tensor) -> Candidates:
        """The best extensions by one id, as `BeamSearch` takes them, best first by the whole sum.

        Args:
            group: its alive hypotheses are extended.
            log_p: [batch, group_size, vocab], of the ids that come next.
            counts: [batch, vocab], how many of the groups before have chosen each id.
        """
        size, vocab = log_p.shape[1:]
        log_probs = group.beam.alive_log_probs[:, :, None] + log_p
        sums = log_probs - group.penalties[:, :, None] - self.strength * counts[:, None]
        flat = [-1, size * vocab]
        _, found = tf.math.top_k(tf.reshape(sums, flat), 2 * size if size > 1 else 1)
        ids = found % vocab
        # Only as many as can stay alive: by log P alone, the beam would choose others of them.
        goes_on = ids != EOS_ID
        is_too_many = goes_on & (tf.cumsum(tf.cast(goes_on, tf.int32), axis=1) > size)
        log_probs = tf.gather(tf.reshape(log_probs, flat), found, batch_dims=1)
        return Candidates(
            log_probs=tf.where(is_too_many, float("-inf"), log_probs),
            ids=ids,
            parents=found // vocab,
        )

    def _penalties(self, group: _Group, beam: BeamState, counts: tf.Tensor) -> tf.Tensor:
        """What is held against each alive hypothesis after a step, [batch, group_size]."""
        before = tf.gather(group.penalties, beam.parents, batch_dims=1)
        return before + self.strength * tf.gather(counts, beam.last_ids, batch_dims=1)


def _counted(beam: BeamState, vocab: int) -> tf.Tensor:
    """How many alive hypotheses have chosen each id, [batch, vocab] float32."""
    is_alive = tf.cast(beam.alive_log_probs > float("-inf"), tf.float32)
    return tf.reduce_sum(tf.one_hot(beam.last_ids, vocab) * is_alive[:, :, None], axis=1)


def _joined(groups: list[_Group]) -> _State:
    """The groups' hypotheses as one beam."""
    parents = [
        group.beam.parents + number * group.beam.parents.shape[1]
        for number, group in enumerate(groups)
    ]
    return _State(
        last_ids=tf.concat([group.beam.last_ids for group in groups], axis=1),
        parents=tf.concat(parents, axis=1),
        groups=tuple(groups),
    )


def _together(groups: tuple[_Group, ...]) -> BeamState:
    """The hypotheses of all groups, best first; of equal ones only that of the first group."""
    beams = [group.beam for group in groups]
    joined = tf.nest.map_structure(lambda *parts: tf.concat(parts, axis=1), *beams)
    alive_ids, alive_log_probs = _ranked(joined.alive_ids, joined.alive_log_probs, float("-inf"))
    finished_ids, scores = _ranked(joined.finished_ids, joined.finished_scores, UNFILLED_SCORE)
    return joined._replace(
        alive_ids=alive_ids,
        alive_log_probs=alive_log_probs,
        finished_ids=finished_ids,
        finished_scores=scores,
    )


def _ranked(ids: tf.Tensor, scores: tf.Tensor, none: float) -> tuple[tf.Tensor, tf.Tensor]:
    """Ids [batch, beam, max_steps] and scores [batch, beam], best first, none twice.

    Args:
        ids: PAD alone where there is no hypothesis.
        scores: `none` where there is no hypothesis.
        none: see above.
    """
    beam = scores.shape[1]
    keys = tf.reshape(keys_of(tf.reshape(ids, [-1, tf.shape(ids)[2]])), [-1, beam])
    is_same = keys[:, :, None] == keys[:, None]
    is_earlier = tf.range(beam)[:, None] > tf.range(beam)
    is_repeated = tf.reduce_any(is_same & is_earlier & (scores > none)[:, None], axis=2)
    scores, order = tf.math.top_k(tf.where(is_repeated, none, scores), beam)
    ids = tf.where(is_repeated[:, :, None], PAD_ID, ids)
    return tf.gather(ids, order, batch_dims=1), scores
