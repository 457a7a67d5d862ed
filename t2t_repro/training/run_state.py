"""The state of a training run, which a checkpoint holds, and the result of a dev evaluation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Images = Sequence[tuple[str, NDArray[np.uint8]]]
"""Name and pixels, [height, width, 3], of each image."""

Criterion = Literal["score", "nll"]


class CorpusScores(NamedTuple):
    """The dev scores of one corpus of a mixture.

    Attributes:
        name: the corpus's name.
        nll: as in `DevScores`.
        score: as in `DevScores`.
    """

    name: str
    nll: float
    score: float


class DevScores(NamedTuple):
    """The result of a dev evaluation.

    Attributes:
        nll: negative log-likelihood per target token with teacher forcing, in nats.
        score: the translations' score, by the experiment's metric.
        samples: some translations, as Markdown.
        metric: the metric's name.
        images: for TensorBoard.
        higher_is_better: whether a higher score is better.
        corpora: of a mixture, the scores of each corpus.
    """

    nll: float
    score: float
    samples: str
    metric: str = "BLEU"
    images: Images = ()
    higher_is_better: bool = True
    corpora: Sequence[CorpusScores] = ()


@dataclass(frozen=True)
class RunState:
    """The state of a run, beside weights and optimizer.

    A checkpoint holds it. `epoch` and `batch` are the whole state of the input.

    Attributes:
        step: optimizer updates so far.
        epoch: epochs finished.
        batch: batches taken of the current epoch.
        best_score: the best dev score so far, by `metric`, or None.
        best_nll: the lowest dev nll so far, in nats per token.
        nll_of_best_score: the nll of the evaluation with the best score. Of evaluations with the
            same score, such as 0 BLEU in the first hour, the one of the lower nll is better.
        stale: dev evaluations since the best one, by `criterion`.
        awaits_evaluation: whether a dev evaluation is due: a signal interrupted it, or the run
            starts from another model's weights.
        evaluated_at: the step of the last dev evaluation, or 0.
        metric: the metric of the last dev evaluation, or "".
        criterion: "score" or "nll", by which the last dev evaluation was judged.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best_score: float | None = None
    best_nll: float = math.inf
    nll_of_best_score: float = math.inf
    stale: int = 0
    awaits_evaluation: bool = False
    evaluated_at: int = 0
    metric: str = ""
    criterion: Criterion = "nll"

    def after_update(self) -> "RunState":
        """Returns the state after one more batch."""
        return replace(self, step=self.step + 1, batch=self.batch + 1)

    def after_epoch(self) -> "RunState":
        """Returns the state after the last batch of an epoch."""
        return replace(self, epoch=self.epoch + 1, batch=0)

    def after_evaluation(self, scores: DevScores, criterion: Criterion) -> "RunState":
        """Returns the state after a dev evaluation, which may have the best scores so far.

        With another metric than before the best score starts afresh; with another criterion, the
        count of stale evaluations.

        Args:
            scores: the result of the evaluation.
            criterion: what an evaluation has to improve not to be stale.
        """
        # Scores of different metrics are not compared; the nll is the same whatever the metric.
        best_score = self.best_score if self.metric in ("", scores.metric) else None
        sign = 1 if scores.higher_is_better else -1  # A score times its sign: higher is better.
        highest = -math.inf if best_score is None else sign * best_score
        # Between equal scores the nll decides.
        is_best_score = (sign * scores.score, -scores.nll) > (highest, -self.nll_of_best_score)
        is_best = is_best_score if criterion == "score" else scores.nll < self.best_nll
        # Evaluations that were judged by another criterion do not count.
        stale = self.stale if criterion == self.criterion else 0
        return replace(
            self,
            best_score=scores.score if is_best_score else best_score,
            best_nll=min(self.best_nll, scores.nll),
            nll_of_best_score=scores.nll if is_best_score else self.nll_of_best_score,
            stale=0 if is_best else stale + 1,
            awaits_evaluation=False,
            evaluated_at=self.step,
            metric=scores.metric,
            criterion=criterion,
        )

    def awaiting_evaluation(self) -> "RunState":
        """Returns the state with a dev evaluation due."""
        return replace(self, awaits_evaluation=True)
