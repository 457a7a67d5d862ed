"""The state of a run and its schedule."""

import dataclasses
import math

import pytest

from t2t_repro.training.run_state import DevScores, RunState
from t2t_repro.training.schedule import TrainingSchedule

# The best score is 10, the best nll 3, and 3.5 that of the best score.
BEFORE = RunState(5, 0, 0, 10.0, 3.0, 3.5, stale=2, metric="BLEU", criterion="score")


@pytest.mark.parametrize(
    ("criterion", "nll", "score", "after"),
    [
        ("score", 2.0, 5.0, {"best_nll": 2.0, "stale": 3}),
        ("score", 4.0, 12.0, {"best_score": 12.0, "nll_of_best_score": 4.0, "stale": 0}),
        ("score", 4.0, 10.0, {"stale": 3}),
        # Of equal scores the lower nll decides, also if it is not the lowest of all.
        ("score", 3.2, 10.0, {"nll_of_best_score": 3.2, "stale": 0}),
        ("nll", 2.0, 5.0, {"best_nll": 2.0, "stale": 0}),
        ("nll", 4.0, 12.0, {"best_score": 12.0, "nll_of_best_score": 4.0, "stale": 3}),
        ("score", math.nan, math.nan, {"stale": 3}),
    ],
)
def test_one_criterion_decides_what_is_better_and_both_are_kept(criterion, nll, score, after):
    before = dataclasses.replace(BEFORE, criterion=criterion)
    expected = dataclasses.replace(before, evaluated_at=5, **after)
    scores = DevScores(nll, score, "| a |")
    assert before.awaiting_evaluation().after_evaluation(scores, criterion) == expected


@pytest.mark.parametrize(
    ("best", "score", "kept", "stale"),
    [(60.0, 59.0, 59.0, 0), (60.0, 61.0, 60.0, 3), (None, 250.0, 250.0, 0)],
)
def test_lower_is_better_for_such_metrics(best, score, kept, stale):
    before = dataclasses.replace(BEFORE, best_score=best, metric="TER")
    scores = DevScores(9.0, score, "", "TER", higher_is_better=False)
    after = before.after_evaluation(scores, "score")
    assert (after.best_score, after.stale) == (kept, stale)


def test_the_first_score_is_the_best_so_far_unless_it_is_nan():
    for score, is_best in [(-250.0, True), (math.inf, True), (math.nan, False)]:
        state = RunState(step=1).after_evaluation(DevScores(9.0, score, ""), "score")
        assert (state.best_score, state.stale) == ((score, 0) if is_best else (None, 1))


def test_another_metric_or_criterion_starts_again():
    after = BEFORE.after_evaluation(DevScores(9.0, 5.0, "", "chrF"), "score")
    assert (after.best_score, after.metric, after.stale) == (5.0, "chrF", 0)
    after = BEFORE.after_evaluation(DevScores(9.0, 5.0, ""), "nll")
    assert (after.best_nll, after.criterion, after.stale) == (3.0, "nll", 1)
    ended = dataclasses.replace(BEFORE, stale=9)
    assert TrainingSchedule(patience=3).is_over(ended)
    assert not TrainingSchedule(patience=3, criterion="nll").is_over(ended)


def test_a_run_ends_with_its_last_step_or_with_patience():
    schedule = TrainingSchedule(steps=10, log_every=4, evaluate_every=5, patience=2)
    assert [step for step in range(1, 11) if schedule.logs(step)] == [4, 8, 10]
    longer = TrainingSchedule(12, evaluate_every=5)
    assert [step for step in range(1, 13) if longer.evaluates(step)] == [5, 10, 12]
    patient = RunState(step=5, stale=2, criterion="score")
    ends = [RunState(step=9), RunState(step=10), patient]
    assert list(map(schedule.is_over, ends)) == [False, True, True]
    assert list(map(schedule.is_out_of_patience, ends)) == [False, False, True]
    assert not TrainingSchedule(patience=None).is_over(dataclasses.replace(patient, stale=99))
