"""Beam search with a length penalty (paper, section 6.1).

Follows tensor2tensor's `utils/beam_search.py`, the search behind the paper's BLEU scores, with the
length penalty of Wu et al. (2016, equation 14, without the coverage term). One thing differs:
every row of the batch has its own length limit and stops by itself, see `decoding.step_loop`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import gin
import tensorflow as tf

from t2t_repro.config.values import Range, validated
from t2t_repro.decoding.search import (
    UNFILLED_SCORE,
    Cache,
    DecodingConstraints,
    SearchResult,
    StepModel,
    prefix_id,
)
from t2t_repro.decoding.step_loop import Row, StepLoop, where_row
from t2t_repro.model import kernels
from t2t_repro.model.kernels import decoding as fast
from t2t_repro.model.masks import without_ids
from t2t_repro.vocabulary import EOS_ID, PAD_ID

IMPOSSIBLE = float("-inf")
"""The log-probability of a hypothesis that does not exist."""

LengthPenalty = Callable[[tf.Tensor, float], tf.Tensor]
"""lp(length, alpha), which log P(y) is divided by. Lengths are integers of any shape and include
EOS. The result is float32 of the same shape, positive, and does not fall with the length: beam
search relies on that to end early."""


@gin.configurable(denylist=["length", "alpha"])
def wu_penalty(length: tf.Tensor, alpha: float) -> tf.Tensor:
    """Computes lp(length) = ((5 + length) / 6)^alpha (Wu et al. 2016, equation 14).

    The paper's (section 6.1), with alpha = 0.6.

    Args:
        length: number of ids in a hypothesis, EOS included; any shape, any integer dtype.
        alpha: strength; 0 means no penalty.

    Returns:
        float32, the shape of `length`.
    """
    return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)


@gin.configurable(denylist=["length", "alpha"])
def power_penalty(length: tf.Tensor, alpha: float) -> tf.Tensor:
    """Computes lp(length) = length^alpha, as fairseq and Marian do.

    With alpha = 1 a score is the mean log-probability of the ids. With the same alpha it favours
    long translations more than `wu_penalty` does.

    Args:
        length: number of ids in a hypothesis, EOS included; any shape, any integer dtype.
        alpha: strength; 0 means no penalty.

    Returns:
        float32, the shape of `length`. Length 0 counts as 1.
    """
    return tf.pow(tf.maximum(tf.cast(length, tf.float32), 1.0), alpha)


class BeamState(NamedTuple):
    """The hypotheses after some steps; the best one of every row comes first."""

    last_ids: tf.Tensor  # [batch, beam]: the last id of each alive hypothesis
    parents: tf.Tensor  # [batch, beam]: the hypothesis of the previous step that it extends
    alive_ids: tf.Tensor  # [batch, beam, max_steps]
    alive_log_probs: tf.Tensor  # [batch, beam]
    finished_ids: tf.Tensor  # [batch, beam, max_steps]
    finished_scores: tf.Tensor  # [batch, beam]


class Candidates(NamedTuple):
    """The best one-id extensions of a row's alive hypotheses, best first."""

    log_probs: tf.Tensor  # [batch, candidates]
    ids: tf.Tensor  # [batch, candidates]: the id that was added
    parents: tf.Tensor  # [batch, candidates]: the alive hypothesis that it was added to


def best_extensions(
    log_probs: tf.Tensor,
    logits: tf.Tensor,
    k: int,
    forbidden: Sequence[int] = (),
    normalized: bool = False,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds the most probable extensions of a row's hypotheses by one id.

    Args:
        log_probs: [batch, beam] float32, of the hypotheses.
        logits: [batch, beam, vocab] float32, of the ids that may follow each.
        k: how many.
        forbidden: ids that extend no hypothesis; the others keep their probability.
        normalized: whether the logits are log-probabilities.

    Returns:
        log-probabilities [batch, k], the best first, and indices [batch, k] into beam·vocab, int32.
        Ties go to the lower index.
    """
    _, beam, vocab = logits.shape
    log_p = logits if normalized else tf.nn.log_softmax(logits)
    extended = log_probs[..., None] + without_ids(log_p, forbidden)
    return tf.math.top_k(tf.reshape(extended, [-1, beam * vocab]), k)


_best_extensions = kernels.fast(fast.best_extensions, best_extensions)


@gin.configurable
@validated
@dataclass(frozen=True)
class BeamSearch:
    """Finds ids y with a high score(y) = log P(y) / lp(|y|) (paper, section 6.1).

    Each step extends every alive hypothesis by every id and keeps the best 2·beam_size candidates.
    At most beam_size of them end in EOS, so beam_size alive ones are always left. Those that end in
    EOS compete, each with the penalty of its own length, for the beam_size places of the finished
    hypotheses. Beam size 1 keeps the one best candidate: greedy decoding.

    Attributes:
        beam_size: number of alive, and of finished, hypotheses of a sentence; 4 in the paper.
        length_penalty: alpha in `penalty`; 0.6 in the paper, 0 ranks by plain log-probability.
        penalty: lp(length, alpha); the paper's is `wu_penalty`.

    Raises:
        UserError: a number is outside of its range.
    """

    beam_size: Annotated[int, Range(least=1, most=1024)] = 4
    length_penalty: Annotated[float, Range(least=0, most=100)] = 0.6
    penalty: LengthPenalty = wu_penalty

    def search(
        self,
        model: StepModel,
        cache: Cache,
        limits: tf.Tensor,
        max_steps: int | tf.Tensor,
        n_best: int | tf.Tensor = 1,
        constraints: DecodingConstraints | None = None,
    ) -> SearchResult:
        """Decodes a batch of sentences.

        A row is done at its limit, or when no alive hypothesis can still enter its `n_best`
        finished ones: log P only falls and lp only grows, so log P(best alive) / lp(limit) is an
        upper bound of all future scores.

        Args:
            model: scores the next id.
            cache: of the model before step 0, without room. Nested tensors [batch, ...]; rows
                that are done are removed from them.
            limits: [batch] integers, the most ids that a row may have, EOS included; at most
                max_steps. A row with the limit 0 gets one hypothesis without ids, with score 0.
            max_steps: width of the result.
            n_best: number of hypotheses returned for each row, 1 ... beam_size. An int32 tensor
                makes one graph serve all numbers.
            constraints: `prefix`, `forbidden` and `normalized` are used. During its prefix a row
                has one hypothesis.

        Returns:
            See `SearchResult`. Scores of `finished` rows are log P / penalty. Other rows have their
            most probable ids, with plain log P.
        """
        limits = tf.minimum(tf.cast(limits, tf.int32), max_steps)
        constraints = constraints or DecodingConstraints(tf.zeros_like(limits, tf.int64))
        prefix = () if constraints.prefix is None else (constraints.prefix,)

        def advance(state: BeamState, logits: tf.Tensor, step: tf.Tensor, row: Row) -> BeamState:
            logits = tf.cast(logits, tf.float32)
            candidates = self._best_candidates(state, logits, constraints)
            if row.known:
                (prefix_ids,) = row.known
                forced = prefix_id(prefix_ids, step)
                candidates = _forced(forced, state, logits, constraints.normalized, candidates)
            return self._next_state(state, candidates, step)

        def is_done(state: BeamState, step: tf.Tensor | int, row: Row) -> tf.Tensor:
            return self._is_done(state, step, row.limits, n_best)

        loop = StepLoop(model, advance, is_done)
        state = self._initial_state(limits, max_steps)
        steps, state = loop.run(cache, Row(limits, prefix), state)
        ids, scores = self._hypotheses(state, limits)
        return SearchResult(ids[:, :n_best], scores[:, :n_best], any_finished(state), steps)

    def _initial_state(self, limits: tf.Tensor, max_steps: int | tf.Tensor) -> BeamState:
        """Returns a state with one alive hypothesis without ids in every row."""
        batch = limits.shape[0] if limits.shape[0] is not None else tf.shape(limits)[0]
        no_ids = tf.fill([batch, self.beam_size, max_steps], PAD_ID)
        # Otherwise the beam would fill with copies of one hypothesis at step 0.
        log_probs = tf.constant([0.0] + [IMPOSSIBLE] * (self.beam_size - 1))
        return BeamState(
            last_ids=tf.fill([batch, self.beam_size], PAD_ID),
            parents=tf.tile(tf.range(self.beam_size)[None], [batch, 1]),
            alive_ids=no_ids,
            alive_log_probs=tf.tile(log_probs[None], [batch, 1]),
            finished_ids=no_ids,
            finished_scores=tf.fill([batch, self.beam_size], UNFILLED_SCORE),
        )

    def _is_done(
        self, state: BeamState, step: tf.Tensor, limits: tf.Tensor, n_best: int | tf.Tensor
    ) -> tf.Tensor:
        """Returns which rows ([batch] bool) cannot gain from another step."""
        # [batch]
        bound = self._score(state.alive_log_probs[:, 0], limits)
        # Equality is enough: of equal scores, the earlier hypothesis is ranked first.
        return (step >= limits) | (state.finished_scores[:, n_best - 1] >= bound)

    def _best_candidates(
        self, state: BeamState, logits: tf.Tensor, constraints: DecodingConstraints
    ) -> Candidates:
        """Finds the best extensions of alive hypotheses by one id.

        All have the same length, so the penalty does not matter here.
        """
        # 2·beam_size of beam_size·vocab always exist: the vocabulary has at least PAD and EOS.
        count = 2 * self.beam_size if self.beam_size > 1 else 1
        return best_candidates(state, logits, count, constraints)

    def _score(self, log_probs: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        """Computes the scores of hypotheses with so many ids."""
        return log_probs / self.penalty(length, self.length_penalty)

    def _next_state(self, state: BeamState, candidates: Candidates, step: tf.Tensor) -> BeamState:
        """Divides the candidates into alive and finished hypotheses."""
        ends = candidates.ids == EOS_ID  # [batch, candidates]
        # [batch, candidates, max_steps]
        parent_ids = tf.gather(state.alive_ids, candidates.parents, batch_dims=1)
        is_here = tf.range(tf.shape(parent_ids)[-1]) == step
        ids = tf.where(is_here, candidates.ids[:, :, None], parent_ids)

        alive_log_probs, alive = tf.math.top_k(
            tf.where(ends, IMPOSSIBLE, candidates.log_probs), self.beam_size
        )  # [batch, beam] both

        new_scores = self._score(candidates.log_probs, step + 1)
        # [batch, beam + candidates]; the old ones come first because they win ties.
        scores = tf.concat([state.finished_scores, tf.where(ends, new_scores, IMPOSSIBLE)], axis=1)
        finished_scores, finished = tf.math.top_k(scores, self.beam_size)  # [batch, beam] both

        return BeamState(
            last_ids=tf.gather(candidates.ids, alive, batch_dims=1),
            parents=tf.gather(candidates.parents, alive, batch_dims=1),
            alive_ids=tf.gather(ids, alive, batch_dims=1),
            alive_log_probs=alive_log_probs,
            finished_ids=tf.gather(
                tf.concat([state.finished_ids, ids], axis=1), finished, batch_dims=1
            ),
            finished_scores=finished_scores,
        )

    def _hypotheses(self, state: BeamState, limits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the finished hypotheses of each row, or the alive ones if it has none.

        Args:
            state: after the last step.
            limits: [batch], the numbers of ids that alive hypotheses have.

        Returns:
            ids [batch, beam, max_steps] and scores [batch, beam], the best first.
        """
        alive_ids, alive_scores = existing(state, state.alive_log_probs)
        has_finished = any_finished(state)
        return (
            where_row(has_finished, state.finished_ids, alive_ids),
            where_row(has_finished, state.finished_scores, alive_scores),
        )


def any_finished(state: BeamState) -> tf.Tensor:
    """Returns whether a row has a finished hypothesis, [batch] bool."""
    return state.finished_scores[:, 0] > UNFILLED_SCORE


def best_candidates(
    state: BeamState, logits: tf.Tensor, count: int, constraints: DecodingConstraints
) -> Candidates:
    """Finds the `count` best extensions of alive hypotheses by one id that is not forbidden."""
    log_probs, indices = _best_extensions(
        state.alive_log_probs, logits, count, constraints.forbidden, constraints.normalized
    )
    vocab = logits.shape[-1]
    return Candidates(log_probs=log_probs, ids=indices % vocab, parents=indices // vocab)


def _forced(
    forced: tf.Tensor, state: BeamState, logits: tf.Tensor, normalized: bool, candidates: Candidates
) -> Candidates:
    """Replaces a row's candidates by the forced id, [batch] int32, where that is not PAD."""

    def with_forced() -> Candidates:
        is_forced = (forced != PAD_ID)[:, None]
        is_first = tf.range(tf.shape(candidates.ids)[1]) == 0
        # During its prefix a row has one hypothesis, the first.
        log_p = logits[:, 0] if normalized else tf.nn.log_softmax(logits[:, 0])
        extended = state.alive_log_probs[:, 0] + tf.gather(log_p, forced, batch_dims=1)
        only = tf.where(is_first, extended[:, None], IMPOSSIBLE)
        return Candidates(
            log_probs=tf.where(is_forced, only, candidates.log_probs),
            ids=tf.where(is_forced, forced[:, None], candidates.ids),
            parents=tf.where(is_forced, 0, candidates.parents),
        )

    # Most steps come after all prefixes, and need no softmax more.
    return tf.cond(tf.reduce_any(forced != PAD_ID), with_forced, lambda: candidates)


def existing(state: BeamState, scores: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the ids of alive hypotheses, and their scores; PAD and UNFILLED where none is."""
    exists = state.alive_log_probs > IMPOSSIBLE  # [batch, beam]
    ids = tf.where(exists[:, :, None], state.alive_ids, PAD_ID)
    return ids, tf.where(exists, scores, UNFILLED_SCORE)
