"""What a search for translations is, and what it asks of a model: beam search is one.

So is sampling. Another one is a class with `beam_size` and `search`, which gin binds:
`Translator.search = @my_project.MySearch()`.
"""

import dataclasses
from typing import Any, NamedTuple, Protocol, runtime_checkable

import tensorflow as tf

from t2t_repro.vocabulary import PAD_ID

Cache = Any
"""What the model keeps from step to step: nested tensors, each [batch, ...]."""

UNFILLED_SCORE = -1e7
"""The score of a hypothesis that does not exist, as in tensor2tensor."""


class StepModel(Protocol):
    """What a search asks of a model."""

    def make_room(self, cache: Cache, positions: int) -> Cache:
        """Prepares a cache for so many more steps."""
        ...

    def step(
        self, ids: tf.Tensor, parents: tf.Tensor, position: tf.Tensor, cache: Cache
    ) -> tuple[tf.Tensor, Cache]:
        """Scores the next id of every hypothesis.

        Args:
            ids: [batch, beam] int32, produced last; PAD at step 0.
            parents: [batch, beam] int32, of which hypothesis of the step before each comes.
            position: int32 scalar, how many ids each hypothesis has.
            cache: from the step before, or `make_room`; it may be overwritten.

        Returns:
            logits [batch, beam, vocab], for the ids that come next, and the cache.
        """
        ...


class WithoutPad(NamedTuple):
    """A model that never writes PAD: the other ids share PAD's probability.

    Attributes:
        model: scores the next id.
    """

    model: StepModel

    def make_room(self, cache: Cache, positions: int) -> Cache:
        """Prepares a cache for so many more steps."""
        return self.model.make_room(cache, positions)

    def step(
        self, ids: tf.Tensor, parents: tf.Tensor, position: tf.Tensor, cache: Cache
    ) -> tuple[tf.Tensor, Cache]:
        """Scores the next id of every hypothesis; see `StepModel`."""
        logits, cache = self.model.step(ids, parents, position, cache)
        return without_pad(logits), cache


class DecodingConstraints(NamedTuple):
    """What a search may know of the sentences of a batch, besides what the model makes of them.

    Attributes:
        keys: [batch] int64, a function of the source's ids alone: what random numbers are drawn
            from, so that a sentence gets the same ones in every batch.
        prefix: [batch, prefix_length] int32, the ids with which each translation has to begin, PAD
            after them; None where nothing is given. A given id counts in the score with the
            model's log-probability, as if the search had chosen it.
        seeds: [batch] int64, a seed for each sentence; None: the search's own for all.
        forbid_pad: whether no translation may hold PAD. What is left keeps the probability that
            the model gives it: a score is log P all the same.
    """

    keys: tf.Tensor
    prefix: tf.Tensor | None = None
    seeds: tf.Tensor | None = None
    forbid_pad: bool = False


def given_id(prefix: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
    """The ids [batch] that a prefix [batch, prefix_length] gives at a step; PAD behind its end."""
    is_here = tf.range(tf.shape(prefix)[1]) == step
    # PAD is zero: what is left is the one id that is here.
    return tf.reduce_sum(tf.where(is_here, prefix, PAD_ID), axis=1)


def without_pad(scores: tf.Tensor) -> tf.Tensor:
    """Scores or logits [..., vocab], with that of PAD as low as can be."""
    is_pad = tf.range(scores.shape[-1]) == PAD_ID
    return tf.where(is_pad, tf.constant(float("-inf"), scores.dtype), scores)


class SearchResult(NamedTuple):
    """The hypotheses that a search found, the best of every row first, or as they were drawn.

    Attributes:
        ids: [batch, n_best, max_steps] int32. EOS is the last id of a finished hypothesis; PAD
            follows it.
        scores: [batch, n_best] float32, in nats; `UNFILLED_SCORE` for hypotheses that do not exist
            (PAD alone).
        finished: [batch] bool. Whether any hypothesis reached EOS within the limit. Where none did,
            `ids` are unfinished ones.
        steps: int32 scalar. How often the step function was called: all ids from there on are PAD.
    """

    ids: tf.Tensor
    scores: tf.Tensor
    finished: tf.Tensor
    steps: tf.Tensor


@runtime_checkable
class Search(Protocol):
    """Finds translations, one id after the other."""

    @property
    def beam_size(self) -> int:
        """How many hypotheses of a sentence are decoded side by side."""
        ...

    def search(
        self,
        model: StepModel,
        cache: Cache,
        limits: tf.Tensor,
        max_steps: int | tf.Tensor,
        n_best: int | tf.Tensor = 1,
        given: DecodingConstraints | None = None,
    ) -> SearchResult:
        """Decodes a batch of sentences, in a `tf.function` too.

        Args:
            model: scores the next id.
            cache: of the model before step 0, without room. Nested tensors [batch, ...].
            limits: [batch] integers, the most ids that a row may have, EOS included.
            max_steps: width of the result.
            n_best: number of hypotheses returned for each row, 1 ... beam_size.
            given: keys for random numbers, and how translations begin; None: nothing is known,
                all keys are 0.
        """
        ...


def described(search: Search) -> str:
    """Says what a search is, such as "BeamSearch(beam_size=4, length_penalty=0.6, ...)".

    Args:
        search: of one that is no dataclass, only the name is known.
    """
    name = type(search).__name__
    if not dataclasses.is_dataclass(search):
        return name
    values = {field.name: getattr(search, field.name) for field in dataclasses.fields(search)}
    told = (f"{key}={getattr(value, '__name__', repr(value))}" for key, value in values.items())
    return f"{name}({', '.join(told)})"
