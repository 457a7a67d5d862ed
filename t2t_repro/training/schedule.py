"""The schedule of a run: steps, logging, dev evaluations, early stopping."""

from collections.abc import Sequence
from dataclasses import dataclass

from t2t_repro.config.values import Count, configurable
from t2t_repro.training.run_state import Criterion, RunState


@configurable()
@dataclass(frozen=True)
class TrainingSchedule:
    """The optimizer updates after which a run logs, evaluates and ends.

    Attributes:
        steps: the last step of the run.
        log_every: updates from one log of scalars to the next.
        evaluate_every: updates from one dev evaluation to the next. The last step has one too.
        preview_at: after these updates three dev translations are logged, with the dev set's nll.
            Nothing in the run depends on them.
        patience: number of dev evaluations without a better one that ends the run, or None.
        criterion: the measure of the best dev evaluation, for patience and best/: the best "score",
            by DevEvaluation.metric, or the lowest "nll".
    """

    steps: Count = 100_000
    log_every: Count = 50
    evaluate_every: Count = 1000
    preview_at: Sequence[Count] = (250, 500, 1000)
    patience: Count | None = None
    criterion: Criterion = "score"

    def logs(self, step: int) -> bool:
        """Returns whether scalars are logged after update `step`."""
        return step % self.log_every == 0 or step == self.steps

    def evaluates(self, step: int) -> bool:
        """Returns whether the dev set is scored after update `step`."""
        return step % self.evaluate_every == 0 or step == self.steps

    def owes_evaluation(self, state: RunState) -> bool:
        """Returns whether a run that starts or resumes has to score the dev set first.

        It has to if the state awaits an evaluation, or if the run is over at a step that was not
        evaluated: `steps` or `patience` may have been lowered since.
        """
        return state.awaits_evaluation or (self.is_over(state) and state.evaluated_at != state.step)

    def is_out_of_patience(self, state: RunState) -> bool:
        """Returns whether the last `patience` dev evaluations brought no improvement."""
        is_same_criterion = state.criterion == self.criterion  # `stale` is by state.criterion.
        return self.patience is not None and is_same_criterion and state.stale >= self.patience

    def is_over(self, state: RunState) -> bool:
        """Returns whether no update is left to do: the last step is reached, or patience is out."""
        return state.step >= self.steps or self.is_out_of_patience(state)

    def has_ended(self, state: RunState) -> bool:
        """Returns whether neither an update nor a dev evaluation is left to do."""
        return self.is_over(state) and not self.owes_evaluation(state)
