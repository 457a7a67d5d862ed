"""Negative log-likelihood of held-out sentences, by teacher forcing."""

import math

import numpy as np
import tensorflow as tf

from t2t_repro.data.bucketing import group_by_length
from t2t_repro.data.token_store import TokenStore
from t2t_repro.models.transformer import Transformer
from t2t_repro.training.loss import loss_sums


class HeldOutLoss:
    """Scores the reference translations of a token store under a model.

    Args:
        model: the Transformer; its current weights are used at every call.
        store: the sentences.
        tokens_per_batch: padded tokens of a batch at most, on the longer side.
    """

    def __init__(self, model: Transformer, store: TokenStore, tokens_per_batch: int = 4096) -> None:
        self._model = model
        self._store = store
        longest = np.maximum(store.source_lengths, store.target_lengths)
        self._batches = group_by_length(longest, tokens_per_batch)
        ids = tf.TensorSpec([None, None], tf.int32)
        self._sums = tf.function(self._batch_sums, input_signature=[ids, ids])

    def nll(self) -> float:
        """Negative log-likelihood per target token, EOS included, in nats."""
        total, tokens = self.sums()
        return total / tokens

    def sums(self, first: int = 0, every: int = 1) -> tuple[float, float]:
        """Negative log-likelihood of every so-manieth batch, in nats, and its target tokens.

        Args:
            first: batch.
            every: 1 for all from it on.
        """
        total = tokens = 0.0
        for indices in self._batches[first::every]:
            source, target = self._store.padded_batch(
                indices,
                int(self._store.source_lengths[indices].max()),
                int(self._store.target_lengths[indices].max()),
                len(indices),
            )
            nll, count = self._sums(source, target)
            total += float(nll)
            tokens += float(count)
        return total, tokens

    def perplexity(self) -> float:
        """exp(nll): perplexity per subword, which depends on the subword model."""
        return math.exp(self.nll())

    def _batch_sums(self, source: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        memory = self._model.encode(source, training=False)
        vectors = self._model.decode(target, memory, source, training=False)
        table = tf.convert_to_tensor(self._model.embedding.table.value)
        sums = loss_sums(vectors, table, target, label_smoothing=0.0)
        return sums.nll, sums.tokens
