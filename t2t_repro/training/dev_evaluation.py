"""Scores the dev set in training: nll, a metric of translations, pictures of attention."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import gin

from t2t_repro.config.values import Count, validated
from t2t_repro.data.prepared import PreparedData
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.evaluation.perplexity import HeldOutLoss
from t2t_repro.evaluation.scores import Metric, Score, bleu
from t2t_repro.model.transformer import Transformer
from t2t_repro.training.run_state import CorpusScores, DevScores, Images
from t2t_repro.training.workers import Workers

_SAMPLES = 5


@gin.configurable("DevEvaluation")
@validated
@dataclass(frozen=True)
class DevEvaluationSettings:
    """Settings of the dev evaluation.

    Attributes:
        metric: of translations, references and sources.
        sentences: how many of the first dev sentences are translated, of a mixture those of every
            corpus; all by default.
        images: (model, data) -> a function that draws images for TensorBoard, which is called at
            every evaluation; such as `attention_images` in gin/attention_images.py.

    Raises:
        UserError: a value is out of range.
    """

    metric: Metric = bleu
    sentences: Count | None = None
    images: Callable[[Transformer, PreparedData], Callable[[], Images]] | None = None


class _Part(NamedTuple):
    """The dev split, or one corpus of a mixture's.

    Attributes:
        name: of the corpus; "" without a mixture.
        lines: which of the translated sentences belong to it.
        in_store: which sentences of the token store; None for all.
    """

    name: str
    lines: slice
    in_store: range | None


class _Share(NamedTuple):
    """The result of one worker's sentences and batches.

    Attributes:
        translations: of its sentences.
        nll: of its batches, summed, in nats; one per part.
        tokens: of their targets; one per part.
    """

    translations: list[str]
    nll: list[float]
    tokens: list[float]


class DevEvaluation:
    """Scores the dev set: nll by teacher forcing, a metric (BLEU) by beam search.

    Each corpus of a mixture is scored by itself too. Each of n workers computes an n-th of the
    sentences and batches.

    Args:
        model: the Transformer.
        translator: with this model.
        data: its dev split is read.
        workers: those that share the work.
        settings: what is scored.

    Raises:
        UserError: the images cannot be drawn.
    """

    def __init__(
        self,
        model: Transformer,
        translator: Translator,
        data: PreparedData,
        workers: Workers,
        settings: DevEvaluationSettings,
    ) -> None:
        self._draw = settings.images(model, data) if settings.images else list
        self._source: list[str] = []
        self._target: list[str] = []
        self._parts: list[_Part] = []
        in_store: Mapping[str, range | None] = data.corpora("dev") or {"": None}
        for name, sentences in in_store.items():
            source, target = data.text(f"dev.{name}" if name else "dev")
            start = len(self._source)
            self._source += source[: settings.sentences]
            self._target += target[: settings.sentences]
            self._parts.append(_Part(name, slice(start, len(self._source)), sentences))
        self._metric = settings.metric
        self._workers = workers
        self._loss = HeldOutLoss(model, data.store("dev"))
        self._translator = translator

    def share(self) -> Any:
        """Computes this worker's share of the evaluation, as values that JSON can hold."""
        first, every = self._workers.index, self._workers.count
        translations = self._translator.translate(self._source[first::every], first=None)
        sums = [self._loss.sums(first, every, part.in_store) for part in self._parts]
        nll, tokens = (list(of_parts) for of_parts in zip(*sums, strict=True))
        return _Share([best[0].text for best in translations], nll, tokens)

    def scores(self, shares: list[Any]) -> DevScores:
        """Returns the scores from the shares of all workers, in their order."""
        of_workers = [_Share(*share) for share in shares]
        texts = [""] * len(self._source)
        for worker, share in enumerate(of_workers):
            texts[worker :: len(of_workers)] = share.translations
        nll = [sum(sums) for sums in zip(*(share.nll for share in of_workers), strict=True)]
        tokens = [sum(sums) for sums in zip(*(share.tokens for share in of_workers), strict=True)]
        score = self._score(texts, slice(None))
        corpora = [
            CorpusScores(part.name, nll[i] / tokens[i], self._score(texts, part.lines).value)
            for i, part in enumerate(self._parts)
            if part.name
        ]
        return DevScores(
            nll=sum(nll) / sum(tokens),
            score=score.value,
            samples=self._samples(texts),
            metric=score.name,
            images=self._draw() if self._workers.is_chief else [],
            higher_is_better=score.higher_is_better,
            corpora=corpora,
        )

    def _score(self, texts: list[str], lines: slice) -> Score:
        score = self._metric(texts[lines], self._target[lines], self._source[lines])
        if not isinstance(score, Score):
            raise UserError(f"DevEvaluation.metric gave {score!r}, expected a Score, as bleu does.")
        return score

    def _samples(self, texts: list[str]) -> str:
        """Returns a Markdown table of some translations of every part."""
        of_each = math.ceil(_SAMPLES / len(self._parts))
        table = ["| source | translation | reference |", "|---|---|---|"]
        for part in self._parts:
            columns = (side[part.lines][:of_each] for side in (self._source, texts, self._target))
            for row in zip(*columns, strict=True):
                cells = (cell.replace("\n", " ").replace("|", "¦") for cell in row)
                table.append(f"| {' | '.join(cells)} |")
        return "\n".join(table)
