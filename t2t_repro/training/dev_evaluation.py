"""What is asked of the dev set in training: nll, a score of translations, attention maps."""

import math
from collections.abc import Callable, Mapping
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


class _Part(NamedTuple):
    """The dev split, or what one corpus of a mixture has of it.

    Attributes:
        name: of the corpus; "" where there is no mixture.
        lines: which of the sentences that are translated.
        in_store: which sentences of the token store; None for all.
    """

    name: str
    lines: slice
    in_store: range | None


class _Share(NamedTuple):
    """What one worker finds of its sentences and batches.

    Attributes:
        translations: of its sentences.
        nll: of its batches, summed, in nats; of a mixture corpus by corpus.
        tokens: of their targets, likewise.
    """

    translations: list[str]
    nll: list[float]
    tokens: list[float]


@gin.configurable(denylist=["model", "data", "workers"])
@validated
class DevEvaluation:
    """Scores the dev set: nll by teacher forcing, a metric (BLEU) by beam search.

    Of a mixture, each corpus's dev set is scored by itself too.

    Of n workers each takes one sentence and one batch in n.

    Args:
        model: the Transformer.
        data: its dev split is read.
        workers: that share the dev set.
        metric: of translations, references and sources.
        sentences: how many of the first dev sentences are translated, of a mixture those of every
            corpus; all by default.
        images: (model, data) -> a function that draws images for TensorBoard, which is called at
            every evaluation; such as `attention_images`.

    Raises:
        UserError: an argument cannot be used, or the images cannot be drawn.
    """

    def __init__(
        self,
        model: Transformer,
        data: PreparedData,
        workers: Workers,
        metric: Metric = bleu,
        sentences: Count | None = None,
        images: Callable[[Transformer, PreparedData], Callable[[], Images]] | None = None,
    ) -> None:
        self._draw = images(model, data) if images else list
        self._source: list[str] = []
        self._target: list[str] = []
        self._parts: list[_Part] = []
        in_store: Mapping[str, range | None] = data.corpora("dev") or {"": None}
        for name, place in in_store.items():
            source, target = data.text(f"dev.{name}" if name else "dev")
            start = len(self._source)
            self._source += source[:sentences]
            self._target += target[:sentences]
            self._parts.append(_Part(name, slice(start, len(self._source)), place))
        self._metric = metric
        self._workers = workers
        self._loss = HeldOutLoss(model, data.store("dev"))
        self._translator = Translator([model], data.subwords)

    def share(self) -> Any:
        """Returns what this worker finds of its share of the dev set; JSON can hold it."""
        first, every = self._workers.index, self._workers.count
        found = self._translator.translate(self._source[first::every])
        sums = [self._loss.sums(first, every, part.in_store) for part in self._parts]
        nll, tokens = (list(of_parts) for of_parts in zip(*sums, strict=True))
        return _Share([best[0].text for best in found], nll, tokens)

    def scores(self, shares: list[Any]) -> DevScores:
        """Returns the scores of the shares of all workers."""
        found = [_Share(*share) for share in shares]
        texts = [""] * len(self._source)
        for worker, share in enumerate(found):
            texts[worker :: len(found)] = share.translations
        # [parts] of each.
        nll = [sum(of_part) for of_part in zip(*(share.nll for share in found), strict=True)]
        tokens = [sum(of_part) for of_part in zip(*(share.tokens for share in found), strict=True)]
        score = self._score(texts, slice(None))
        images = self._draw() if self._workers.is_chief else []
        return DevScores(
            sum(nll) / sum(tokens),
            score.value,
            self._samples(texts),
            score.name,
            images,
            score.higher_is_better,
            [
                CorpusScores(part.name, nll[i] / tokens[i], self._score(texts, part.lines).value)
                for i, part in enumerate(self._parts)
                if part.name
            ],
        )

    def _score(self, texts: list[str], lines: slice) -> Score:
        score = self._metric(texts[lines], self._target[lines], self._source[lines])
        if not isinstance(score, Score):
            raise UserError(f"DevEvaluation.metric gave {score!r}, expected a Score: see bleu.")
        return score

    def _samples(self, texts: list[str]) -> str:
        """A table of some translations, of all parts."""
        of_each = math.ceil(_SAMPLES / len(self._parts))
        table = ["| source | translation | reference |", "|---|---|---|"]
        for part in self._parts:
            of_part = (side[part.lines][:of_each] for side in (self._source, texts, self._target))
            for row in zip(*of_part, strict=True):
                cells = (cell.replace("\n", " ").replace("|", "¦") for cell in row)
                table.append(f"| {' | '.join(cells)} |")
        return "\n".join(table)
