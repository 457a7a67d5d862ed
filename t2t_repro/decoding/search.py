"""The protocols of a search and of the model that it calls; beam search and sampling implement it.

Your own search is a class with `beam_size` and `search` that gin binds:
`Translator.search = @my_project.MySearch()`.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from absl import logging
from numpy.typing import NDArray

from t2t_repro.errors import UserError
from t2t_repro.vocabulary import EOS_ID

if TYPE_CHECKING:
    import tensorflow as tf

Cache = Any
"""The state of a model between steps: nested tensors, each [batch, ...]."""

UNFILLED_SCORE = -1e7
"""The score of a hypothesis that does not exist, as in tensor2tensor."""


LengthPenalty = Callable[[Any, float], Any]
"""lp(length, alpha), which log P(y) is divided by. Lengths are integers of any shape and include
EOS. The result is float32 of the same shape, positive, and does not fall with the length: beam
search relies on that to end early."""


class Translation(NamedTuple):
    """One translation.

    Attributes:
        text: the sentence.
        score: in nats. Beam search's is log-probability, divided by the length penalty if it
            is finished. After reranking it is the reranker's own measure.
        finished: whether it ended by itself; otherwise it is cut off at the limit of its length.
        truncated: whether its source or its prefix was cut off.
    """

    text: str
    score: float
    finished: bool = True
    truncated: bool = False


def decoded(
    ids: NDArray[np.int32], scores: NDArray[np.float32], decode: Callable[[Any], str]
) -> list[Translation]:
    """Decodes the hypotheses of a sentence; those that do not exist are left out.

    Args:
        ids: [n_best, max_steps], see `SearchResult`.
        scores: [n_best]; `UNFILLED_SCORE` for hypotheses that do not exist.
        decode: returns the text of the ids of a hypothesis, EOS and PAD included.

    Raises:
        UserError: the scores are not numbers, or there is no hypothesis.
    """
    # Half of the score of a missing one is lower than any real score, and safe from rounding.
    exists = scores > UNFILLED_SCORE / 2
    # The first hypothesis always exists; NaN is not greater than anything.
    if not exists[0]:
        raise UserError("scores are not numbers: damaged weights, or a prefix against the grammar.")
    hypotheses = zip(ids[exists], scores[exists], strict=True)
    return [Translation(decode(row), float(score), EOS_ID in row) for row, score in hypotheses]


def log_cut(translations: Sequence[Translation], first: int | None = None) -> None:
    """Logs the lines that are not translated whole.

    Args:
        translations: the best translation of each line.
        first: the number of the first line; None if they have no numbers.
    """
    cut = [index for index, best in enumerate(translations) if best.truncated]
    log_lines(first, cut, "only its beginning, or that of a long word, is translated")
    log_unfinished(translations, first)


def log_unfinished(translations: Sequence[Translation], first: int | None) -> None:
    """Logs the translations that are cut off at their length limit (see `log_cut`)."""
    unfinished = [index for index, best in enumerate(translations) if not best.finished]
    log_lines(first, unfinished, "the translation is cut off at the limit of its length")


def log_untrained(ids: Sequence[Sequence[int]], trained_length: int, first: int | None) -> None:
    """Logs which sources are longer than those in training; nothing if `first` is None.

    Args:
        ids: the ids of each source.
        trained_length: the most ids of a source in training.
        first: the number of the first source's line.
    """
    long = [index for index, line_ids in enumerate(ids) if len(line_ids) > trained_length]
    problem = f"longer than the {trained_length} subwords of training, and may be translated"
    message = f"{problem} in part; --split_sentences translates sentence by sentence"
    log_numbered_lines(first, long, message)


def log_numbered_lines(first: int | None, indices: Collection[int], message: str) -> None:
    """Logs a message about some lines if they have numbers (see `log_lines`), else nothing."""
    if first is not None:
        log_lines(first, indices, message)


def log_lines(first: int | None, indices: Collection[int], message: str) -> None:
    """Logs a message about some lines, such as "lines 3, 7: ..."; nothing if there are none.

    Args:
        first: the number of the first line; None if they have no numbers: "2 texts: ...".
        indices: the indices of the lines. Of more than five, the rest is only counted.
        message: what is true of each.
    """
    if first is None and indices:
        logging.warning(f"{len(indices)} texts: {message}")
    elif first is not None and indices:
        numbers = ", ".join(str(first + index) for index in sorted(indices)[:5])
        more = f" and {len(indices) - 5} more" if len(indices) > 5 else ""
        logging.warning(f"line{'s' if len(indices) > 1 else ''} {numbers}{more}: {message}")


class StepModel(Protocol):
    """A model that scores the next id, as a search calls it."""

    def make_room(self, cache: Cache, positions: int) -> Cache:
        """Returns the cache with room for `positions` more steps."""

    def step(
        self, ids: "tf.Tensor", parents: "tf.Tensor", position: "tf.Tensor", cache: Cache
    ) -> "tuple[tf.Tensor, Cache]":
        """Scores the next id of every hypothesis.

        Args:
            ids: [batch, beam] int32, the last id of each hypothesis; PAD at step 0.
            parents: [batch, beam] int32, the hypothesis of the previous step that each extends.
            position: int32 scalar, the number of ids of each hypothesis.
            cache: from the previous step, or from `make_room`; it may be overwritten.

        Returns:
            logits [batch, beam, vocab] for the next ids, and the cache.
        """


class DecodingConstraints(NamedTuple):
    """Prefixes, seeds and forbidden ids of a batch of sentences.

    Attributes:
        source: [batch, source_length] int32 ids. Random numbers are drawn from their hashes, so
            that a sentence gets the same ones in every batch (`sampling.keys_of`).
        prefix: [batch, prefix_length] int32, the ids with which each translation has to begin,
            then PAD; None for no prefix. An id of the prefix counts in the score with the model's
            log-probability, as if the search had chosen it.
        free: number of ids at the beginning of every prefix that have probability 1, such as the
            code of a language; they count in the length.
        gain: float32 scalar, the most nats by which a hypothesis's log P may still rise, at most to
            0; above 0 only with a `SoftGrammar`.
        seeds: [batch] int64, a seed for each sentence; None: the search's own seed.
        forbidden: ids that a search must not choose; a prefix may have them. The other ids keep
            the probability that the model gives them, so a score is still log P.
        normalized: True if the model's scores are log-probabilities (or a combination of several
            models'), which are added up as they are; False if they are logits.
    """

    source: "tf.Tensor"
    prefix: "tf.Tensor | None" = None
    seeds: "tf.Tensor | None" = None
    forbidden: tuple[int, ...] = ()
    normalized: bool = False
    free: int = 0
    gain: "tf.Tensor | float" = 0.0


class HypothesisState(Protocol):
    """The state of hypotheses in a grammar: nested tensors [batch, beam, ...]."""

    def begin(self, source: "tf.Tensor", max_target_lengths: "tf.Tensor", beam_size: int) -> Any:
        """Returns the state of hypotheses without ids, nested tensors [batch, beam, ...].

        Args:
            source: [batch, source_length] int32 ids, EOS last, then PAD.
            max_target_lengths: [batch] int32, the most ids of a hypothesis, EOS included.
            beam_size: hypotheses of a sentence.
        """

    def after(self, state: Any, ids: "tf.Tensor") -> Any:
        """Returns the state after one more id of every hypothesis.

        PAD changes nothing.

        Args:
            state: the state before it.
            ids: [batch, beam] int32. Hypotheses that do not exist have any ids.
        """


class Grammar(HypothesisState, Protocol):
    """A rule about which ids may come next, such as `TreeGrammar`.

    Gin binds a class or a function of yours that makes it from the subwords:
    `Translator.grammar = @my_project.MyGrammar`.
    """

    def allowed(self, state: Any) -> "tf.Tensor":
        """Returns which ids may come next, [batch, beam, vocab] bool: at least one."""


@runtime_checkable
class SoftGrammar(HypothesisState, Protocol):
    """A preference for some of the next ids that forbids none, such as `Glossary`."""

    def rescored(self, log_p: "tf.Tensor", state: Any) -> "tf.Tensor":
        """Returns scores of the next ids from log-probabilities, both [batch, beam, vocab]."""

    def gain(self, state: Any) -> "tf.Tensor":
        """Returns the most nats by which a score may rise, a scalar, from the first state."""

    def wanted(self, state: Any) -> "tf.Tensor":
        """Returns the preferred ids, [batch, ids] int32, then PAD; a shortlist must allow them."""

    def among(self, state: Any, ids: "tf.Tensor") -> Any:
        """Returns the state for a reduced vocabulary: each id is its index in the sorted `ids`."""


class SearchResult(NamedTuple):
    """The hypotheses that a search found, best first.

    Samples are in the order in which they were drawn.

    Attributes:
        ids: [batch, n_best, max_steps] int32. EOS is the last id of a finished hypothesis; PAD
            follows it.
        scores: [batch, n_best] float32, in nats; `UNFILLED_SCORE` for hypotheses that do not exist
            (PAD alone).
        finished: [batch] bool, whether any hypothesis reached EOS within the limit. If none did,
            `ids` are unfinished ones.
        steps: int32 scalar, the number of calls of the step function; all later ids are PAD.
    """

    ids: "tf.Tensor"
    scores: "tf.Tensor"
    finished: "tf.Tensor"
    steps: "tf.Tensor"


@runtime_checkable
class Reranker(Protocol):
    """Orders the hypotheses of a search, as `MinimumBayesRisk` does."""

    def rerank(self, hypotheses: Sequence[Translation]) -> list[Translation]:
        """Orders the hypotheses of a sentence (at least one): the best first, each text once."""


@runtime_checkable
class Search(Protocol):
    """Finds translations, one id after the other."""

    @property
    def beam_size(self) -> int:
        """The number of hypotheses of a sentence decoded side by side."""

    def search(
        self,
        model: StepModel,
        cache: Cache,
        max_target_lengths: "tf.Tensor",
        max_steps: "int | tf.Tensor",
        n_best: "int | tf.Tensor",
        constraints: DecodingConstraints,
    ) -> SearchResult:
        """Decodes a batch of sentences, eagerly or in a `tf.function`.

        Args:
            model: scores the next id.
            cache: the model's cache before step 0, nested tensors [batch, ...]. The search enlarges
                it by `model.make_room`, and may remove the rows of finished sentences.
            max_target_lengths: [batch] int32, the most ids of a translation, EOS included; at
                most max_steps.
            max_steps: width of the result.
            n_best: number of hypotheses returned for each row, 1 ... beam_size.
            constraints: prefixes, seeds and forbidden ids.
        """
