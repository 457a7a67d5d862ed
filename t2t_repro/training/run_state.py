"""Where a run stands, what moves it, and what happens when."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import gin
import numpy as np
from numpy.typing import NDArray

from t2t_repro.config.values import Count, validated

Images = Sequence[tuple[str, NDArray[np.uint8]]]
"""Name and pixels, [height, width, 3], of each."""

Criterion = Literal["score", "nll"]

# How checkpoints once said that there was no score yet.
_NO_SCORE = -1.0


class CorpusScores(NamedTuple):
    """What a dev evaluation found of one corpus of a mixture.

    Attributes:
        name: of the corpus.
        nll: as in `DevScores`.
        score: likewise.
    """

    name: str
    nll: float
    score: float


class DevScores(NamedTuple):
    """What a dev evaluation found.

    Attributes:
        nll: negative log-likelihood per target token, teacher forcing, in nats.
        score: of beam search's translations, by the experiment's metric.
        samples: some of them, as Markdown.
        metric: the metric's name.
        images: for TensorBoard.
        higher_is_better: whether more is better, by that metric.
        corpora: of a mixture, what was found of each; the rest is of all together.
    """

    nll: float
    score: float
    samples: str
    metric: str = "BLEU"
    images: Images = ()
    higher_is_better: bool = True
    corpora: Sequence[CorpusScores] = ()


@dataclasses.dataclass(frozen=True)
class RunState:
    """Where a run stands: what a checkpoint holds beside weights and optimizer.

    The input's whole state is `epoch` and `batch`.

    Attributes:
        step: optimizer updates so far.
        epoch: epochs finished.
        batch: batches taken of the current epoch.
        best_score: the best dev score so far, by `metric`, or None.
        best_nll: the least dev nll so far, in nats per token.
        stale: dev evaluations since the best one, by `criterion`.
        awaits_evaluation: whether a dev evaluation is due that a signal has interrupted.
        evaluated_at: the step of the last dev evaluation, or 0.
        metric: what the score was by at the last dev evaluation, or "".
        criterion: "score" or "nll", whichever the last dev evaluation was judged by.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best_score: float | None = None
    best_nll: float = math.inf
    stale: int = 0
    awaits_evaluation: bool = False
    evaluated_at: int = 0
    metric: str = ""
    # What checkpoints were judged by before this was said.
    criterion: Criterion = "nll"

    @staticmethod
    def read(found: dict[str, Any]) -> "RunState":
        """Returns the state that `dataclasses.asdict` has made a dictionary of.

        Raises:
            TypeError, ValueError: it is none.
        """
        found = dict(found)
        if "metric" not in found and found.get("best_score") == _NO_SCORE:
            found["best_score"] = None
        return RunState(**found)

    @property
    def judged_by(self) -> str:
        """The name of what decides which weights are the best: the metric's, or nll."""
        return self.metric if self.criterion == "score" else "nll"

    def after_update(self) -> "RunState":
        """Returns where the run stands after one more batch."""
        return dataclasses.replace(self, step=self.step + 1, batch=self.batch + 1)

    def after_epoch(self) -> "RunState":
        """Returns where the run stands when an epoch's batches have all been taken."""
        return dataclasses.replace(self, epoch=self.epoch + 1, batch=0)

    def after_evaluation(self, scores: DevScores, criterion: Criterion) -> "RunState":
        """Returns where the run stands with the scores of a dev evaluation.

        Args:
            scores: what it found.
            criterion: by which it is the best so far or not.
        """
        # A score by another metric is not to be compared.
        known = self.best_score if self.metric in ("", scores.metric) else None
        has_better = {
            "score": _is_better(scores.score, known, scores.higher_is_better),
            "nll": scores.nll < self.best_nll,
        }
        stale = self.stale if criterion == self.criterion else 0
        return dataclasses.replace(
            self,
            best_score=scores.score if has_better["score"] else known,
            best_nll=scores.nll if has_better["nll"] else self.best_nll,
            stale=0 if has_better[criterion] else stale + 1,
            awaits_evaluation=False,
            evaluated_at=self.step,
            metric=scores.metric,
            criterion=criterion,
        )

    def awaiting_evaluation(self) -> "RunState":
        """Returns where the run stands when a dev evaluation has been put off."""
        return dataclasses.replace(self, awaits_evaluation=True)


def _is_better(score: float, best: float | None, higher_is_better: bool) -> bool:
    if best is None:
        return not math.isnan(score)
    return score > best if higher_is_better else score < best


@gin.configurable
@validated
@dataclasses.dataclass(frozen=True)
class TrainingSchedule:
    """What happens when, in optimizer updates.

    Attributes:
        steps: the last step of the run.
        log_every: how often scalars are written.
        evaluate_every: how often the dev set is scored; it is after the last step too.
        patience: the run ends after so many dev evaluations without a better one, or None.
        criterion: which dev evaluation is the best: that of the best "score", by
            DevEvaluation.metric, or of the least "nll". Patience and best/ go by it.

    Raises:
        UserError: a number is below 1, or there is no such criterion.
    """

    steps: Count = 100_000
    log_every: Count = 50
    evaluate_every: Count = 1000
    patience: Count | None = None
    criterion: Criterion = "score"

    def reports(self, step: int) -> bool:
        """Returns whether scalars are written after update `step`."""
        return step % self.log_every == 0 or step == self.steps

    def evaluates(self, step: int) -> bool:
        """Returns whether the dev set is scored after update `step`."""
        return step % self.evaluate_every == 0 or step == self.steps

    def owes_evaluation(self, state: RunState) -> bool:
        """Returns whether the dev set is scored before anything else, where a run goes on."""
        is_unjudged = self.is_over(state) and state.evaluated_at != state.step
        return state.awaits_evaluation or is_unjudged

    def is_out_of_patience(self, state: RunState) -> bool:
        """Returns whether the dev set has not been done better for too long."""
        is_counted = state.criterion == self.criterion
        return self.patience is not None and is_counted and state.stale >= self.patience

    def is_over(self, state: RunState) -> bool:
        """Returns whether a run ends here, all being well."""
        return state.step >= self.steps or self.is_out_of_patience(state)
