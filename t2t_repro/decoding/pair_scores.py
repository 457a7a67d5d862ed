"""How likely a model finds given translations: log P(target | source), by teacher forcing."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging
from numpy.typing import NDArray

from t2t_repro.data.bucketing import group_by_length
from t2t_repro.decoding.cores import for_each_batch
from t2t_repro.model.transformer import Transformer
from t2t_repro.text.subword_model import SubwordPair
from t2t_repro.vocabulary import PAD_ID


class PairScore(NamedTuple):
    """What a model makes of a given translation.

    Attributes:
        log_probability: log P(target, EOS included | source), in nats, without length penalty.
        subwords: of the target, EOS last, by name; see `SubwordModel.labels`.
        log_probabilities: of every subword, given the source and the subwords before it.
        truncated: whether only the beginning of source or target was read.
    """

    log_probability: float
    subwords: list[str]
    log_probabilities: list[float]
    truncated: bool


class _Side(NamedTuple):
    """The sources or the targets.

    Attributes:
        ids: of every sentence, EOS last.
        cut: the numbers, from 0, of those that were too long.
    """

    ids: list[list[int]]
    cut: set[int]


class PairScorer:
    """Scores pairs with a model, the same whatever is scored with them.

    Args:
        model: the Transformer; its current weights are used at every call.
        subwords: the subword models of source and target.
        longest: of "source" and "target", the most ids that are read, EOS included.
        tokens_per_batch: padded ids of a batch at most, on the longer side.
        workers: batches scored at the same time.
    """

    def __init__(
        self,
        model: Transformer,
        subwords: SubwordPair,
        longest: Mapping[str, int],
        tokens_per_batch: int,
        workers: int,
    ) -> None:
        self._subwords = subwords
        self._longest = longest
        self._tokens_per_batch = tokens_per_batch
        self._workers = workers
        ids = tf.TensorSpec([None, None], tf.int32)
        self._log_probabilities = tf.function(
            model.token_log_probabilities, input_signature=[ids, ids], autograph=False
        )

    def score(self, sources: Sequence[str], targets: Sequence[str], first: int) -> list[PairScore]:
        """Scores pairs; see `Translator.score`."""
        source = self._encode("source", sources, first)
        target = self._encode("target", targets, first)
        rows: list[NDArray[np.float32]] = [np.empty(0, np.float32)] * len(targets)

        def score_batch(batch: NDArray[np.int64]) -> None:
            ids = (padded([side.ids[number] for number in batch]) for side in (source, target))
            found = self._log_probabilities(*map(tf.constant, ids)).numpy()
            for number, row in zip(batch, found, strict=True):
                rows[number] = row[: len(target.ids[number])]

        lengths = [max(map(len, pair)) for pair in zip(source.ids, target.ids, strict=True)]
        batches = group_by_length(lengths, self._tokens_per_batch)
        for_each_batch(score_batch, batches, self._workers)
        return [
            PairScore(
                float(row.sum()),
                self._subwords.target.labels(ids),
                row.tolist(),
                number in source.cut or number in target.cut,
            )
            for number, (row, ids) in enumerate(zip(rows, target.ids, strict=True))
        ]

    def _encode(self, side: Literal["source", "target"], lines: Sequence[str], first: int) -> _Side:
        """Encodes one side of all pairs, EOS last, and cuts off what is too long."""
        subwords, most = getattr(self._subwords, side), self._longest[side]
        sentences = subwords.encode([line.strip() for line in lines])
        cut = set()
        for number, ids in enumerate(sentences):
            length = len(ids)
            if cut_off(ids, most):
                logging.warning(
                    "line %d: the %s has %d subwords, only the first %d are scored",
                    *(number + first, side, length, most),
                )
                cut.add(number)
        return _Side(sentences, cut)


def cut_off(ids: list[int], longest: int) -> bool:
    """Cuts off what of a sentence is too long, but for EOS; returns whether anything was.

    Args:
        ids: of the sentence, EOS last; they are shortened.
        longest: how many there may be.
    """
    is_cut = len(ids) > longest
    if is_cut:
        del ids[longest - 1 : -1]
    return is_cut


def padded(sentences: Sequence[Sequence[int]], padding: int = PAD_ID) -> NDArray[np.int32]:
    """[batch, length] ids, and the padding after each sentence."""
    ids = np.full((len(sentences), max(map(len, sentences))), padding, np.int32)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = sentence
    return ids
