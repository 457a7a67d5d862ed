"""Where a run stands, what moves it, and what happens when."""

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import gin
import numpy as np
from numpy.typing import NDArray

from t2t_repro.ranges import Count, checked

Images = Sequence[tuple[str, NDArray[np.uint8]]]
"""Name and pixels, [height, width, 3], of each."""


class DevScores(NamedTuple):
    """What a dev evaluation found.

    Attributes:
        nll: negative log-likelihood per target token, teacher forcing, in nats.
        score: of beam search's translations, by the experiment's metric; more is better.
        samples: some of them, as Markdown.
        metric: the metric's name.
        images: for TensorBoard.
    """

    nll: float
    score: float
    samples: str
    metric: str = "BLEU"
    images: Images = ()


@dataclasses.dataclass(frozen=True)
class RunState:
    """Where a run stands: what a checkpoint holds beside weights and optimizer.

    The input's whole state is `epoch` and `batch`.

    Attributes:
        step: optimizer updates so far.
        epoch: epochs finished.
        batch: batches taken of the current epoch.
        best_score: the best dev score so far, by DevEvaluation.metric, or -1.
        best_nll: the least dev nll so far, in nats per token.
        stale: dev evaluations since then.
        awaits_evaluation: whether a dev evaluation is due that a signal has interrupted.
        evaluated_at: the step of the last dev evaluation, or 0.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best_score: float = -1.0
    best_nll: float = math.inf
    stale: int = 0
    awaits_evaluation: bool = False
    evaluated_at: int = 0

    def after_update(self) -> "RunState":
        """Returns where the run stands after one more batch."""
        return dataclasses.replace(self, step=self.step + 1, batch=self.batch + 1)

    def after_epoch(self) -> "RunState":
        """Returns where the run stands when an epoch's batches have all been taken."""
        return dataclasses.replace(self, epoch=self.epoch + 1, batch=0)

    def after_evaluation(self, scores: DevScores) -> "RunState":
        """Returns where the run stands with the scores of a dev evaluation."""
        is_better = scores.nll < self.best_nll
        return dataclasses.replace(
            self,
            best_score=max(self.best_score, scores.score),
            best_nll=scores.nll if is_better else self.best_nll,
            stale=0 if is_better else self.stale + 1,
            awaits_evaluation=False,
            evaluated_at=self.step,
        )

    def awaiting_evaluation(self) -> "RunState":
        """Returns where the run stands when a dev evaluation has been put off."""
        return dataclasses.replace(self, awaits_evaluation=True)


@gin.configurable
@checked
@dataclasses.dataclass(frozen=True)
class Pace:
    """What happens when, in optimizer updates.

    Attributes:
        steps: the last step of the run.
        report_every: how often scalars are written.
        evaluate_every: how often the dev set is scored; it is after the last step too.
        patience: the run ends after so many dev evaluations without a better dev nll, or None.

    Raises:
        UserError: one of them is below 1.
    """

    steps: Count = 100_000
    report_every: Count = 50
    evaluate_every: Count = 1000
    patience: Count | None = None

    def reports(self, step: int) -> bool:
        """Returns whether scalars are written after update `step`."""
        return step % self.report_every == 0 or step == self.steps

    def evaluates(self, step: int) -> bool:
        """Returns whether the dev set is scored after update `step`."""
        return step % self.evaluate_every == 0 or step == self.steps

    def owes_evaluation(self, state: RunState) -> bool:
        """Returns whether the dev set is scored before anything else, where a run goes on."""
        is_unjudged = self.is_over(state) and state.evaluated_at != state.step
        return state.awaits_evaluation or is_unjudged

    def is_out_of_patience(self, state: RunState) -> bool:
        """Returns whether dev nll has not improved for too long."""
        return self.patience is not None and state.stale >= self.patience

    def is_over(self, state: RunState) -> bool:
        """Returns whether a run ends here, all being well."""
        return state.step >= self.steps or self.is_out_of_patience(state)
