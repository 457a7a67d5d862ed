"""Beam search with a length penalty (paper, section 6.1), and Marian's own beam search.

Follows tensor2tensor's `utils/beam_search.py`, the search behind the paper's BLEU scores, with the
length penalty of Wu et al. (2016, equation 14, without the coverage term). One thing differs:
every row of the batch has its own length limit and stops by itself, see `decoding.step_loop`.

Marian's search is for models that it trained: it finds the same n-best lists. It follows
marian-dev's `translator/beam_search.cpp`, and differs in what ends it: the beam becomes narrower
with each finished hypothesis, and no score ends the search early.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import tensorflow as tf

from t2t_repro.decoding.search import UNFILLED_SCORE
from t2t_repro.decoding.step_loop import SentenceConstants, StepLoop, prefix_id, where_row
from t2t_repro.model import kernels
from t2t_repro.model.kernels import decoding as fast
from t2t_repro.model.masks import without_ids
from t2t_repro.vocabulary import EOS_ID, PAD_ID

if TYPE_CHECKING:
    from t2t_repro.decoding.settings import BeamSearch, MarianSearch

IMPOSSIBLE = float("-inf")
"""The log-probability of a hypothesis that does not exist."""


class BeamState(NamedTuple):
    """The hypotheses after some steps; the best one of every row comes first."""

    last_ids: tf.Tensor  # [batch, beam] int32: the last id of each alive hypothesis
    parents: tf.Tensor  # [batch, beam] int32: the hypothesis of the previous step that it extends
    alive_ids: tf.Tensor  # [batch, beam, max_steps] int32
    alive_log_probs: tf.Tensor  # [batch, beam] float32; `IMPOSSIBLE` for missing ones
    finished_ids: tf.Tensor  # [batch, beam, max_steps] int32
    finished_scores: tf.Tensor  # [batch, beam] float32; `UNFILLED_SCORE` for missing ones


class Candidates(NamedTuple):
    """The best one-id extensions of a row's alive hypotheses, best first."""

    log_probs: tf.Tensor  # [batch, candidates] float32
    ids: tf.Tensor  # [batch, candidates] int32: the id that was added
    parents: tf.Tensor  # [batch, candidates] int32: the alive hypothesis that it was added to


def best_extensions(
    log_probs: tf.Tensor,
    logits: tf.Tensor,
    k: int,
    forbidden: Sequence[int] = (),
    normalized: bool = False,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds the most probable extensions of the hypotheses of each row by one id.

    A search calls it where a shortlist limits the vocabulary. Otherwise it calls a faster function
    in its place, `kernels.decoding.best_extensions` (see `kernels.fast` below): an edit here has no
    effect there, unless T2T_REPRO_PLAIN=1.

    Args:
        log_probs: [batch, beam] float32, of the hypotheses.
        logits: [batch, beam, vocab] float32, of the ids that may follow each.
        k: the number of extensions.
        forbidden: ids that extend no hypothesis; the others keep their probability.
        normalized: True if the logits are log-probabilities.

    Returns:
        log-probabilities [batch, k], the best first, and indices [batch, k] into beam·vocab, int32.
        Ties go to the lower index.
    """
    beam, vocab = logits.shape[1], tf.shape(logits)[2]
    log_p = logits if normalized else tf.nn.log_softmax(logits)
    extended = log_probs[..., None] + without_ids(log_p, forbidden)
    return tf.math.top_k(tf.reshape(extended, [-1, beam * vocab]), k)


_best_extensions = kernels.fast(fast.best_extensions, best_extensions)


@dataclass(frozen=True)
class BeamSteps(StepLoop):
    """Computes a beam search (paper, section 6.1).

    It looks for a high score(y) = log P(y) / lp(|y|). Each step extends every alive hypothesis by
    every id and keeps the best 2·beam_size candidates. At most beam_size of them end in EOS, so
    beam_size alive ones are always left. Those that end in EOS compete, each with the penalty of
    its own length, for the beam_size places of the finished hypotheses. Beam size 1 keeps the one
    best candidate: greedy decoding.

    If n_best is an int32 tensor, one graph serves all numbers.
    """

    settings: "BeamSearch"

    def begin(self, batch: tf.Tensor) -> BeamState:
        """Returns a state with one alive hypothesis without ids in every row."""
        beam_size = self.settings.beam_size
        no_ids = tf.fill([batch, beam_size, self.max_steps], PAD_ID)
        # With more, the beam would fill with copies of the same hypothesis at step 0.
        log_probs = tf.constant([0.0] + [IMPOSSIBLE] * (beam_size - 1))
        return BeamState(
            last_ids=tf.fill([batch, beam_size], PAD_ID),
            parents=tf.tile(tf.range(beam_size)[None], [batch, 1]),
            alive_ids=no_ids,
            alive_log_probs=tf.tile(log_probs[None], [batch, 1]),
            finished_ids=no_ids,
            finished_scores=tf.fill([batch, beam_size], UNFILLED_SCORE),
        )

    def advance(
        self, state: BeamState, logits: tf.Tensor, step: tf.Tensor, row: SentenceConstants
    ) -> BeamState:
        """Extends the alive hypotheses by one id; during its prefix a row has one hypothesis."""
        candidates = self._candidates(state, logits)
        if row.prefix:
            forced = prefix_id(row.prefix[0], step)
            candidates = self._with_forced(forced, state, logits, candidates)
        return self._next_state(state, candidates, step)

    def is_done(self, state: BeamState, step: tf.Tensor | int, row: SentenceConstants) -> tf.Tensor:
        """Returns which rows are at their limit or cannot gain, [active] bool.

        A row cannot gain from another step if no alive hypothesis can still enter the `n_best`
        finished ones. Only the `gain` of a `SoftGrammar` can raise log P, and lp never falls. So
        with this gain, log P(best alive) / lp(limit) is an upper bound of all future scores.
        """
        # Both [active]. Even with the gain, log P is at most 0.
        highest_log_p = tf.minimum(state.alive_log_probs[:, 0] + self.constraints.gain, 0.0)
        bound = self._score(highest_log_p, row.max_target_lengths)
        # Equality is enough: of equal scores, the earlier hypothesis is ranked first.
        cannot_gain = state.finished_scores[:, self.n_best - 1] >= bound
        return (step >= row.max_target_lengths) | cannot_gain

    def results(self, state: BeamState) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the finished hypotheses of each row, or the alive ones if none is finished.

        The score of a finished hypothesis is log P / lp, that of an alive one is log P. A row with
        the length limit 0 has one hypothesis without ids, with score 0.
        """
        alive_ids, alive_scores = _alive_hypotheses(state, state.alive_log_probs)
        has_finished = _has_finished(state)
        ids = where_row(has_finished, state.finished_ids, alive_ids)
        return ids, where_row(has_finished, state.finished_scores, alive_scores), has_finished

    def _candidates(self, state: BeamState, logits: tf.Tensor) -> Candidates:
        """Finds the best extensions of alive hypotheses by one id.

        All have the same length, so the penalty does not matter here.
        """
        # 2·beam_size of beam_size·vocab always exist: the vocabulary has at least PAD and EOS.
        count = 2 * self.settings.beam_size if self.settings.beam_size > 1 else 1
        return self._best_candidates(state, logits, count)

    def _best_candidates(self, state: BeamState, logits: tf.Tensor, count: int) -> Candidates:
        """Finds the `count` best extensions of alive hypotheses by one id."""
        forbidden, normalized = self.constraints.forbidden, self.constraints.normalized
        vocab = logits.shape[-1] or tf.shape(logits)[-1]
        # The kernel is for large vocabularies of known size; a shortlist's ids are few.
        extend = _best_extensions if logits.shape[-1] else best_extensions
        log_probs, indices = extend(state.alive_log_probs, logits, count, forbidden, normalized)
        return Candidates(log_probs=log_probs, ids=indices % vocab, parents=indices // vocab)

    def _with_forced(
        self, forced: tf.Tensor, state: BeamState, logits: tf.Tensor, candidates: Candidates
    ) -> Candidates:
        """Returns candidates, with those of a row replaced where its prefix forces the next id.

        Such a row has one candidate: its first hypothesis, extended by the forced id.

        Args:
            forced: [batch] int32, the forced id of each row, or PAD for none.
            state: the state before this step.
            logits: [batch, beam, vocab] float32.
            candidates: the best extensions without regard to prefixes.
        """

        def with_forced() -> Candidates:
            is_forced = (forced != PAD_ID)[:, None]
            is_first = tf.range(tf.shape(candidates.ids)[1]) == 0
            # During its prefix a row has one hypothesis, the first.
            first = logits[:, 0]
            log_p = first if self.constraints.normalized else tf.nn.log_softmax(first)
            extended = state.alive_log_probs[:, 0] + tf.gather(log_p, forced, batch_dims=1)
            forced_log_probs = tf.where(is_first, extended[:, None], IMPOSSIBLE)
            return Candidates(
                log_probs=tf.where(is_forced, forced_log_probs, candidates.log_probs),
                ids=tf.where(is_forced, forced[:, None], candidates.ids),
                parents=tf.where(is_forced, 0, candidates.parents),
            )

        # Most steps come after all prefixes: they save the softmax.
        return tf.cond(tf.reduce_any(forced != PAD_ID), with_forced, lambda: candidates)

    def _score(self, log_probs: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        """Computes the scores of hypotheses of `length` ids."""
        return log_probs / self.settings.penalty(length, self.settings.length_penalty)

    def _next_state(self, state: BeamState, candidates: Candidates, step: tf.Tensor) -> BeamState:
        """Returns the best candidates without EOS as alive, and the best finished hypotheses."""
        # [batch, candidates]: whether each candidate is finished.
        ends = candidates.ids == EOS_ID
        # [batch, candidates, max_steps]: the ids of each parent, and the new one at this step.
        ids_before = tf.gather(state.alive_ids, candidates.parents, batch_dims=1)
        is_this_step = tf.range(tf.shape(ids_before)[-1]) == step
        ids = tf.where(is_this_step, candidates.ids[:, :, None], ids_before)

        unfinished_log_probs = tf.where(ends, IMPOSSIBLE, candidates.log_probs)
        # [batch, beam] both: log-probabilities, and indices of candidates.
        alive_log_probs, alive = tf.math.top_k(unfinished_log_probs, self.settings.beam_size)

        new_scores = self._score(candidates.log_probs, step + 1)
        # [batch, beam + candidates]; the old ones come first, so that they win ties.
        scores = tf.concat([state.finished_scores, tf.where(ends, new_scores, IMPOSSIBLE)], axis=1)
        # [batch, beam] both: scores, and indices of old hypotheses and candidates.
        finished_scores, finished = tf.math.top_k(scores, self.settings.beam_size)
        all_ids = tf.concat([state.finished_ids, ids], axis=1)

        return BeamState(
            last_ids=tf.gather(candidates.ids, alive, batch_dims=1),
            parents=tf.gather(candidates.parents, alive, batch_dims=1),
            alive_ids=tf.gather(ids, alive, batch_dims=1),
            alive_log_probs=alive_log_probs,
            finished_ids=tf.gather(all_ids, finished, batch_dims=1),
            finished_scores=finished_scores,
        )


@dataclass(frozen=True)
class MarianSteps(BeamSteps):
    """Computes Marian's search.

    It looks for a high score(y) = (log P(y) - word_penalty·n) / lp(n), n = |y|. The first step
    keeps the beam_size best extensions; each later step keeps as many as hypotheses are alive.
    Those that end in EOS are finished, and the beam shrinks by one for each. The search ends when
    none is alive, or at the row's limit. Unfinished hypotheses then compete with the finished ones.
    """

    settings: "MarianSearch"

    def is_done(self, state: BeamState, step: tf.Tensor | int, row: SentenceConstants) -> tf.Tensor:
        """Returns which rows are at their limit, or have no alive hypothesis, [active] bool."""
        return (step >= row.max_target_lengths) | (state.alive_log_probs[:, 0] == IMPOSSIBLE)

    def results(self, state: BeamState) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the finished hypotheses and the alive ones together, the best first."""
        # Hypotheses that are still alive are as long as the row's limit.
        scores = self._score(state.alive_log_probs, self.max_target_lengths[:, None])
        alive_ids, alive_scores = _alive_hypotheses(state, scores)
        all_ids = tf.concat([state.finished_ids, alive_ids], axis=1)
        all_scores = tf.concat([state.finished_scores, alive_scores], axis=1)
        best_scores, best = tf.math.top_k(all_scores, self.settings.beam_size)
        return tf.gather(all_ids, best, batch_dims=1), best_scores, _has_finished(state)

    def _candidates(self, state: BeamState, logits: tf.Tensor) -> Candidates:
        """Finds the beam_size best extensions, one fewer for each finished hypothesis."""
        candidates = self._best_candidates(state, logits, self.settings.beam_size)
        # [batch, beam]. Finished scores are sorted: reversed, the n finished ones mask the n worst
        # candidates.
        is_within_beam = state.finished_scores[:, ::-1] == UNFILLED_SCORE
        log_probs = tf.where(is_within_beam, candidates.log_probs, IMPOSSIBLE)
        return candidates._replace(log_probs=log_probs)

    def _score(self, log_probs: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        """Computes the scores of hypotheses of `length` ids, with the word penalty."""
        penalty = self.settings.word_penalty * tf.cast(length, tf.float32)
        return super()._score(log_probs - penalty, length)


def _has_finished(state: BeamState) -> tf.Tensor:
    """Returns whether each row has a finished hypothesis, [batch] bool."""
    return state.finished_scores[:, 0] > UNFILLED_SCORE


def _alive_hypotheses(state: BeamState, scores: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the ids and `scores` of alive hypotheses; PAD and UNFILLED_SCORE for missing ones."""
    exists = state.alive_log_probs > IMPOSSIBLE  # [batch, beam]
    ids = tf.where(exists[:, :, None], state.alive_ids, PAD_ID)
    return ids, tf.where(exists, scores, UNFILLED_SCORE)
