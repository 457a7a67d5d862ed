"""Ensembles: several Transformers that score the next token together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from t2t_repro.model.step_decoder import DecodingCache, StepDecoder, bytes_of_row
from t2t_repro.model.transformer import Transformer

Combine = Callable[[tf.Tensor], tf.Tensor]
"""Log-probabilities of several models, [models, batch, beam, vocab], to one score for each id,
[batch, beam, vocab]. A search adds the scores up as they are."""

Caches = tuple[DecodingCache, ...]
"""The cache of each model."""


@dataclass(frozen=True)
class Ensemble:
    """Transformers with the same vocabulary.

    A single model decodes as without an ensemble; `combine` is not used.

    Attributes:
        models: at least one, of any sizes.
        combine: makes one score of several models' log-probabilities.
        without_pad: whether PAD has no probability in any of them; see `StepDecoder`.
    """

    models: Sequence[Transformer]
    combine: Combine
    without_pad: bool = False

    @property
    def longest(self) -> int | None:
        """The most positions of a sentence in all models, or None; see `Transformer.longest`."""
        limits = [model.longest for model in self.models if model.longest is not None]
        return min(limits, default=None)

    def bytes_of_row(self, beam_size: int, source_length: int, limit: int) -> int:
        """Estimates the bytes of a sentence in all models (see `step_decoder.bytes_of_row`)."""
        return sum(bytes_of_row(model, beam_size, source_length, limit) for model in self.models)

    def decoder(
        self, beam_size: int, ids: tf.Tensor | None = None
    ) -> "StepDecoder | EnsembleDecoder":
        """Returns a step decoder of the models' current weights; a `StepDecoder` of a single model.

        `beam_size` and `ids` are those of `StepDecoder`.
        """
        decoders = [StepDecoder(model, beam_size, self.without_pad, ids) for model in self.models]
        return decoders[0] if len(decoders) == 1 else EnsembleDecoder(decoders, self.combine)


@dataclass(frozen=True)
class EnsembleDecoder:
    """Decodes step by step with all models, with one cache per model."""

    decoders: Sequence[StepDecoder]
    combine: Combine

    def begin(self, source: tf.Tensor, *allowed: tf.Tensor) -> Caches:
        """Encodes source ids [batch, source_length] by each model: one cache for each.

        `allowed` is that of `StepDecoder.begin`.
        """
        return tuple(decoder.begin(source, *allowed) for decoder in self.decoders)

    def make_room(self, caches: Caches, positions: int) -> Caches:
        """Adds unwritten entries for more positions to every cache."""
        pairs = zip(self.decoders, caches, strict=True)
        return tuple(decoder.make_room(cache, positions) for decoder, cache in pairs)

    def step(
        self, ids: tf.Tensor, parents: tf.Tensor, position: tf.Tensor, caches: Caches
    ) -> tuple[tf.Tensor, Caches]:
        """Scores the next token of every hypothesis: [batch, beam, vocab] float32, and the caches.

        The arguments are those of `StepDecoder.step`.
        """
        pairs = zip(self.decoders, caches, strict=True)
        steps = [decoder.step(ids, parents, position, cache) for decoder, cache in pairs]
        log_p = [tf.nn.log_softmax(tf.cast(logits, tf.float32)) for logits, _ in steps]
        return self.combine(tf.stack(log_p)), tuple(cache for _, cache in steps)
