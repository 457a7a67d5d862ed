"""Marian's beam search, for models that it trained: the same n-best lists.

Follows marian-dev's `translator/beam_search.cpp`. It differs from `BeamSearch` in what ends it: the
beam becomes narrower with each finished hypothesis, and no score ends the search early.
"""

from dataclasses import dataclass
from typing import Annotated

import gin
import tensorflow as tf

from t2t_repro.config.values import Range, validated
from t2t_repro.decoding.beam_search import (
    IMPOSSIBLE,
    BeamSearch,
    BeamState,
    Candidates,
    LengthPenalty,
    best_candidates,
    existing,
    power_penalty,
)
from t2t_repro.decoding.search import UNFILLED_SCORE, DecodingConstraints


@gin.configurable
@validated
@dataclass(frozen=True)
class MarianSearch(BeamSearch):
    """Finds ids y with a high score(y) = (log P(y) - word_penalty·n) / n^length_penalty, n = |y|.

    Each step takes as many of the best extensions as hypotheses are alive; beam_size of the only
    one at the first step. Those that end in EOS are finished, and the beam shrinks by one for each.
    The search ends when none is alive, or at the row's limit. Hypotheses that are unfinished then
    compete with the finished ones.

    Attributes:
        beam_size: hypotheses of a sentence, alive and finished.
        length_penalty: alpha in `penalty`; Marian's `normalize`.
        penalty: lp(length, alpha); Marian's is `power_penalty`.
        word_penalty: in nats, for each id; Marian's `word-penalty`.

    Raises:
        UserError: a number is outside of its range.
    """

    length_penalty: Annotated[float, Range(least=0, most=100)] = 0.0
    penalty: LengthPenalty = power_penalty
    word_penalty: Annotated[float, Range(least=-100, most=100)] = 0.0

    def _is_done(
        self, state: BeamState, step: tf.Tensor, limits: tf.Tensor, n_best: int | tf.Tensor
    ) -> tf.Tensor:
        return (step >= limits) | (state.alive_log_probs[:, 0] == IMPOSSIBLE)

    def _best_candidates(
        self, state: BeamState, logits: tf.Tensor, constraints: DecodingConstraints
    ) -> Candidates:
        candidates = best_candidates(state, logits, self.beam_size, constraints)
        # [batch, beam]: finished hypotheses stand first, and each takes the place of a candidate.
        is_place = state.finished_scores[:, ::-1] == UNFILLED_SCORE
        log_probs = tf.where(is_place, candidates.log_probs, IMPOSSIBLE)
        return candidates._replace(log_probs=log_probs)

    def _score(self, log_probs: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        penalty = self.word_penalty * tf.cast(length, tf.float32)
        return super()._score(log_probs - penalty, length)

    def _hypotheses(self, state: BeamState, limits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the finished hypotheses and the alive ones together, the best first."""
        scores = self._score(state.alive_log_probs, limits[:, None])
        ids, scores = (
            tf.concat([finished, alive], axis=1)
            for finished, alive in zip(
                (state.finished_ids, state.finished_scores), existing(state, scores), strict=True
            )
        )
        scores, order = tf.math.top_k(scores, self.beam_size)
        return tf.gather(ids, order, batch_dims=1), scores
