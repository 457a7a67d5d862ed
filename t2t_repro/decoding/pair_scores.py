"""Scores given translations by teacher forcing: log P(target | source)."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from t2t_repro.data.batch_shapes import group_by_length
from t2t_repro.decoding.batch_plan import Sentences, for_each_batch, padded
from t2t_repro.model.transformer import Transformer
from t2t_repro.text.subword_model import SubwordModel


class PairScore(NamedTuple):
    """The score of a given translation.

    Attributes:
        log_probability: log P(target, EOS included | source), in nats, without length penalty.
        subwords: the names of the target's subwords, EOS last; see `SentencePieceModel.labels`.
        log_probabilities: of every subword, given the source and the previous subwords.
        truncated: whether source or target was cut off.
    """

    log_probability: float
    subwords: list[str]
    log_probabilities: list[float]
    truncated: bool


class PairScorer:
    """Scores pairs of sentences; the results do not depend on the batch.

    Args:
        model: the Transformer; its current weights are used at every call.
        subwords: the subword model of the target.
        tokens_per_batch: padded ids of a batch at most, on the longer side.
        workers: batches scored at the same time.
    """

    def __init__(
        self, model: Transformer, subwords: SubwordModel, tokens_per_batch: int, workers: int
    ) -> None:
        self._subwords = subwords
        self._tokens_per_batch = tokens_per_batch
        self._workers = workers
        ids = tf.TensorSpec([None, None], tf.int32)
        self._log_probabilities = tf.function(
            model.token_log_probabilities, input_signature=[ids, ids], autograph=False
        )

    def score(self, sources: Sentences, targets: Sentences) -> list[PairScore]:
        """Scores as many targets as sources; see `Translator.score`."""
        rows: list[NDArray[np.float32]] = [np.empty(0, np.float32)] * len(targets.ids)

        def score_batch(batch: NDArray[np.int64]) -> None:
            ids = (padded([side.ids[index] for index in batch]) for side in (sources, targets))
            log_probabilities = self._log_probabilities(*map(tf.constant, ids)).numpy()
            for index, row in zip(batch, log_probabilities, strict=True):
                rows[index] = row[: len(targets.ids[index])]

        lengths = [max(map(len, pair)) for pair in zip(sources.ids, targets.ids, strict=True)]
        batches = group_by_length(lengths, self._tokens_per_batch)
        for_each_batch(score_batch, batches, self._workers)
        truncated = sources.truncated | targets.truncated
        return [
            PairScore(
                float(row.sum()), self._subwords.labels(ids), row.tolist(), index in truncated
            )
            for index, (row, ids) in enumerate(zip(rows, targets.ids, strict=True))
        ]
