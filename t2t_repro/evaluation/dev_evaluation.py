"""What is asked of the dev set in training: nll, a score of translations, attention maps."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gin

from t2t_repro.data.prepared import PreparedData
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.evaluation.perplexity import HeldOutLoss
from t2t_repro.evaluation.scores import Score, bleu
from t2t_repro.models.transformer import Transformer
from t2t_repro.ranges import Count, checked
from t2t_repro.training.run_state import DevScores, Images
from t2t_repro.training.workers import Workers

Metric = Callable[[Sequence[str], Sequence[str]], Score]
"""(translations, references) -> score."""

_SAMPLES = 5


class _Share(NamedTuple):
    """What one worker finds of its sentences and batches.

    Attributes:
        translations: of its sentences.
        nll: of its batches, summed, in nats.
        tokens: of their targets.
    """

    translations: list[str]
    nll: float
    tokens: float


@gin.configurable(denylist=["model", "data", "workers"])
@checked
class DevEvaluation:
    """Scores the dev set: nll by teacher forcing, a metric (BLEU) by beam search.

    Of n workers each takes one sentence and one batch in n.

    Args:
        model: the Transformer.
        data: its dev split is read.
        workers: that share the dev set.
        metric: of translations and references.
        sentences: how many of the first dev sentences are translated; all by default.
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
        source, target = data.text("dev")
        self._source, self._target = source[:sentences], target[:sentences]
        self._metric = metric
        self._workers = workers
        self._loss = HeldOutLoss(model, data.store("dev"))
        self._translator = Translator(model, data.subwords)

    def share(self) -> Any:
        """Returns what this worker finds of its share of the dev set; JSON can hold it."""
        first, every = self._workers.index, self._workers.count
        found = self._translator.translate(self._source[first::every])
        return _Share([best[0].text for best in found], *self._loss.sums(first, every))

    def scores(self, shares: list[Any]) -> DevScores:
        """Returns the scores of the shares of all workers."""
        found = [_Share(*share) for share in shares]
        texts = [""] * len(self._source)
        for worker, share in enumerate(found):
            texts[worker :: len(found)] = share.translations
        nll = sum(share.nll for share in found) / sum(share.tokens for share in found)
        score = self._metric(texts, self._target)
        if not isinstance(score, Score):
            raise UserError(f"DevEvaluation.metric gave {score!r}, expected a Score: see bleu.")
        rows = zip(self._source[:_SAMPLES], texts, self._target, strict=False)
        table = ["| source | translation | reference |", "|---|---|---|"]
        table += [f"| {' | '.join(cell.replace('|', '¦') for cell in row)} |" for row in rows]
        images = self._draw() if self._workers.is_chief else []
        return DevScores(
            nll, score.value, "\n".join(table), score.name, images, score.higher_is_better
        )
