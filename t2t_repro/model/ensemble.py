"""Several Transformers that translate together: the mean of their probabilities."""

import math
from collections.abc import Sequence

import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.model.step_decoder import DecodingCache, StepDecoder, bytes_of_row
from t2t_repro.model.transformer import Transformer


class Ensemble:
    """Transformers of one vocabulary; one alone is an ensemble too, and decodes as it does.

    Args:
        models: one at least, of any sizes.

    Raises:
        UserError: they score vocabularies of different sizes.
    """

    def __init__(self, models: Sequence[Transformer]) -> None:
        if len({model.vocab_size for model in models}) != 1:
            sizes = " and ".join(str(model.vocab_size) for model in models) or "no models"
            raise UserError(
                f"an ensemble was given models with vocab_size {sizes}, expected models that were "
                "trained with the same subwords."
            )
        self.models = tuple(models)

    @property
    def longest(self) -> int | None:
        """How many positions a sentence may have, see `Transformer.longest`."""
        return min(filter(None, (model.longest for model in self.models)), default=None)

    def bytes_of_row(self, beam_size: int, source_length: int, limit: int) -> int:
        """Estimates the memory that a sentence takes, in bytes; see `bytes_of_row`."""
        return sum(bytes_of_row(model, beam_size, source_length, limit) for model in self.models)

    def decoder(self, beam_size: int) -> "StepDecoder | EnsembleDecoder":
        """What scores the next token, with the weights that the models have now."""
        decoders = [StepDecoder(model, beam_size) for model in self.models]
        return decoders[0] if len(decoders) == 1 else EnsembleDecoder(decoders)


class EnsembleDecoder:
    """Decodes step by step with p(next) = 1/N Σ_n p_n(next), N models with a cache each.

    Args:
        decoders: of the models.
    """

    def __init__(self, decoders: Sequence[StepDecoder]) -> None:
        self._decoders = decoders

    def begin(self, source: tf.Tensor) -> tuple[DecodingCache, ...]:
        """Encodes source ids [batch, source_length]; there is no room for positions yet."""
        return tuple(decoder.begin(source) for decoder in self._decoders)

    def make_room(
        self, known: tuple[DecodingCache, ...], positions: int
    ) -> tuple[DecodingCache, ...]:
        """Makes room for so many more positions."""
        pairs = zip(self._decoders, known, strict=True)
        return tuple(decoder.make_room(of_model, positions) for decoder, of_model in pairs)

    def step(
        self,
        ids: tf.Tensor,
        parents: tf.Tensor,
        position: tf.Tensor,
        known: tuple[DecodingCache, ...],
    ) -> tuple[tf.Tensor, tuple[DecodingCache, ...]]:
        """Scores the next token of every hypothesis; see `StepDecoder.step`.

        Returns:
            log-probabilities [batch, beam, vocab], float32, and the caches for the next step.
        """
        pairs = zip(self._decoders, known, strict=True)
        found = [decoder.step(ids, parents, position, of_model) for decoder, of_model in pairs]
        log_p = tf.stack([tf.nn.log_softmax(tf.cast(logits, tf.float32)) for logits, _ in found])
        mean = tf.reduce_logsumexp(log_p, axis=0) - math.log(len(found))
        return mean, tuple(of_model for _, of_model in found)
