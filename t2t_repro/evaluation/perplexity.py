"""Negative log-likelihood and perplexity of held-out sentences, by teacher forcing."""

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from t2t_repro.data.batch_shapes import group_by_length
from t2t_repro.data.token_store import TokenStore
from t2t_repro.model.loss import CrossEntropy
from t2t_repro.model.transformer import Transformer


class HeldOutLoss:
    """The loss of a model on a token store's reference translations.

    Args:
        model: the Transformer; its current weights are used at every call.
        store: the sentences.
        tokens_per_batch: the most padded tokens of a batch, on the longer side.
    """

    def __init__(self, model: Transformer, store: TokenStore, tokens_per_batch: int = 4096) -> None:
        self._model, self._store, self._tokens_per_batch = model, store, tokens_per_batch
        # [sentences], of the longer side of each.
        self._lengths = np.maximum(store.source_lengths, store.target_lengths)
        self._batches = self._batches_of(range(len(store)))
        ids = tf.TensorSpec([None, None], tf.int32)
        self._program = tf.function(self._batch_sums, input_signature=[ids, ids], autograph=False)

    def nll(self) -> float:
        """Returns the negative log-likelihood per target token, EOS included, in nats."""
        nll, tokens = self.sums()
        return nll / tokens

    def sums(
        self, first: int = 0, every: int = 1, within: range | None = None
    ) -> tuple[float, float]:
        """Returns the sum of nll, in nats, and the number of target tokens, of some batches.

        Several workers can share the batches: worker n of N gives n as `first`, and N as `every`.

        Args:
            first: index of the first batch, from 0.
            every: step from one batch to the next; 1 for all.
            within: indices of consecutive sentences that make the batches; all by default.
        """
        nll = tokens = 0.0
        batches = self._batches if within is None else self._batches_of(within)
        for indices in batches[first::every]:
            batch_nll, batch_tokens = self._program(*self._store.padded_batch(indices))
            nll += float(batch_nll)
            tokens += float(batch_tokens)
        return nll, tokens

    def _batches_of(self, sentences: range) -> list[NDArray[np.int64]]:
        """Groups consecutive sentences by length.

        Args:
            sentences: their indices in the store.

        Returns:
            the indices of the sentences of each batch, the shortest sentences first.
        """
        lengths = self._lengths[sentences.start : sentences.stop]
        groups = group_by_length(lengths, self._tokens_per_batch)
        # The groups have indices in `lengths`.
        return [group + sentences.start for group in groups]

    def perplexity(self) -> float:
        """Returns exp(nll), the perplexity per subword, which depends on the subword model.

        It is infinite if it does not fit into a float, e.g. after divergence.
        """
        with np.errstate(over="ignore"):
            return float(np.exp(self.nll()))

    def _batch_sums(self, source: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the sum of nll and the number of target tokens of a batch.

        Args:
            source: ids [batch, source_length] int32.
            target: ids [batch, target_length] int32.
        """
        sums = self._model.loss_sums(source, target, CrossEntropy(label_smoothing=0.0))
        return sums.nll, sums.tokens
