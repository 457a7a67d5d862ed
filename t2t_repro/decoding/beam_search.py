"""Beam search with a length penalty (paper, section 6.1).

Follows tensor2tensor's `utils/beam_search.py`, the search behind the paper's BLEU scores, with the
length penalty of Wu et al. (2016, equation 14, without the coverage term). One thing differs:
every row of the batch has its own length limit and stops by itself, see `decoding.step_loop`.
"""

from collections.abc import Callable
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
from t2t_repro.decoding.step_loop import Row, StepLoop, checked_limits, where_row
from t2t_repro.model import kernels
from t2t_repro.model.kernels import decoding as fast
from t2t_repro.vocabulary import EOS_ID, PAD_ID

_IMPOSSIBLE = float("-inf")

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


class _State(NamedTuple):
    """The hypotheses after some steps; the best one of every row comes first."""

    last_ids: tf.Tensor  # [batch, beam]: the last id of each alive hypothesis
    parents: tf.Tensor  # [batch, beam]: the hypothesis of the previous step that it extends
    alive_ids: tf.Tensor  # [batch, beam, max_steps]
    alive_log_probs: tf.Tensor  # [batch, beam]
    finished_ids: tf.Tensor  # [batch, beam, max_steps]
    finished_scores: tf.Tensor  # [batch, beam]


class _Candidates(NamedTuple):
    """The best one-id extensions of a row's alive hypotheses, best first."""

    log_probs: tf.Tensor  # [batch, candidates]
    ids: tf.Tensor  # [batch, candidates]: the id that was added
    parents: tf.Tensor  # [batch, candidates]: the alive hypothesis that it was added to


def best_extensions(log_probs: tf.Tensor, logits: tf.Tensor, k: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds the most probable extensions of a row's hypotheses by one id.

    Args:
        log_probs: [batch, beam] float32, of the hypotheses.
        logits: [batch, beam, vocab] float32, of the ids that may follow each.
        k: how many.

    Returns:
        log-probabilities [batch, k], the best first, and indices [batch, k] into beam·vocab, int32.
        Ties go to the lower index.
    """
    _, beam, vocab = logits.shape
    extended = log_probs[..., None] + tf.nn.log_softmax(logits)
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
                (not checked) makes one graph serve all numbers.
            constraints: `prefix` and `forbid_pad` are used. During its prefix a row has one
                hypothesis.

        Returns:
            See `SearchResult`. Scores of `finished` rows are log P / penalty. Other rows have their
            most probable ids, with plain log P.

        Raises:
            ValueError: if an argument, or what the model returns, has the wrong shape, or n_best
                is not in 1 ... beam_size.
        """
        limits = checked_limits(self.beam_size, cache, limits, max_steps, n_best)
        constraints = constraints or DecodingConstraints(tf.zeros_like(limits, tf.int64))
        prefix = () if constraints.prefix is None else (constraints.prefix,)

        def advance(state: _State, logits: tf.Tensor, step: tf.Tensor, row: Row) -> _State:
            candidates = self._best_candidates(
                state.alive_log_probs, logits, constraints.forbid_pad
            )
            if row.known:
                (prefix_ids,) = row.known
                forced = prefix_id(prefix_ids, step)
                candidates = _forced(forced, state.alive_log_probs, logits, candidates)
            return self._next_state(state, candidates, step)

        def is_done(state: _State, step: tf.Tensor | int, row: Row) -> tf.Tensor:
            return self._is_done(state, step, row.limits, n_best)

        loop = StepLoop(model, advance, is_done)
        state = self._initial_state(limits, max_steps)
        steps, state = loop.run(cache, Row(limits, prefix), state)
        return _best_hypotheses(state, steps, n_best)

    def _initial_state(self, limits: tf.Tensor, max_steps: int | tf.Tensor) -> _State:
        """Returns a state with one alive hypothesis without ids in every row."""
        batch = limits.shape[0] if limits.shape[0] is not None else tf.shape(limits)[0]
        no_ids = tf.fill([batch, self.beam_size, max_steps], PAD_ID)
        # Otherwise the beam would fill with copies of one hypothesis at step 0.
        log_probs = tf.constant([0.0] + [_IMPOSSIBLE] * (self.beam_size - 1))
        return _State(
            last_ids=tf.fill([batch, self.beam_size], PAD_ID),
            parents=tf.tile(tf.range(self.beam_size)[None], [batch, 1]),
            alive_ids=no_ids,
            alive_log_probs=tf.tile(log_probs[None], [batch, 1]),
            finished_ids=no_ids,
            finished_scores=tf.fill([batch, self.beam_size], UNFILLED_SCORE),
        )

    def _is_done(
        self, state: _State, step: tf.Tensor, limits: tf.Tensor, n_best: int | tf.Tensor
    ) -> tf.Tensor:
        """Returns which rows ([batch] bool) cannot gain from another step."""
        # [batch]
        bound = state.alive_log_probs[:, 0] / self.penalty(limits, self.length_penalty)
        # Equality is enough: of equal scores, the earlier hypothesis is ranked first.
        return (step >= limits) | (state.finished_scores[:, n_best - 1] >= bound)

    def _best_candidates(
        self, alive_log_probs: tf.Tensor, logits: tf.Tensor, forbid_pad: bool
    ) -> _Candidates:
        """Finds the best extensions of alive hypotheses ([batch, beam]) by one id.

        All have the same length, so the penalty does not matter here.
        """
        # 2·beam_size of beam_size·vocab always exist: the vocabulary has at least PAD and EOS.
        count = 2 * self.beam_size if self.beam_size > 1 else 1
        vocab = logits.shape[-1]
        # Each hypothesis has one extension by PAD, which is left out later.
        wanted = min(count + self.beam_size, self.beam_size * vocab) if forbid_pad else count
        log_probs, indices = _best_extensions(alive_log_probs, tf.cast(logits, tf.float32), wanted)
        candidates = _Candidates(log_probs=log_probs, ids=indices % vocab, parents=indices // vocab)
        return _without_pad(candidates, count) if forbid_pad else candidates

    def _next_state(self, state: _State, candidates: _Candidates, step: tf.Tensor) -> _State:
        """Divides the candidates into alive and finished hypotheses."""
        ends = candidates.ids == EOS_ID  # [batch, candidates]
        # [batch, candidates, max_steps]
        parent_ids = tf.gather(state.alive_ids, candidates.parents, batch_dims=1)
        is_here = tf.range(tf.shape(parent_ids)[-1]) == step
        ids = tf.where(is_here, candidates.ids[:, :, None], parent_ids)

        alive_log_probs, alive = tf.math.top_k(
            tf.where(ends, _IMPOSSIBLE, candidates.log_probs), self.beam_size
        )  # [batch, beam] both

        new_scores = candidates.log_probs / self.penalty(step + 1, self.length_penalty)
        # [batch, beam + candidates]; the old ones come first because they win ties.
        scores = tf.concat([state.finished_scores, tf.where(ends, new_scores, _IMPOSSIBLE)], axis=1)
        finished_scores, finished = tf.math.top_k(scores, self.beam_size)  # [batch, beam] both

        return _State(
            last_ids=tf.gather(candidates.ids, alive, batch_dims=1),
            parents=tf.gather(candidates.parents, alive, batch_dims=1),
            alive_ids=tf.gather(ids, alive, batch_dims=1),
            alive_log_probs=alive_log_probs,
            finished_ids=tf.gather(
                tf.concat([state.finished_ids, ids], axis=1), finished, batch_dims=1
            ),
            finished_scores=finished_scores,
        )


def _without_pad(candidates: _Candidates, count: int) -> _Candidates:
    """Returns the best `count` candidates that do not add PAD."""
    log_probs = tf.where(candidates.ids == PAD_ID, _IMPOSSIBLE, candidates.log_probs)
    log_probs, order = tf.math.top_k(log_probs, count)
    ids = tf.gather(candidates.ids, order, batch_dims=1)
    parents = tf.gather(candidates.parents, order, batch_dims=1)
    return _Candidates(log_probs=log_probs, ids=ids, parents=parents)


def _forced(
    forced: tf.Tensor, alive_log_probs: tf.Tensor, logits: tf.Tensor, candidates: _Candidates
) -> _Candidates:
    """Replaces a row's candidates by the forced id, [batch] int32, where that is not PAD."""

    def with_forced() -> _Candidates:
        is_forced = (forced != PAD_ID)[:, None]
        is_first = tf.range(tf.shape(candidates.ids)[1]) == 0
        log_p = tf.nn.log_softmax(tf.cast(logits[:, 0], tf.float32))
        # During its prefix a row has one hypothesis, the first.
        extended = alive_log_probs[:, 0] + tf.gather(log_p, forced, batch_dims=1)
        only = tf.where(is_first, extended[:, None], _IMPOSSIBLE)
        return _Candidates(
            log_probs=tf.where(is_forced, only, candidates.log_probs),
            ids=tf.where(is_forced, forced[:, None], candidates.ids),
            parents=tf.where(is_forced, 0, candidates.parents),
        )

    return tf.cond(tf.reduce_any(forced != PAD_ID), with_forced, lambda: candidates)


def _best_hypotheses(state: _State, steps: tf.Tensor, n_best: int | tf.Tensor) -> SearchResult:
    """Returns the finished hypotheses of each row, or the alive ones if it has none."""
    has_finished = state.finished_scores[:, 0] > UNFILLED_SCORE  # [batch]
    exists = state.alive_log_probs > _IMPOSSIBLE  # [batch, beam]
    alive_ids = tf.where(exists[:, :, None], state.alive_ids, PAD_ID)
    alive_scores = tf.where(exists, state.alive_log_probs, UNFILLED_SCORE)
    return SearchResult(
        ids=where_row(has_finished, state.finished_ids, alive_ids)[:, :n_best],
        scores=where_row(has_finished, state.finished_scores, alive_scores)[:, :n_best],
        finished=has_finished,
        steps=steps,
    )
