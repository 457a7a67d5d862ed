"""What moves a run, and what happens when."""

import dataclasses
import json
import math

import pytest

from t2t_repro.errors import UserError
from t2t_repro.training.run_state import DevScores, RunState, TrainingSchedule


def test_updates_and_epochs_are_counted():
    state = RunState(step=7, epoch=1, batch=2).after_update().after_update()
    assert state == RunState(step=9, epoch=1, batch=4)
    assert state.after_epoch() == RunState(step=9, epoch=2)


BEFORE = RunState(step=5, best_score=10.0, best_nll=3.0, stale=2, metric="BLEU", criterion="score")


@pytest.mark.parametrize(
    ("criterion", "nll", "score", "after"),
    [
        ("score", 2.0, 5.0, {"best_nll": 2.0, "stale": 3}),
        ("score", 4.0, 12.0, {"best_score": 12.0, "stale": 0}),
        ("score", 4.0, 10.0, {"stale": 3}),
        ("nll", 2.0, 5.0, {"best_nll": 2.0, "stale": 0}),
        ("nll", 4.0, 12.0, {"best_score": 12.0, "stale": 3}),
        ("nll", math.nan, math.nan, {"stale": 3}),
        ("score", math.nan, math.nan, {"stale": 3}),
    ],
)
def test_one_criterion_says_what_is_better_and_both_are_kept(criterion, nll, score, after):
    before = dataclasses.replace(BEFORE, criterion=criterion)
    expected = dataclasses.replace(before, evaluated_at=5, **after)
    scores = DevScores(nll, score, "| a |")
    assert before.awaiting_evaluation().after_evaluation(scores, criterion) == expected
    assert expected.judged_by == {"score": "BLEU", "nll": "nll"}[criterion]


@pytest.mark.parametrize(
    ("best", "score", "kept", "stale"),
    [(60.0, 59.0, 59.0, 0), (60.0, 61.0, 60.0, 3), (None, 250.0, 250.0, 0), (None, -7.0, -7.0, 0)],
)
def test_less_is_better_where_the_metric_says_so(best, score, kept, stale):
    before = dataclasses.replace(BEFORE, best_score=best, metric="TER")
    scores = DevScores(9.0, score, "", "TER", higher_is_better=False)
    after = before.after_evaluation(scores, "score")
    assert (after.best_score, after.stale) == (kept, stale)


def test_the_first_score_is_the_best_so_far_unless_it_is_none():
    for score, is_best in [(-250.0, True), (math.inf, True), (math.nan, False)]:
        state = RunState(step=1).after_evaluation(DevScores(9.0, score, ""), "score")
        assert (state.best_score, state.stale) == ((score, 0) if is_best else (None, 1))


def test_another_metric_or_criterion_begins_anew():
    after = BEFORE.after_evaluation(DevScores(9.0, 5.0, "", "chrF"), "score")
    assert (after.best_score, after.metric, after.stale) == (5.0, "chrF", 0)
    after = BEFORE.after_evaluation(DevScores(9.0, 5.0, ""), "nll")
    assert (after.best_nll, after.criterion, after.stale) == (3.0, "nll", 1)
    ended = dataclasses.replace(BEFORE, stale=9)
    assert TrainingSchedule(patience=3).is_over(ended)
    assert not TrainingSchedule(patience=3, criterion="nll").is_over(ended)


def test_states_written_before_criteria_had_names_are_read():
    old = {
        "step": 4, "epoch": 1, "batch": 2, "best_score": -1.0, "best_nll": math.inf, "stale": 0,
        "awaits_evaluation": False, "evaluated_at": 0,
    }  # fmt: skip
    assert RunState.read(old) == RunState(4, 1, 2)
    scored = old | {"best_score": 12.5, "best_nll": 2.5, "stale": 2, "evaluated_at": 4}
    state = RunState.read(scored)
    # Patience counted nll, and what is bound now is judged by counts anew.
    assert TrainingSchedule(criterion="nll", patience=2).is_over(state)
    assert not TrainingSchedule(patience=2).is_over(state)
    after = state.after_evaluation(DevScores(9.0, 12.0, ""), "score")
    assert (after.best_score, after.stale) == (12.5, 1)
    for one in (state, after, RunState(best_score=-1.0, metric="mine")):
        assert RunState.read(json.loads(json.dumps(dataclasses.asdict(one)))) == one


def test_a_run_ends_with_its_last_step_or_with_patience():
    pace = TrainingSchedule(steps=10, log_every=4, evaluate_every=5, patience=2)
    assert [step for step in range(1, 11) if pace.reports(step)] == [4, 8, 10]
    assert [step for step in range(1, 11) if pace.evaluates(step)] == [5, 10]
    longer = TrainingSchedule(12, evaluate_every=5)
    assert [step for step in range(1, 13) if longer.evaluates(step)] == [5, 10, 12]
    patient = RunState(step=5, stale=2, criterion="score")
    ends = [RunState(step=9), RunState(step=10), patient]
    assert list(map(pace.is_over, ends)) == [False, True, True]
    assert list(map(pace.is_out_of_patience, ends)) == [False, False, True]
    assert not TrainingSchedule(patience=None).is_over(dataclasses.replace(patient, stale=99))


def test_an_end_that_was_not_evaluated_and_a_put_off_evaluation_are_owed():
    pace = TrainingSchedule(steps=10, evaluate_every=4)
    states = [
        RunState(step=9, evaluated_at=8),
        RunState(step=10, evaluated_at=8),
        RunState(step=12, evaluated_at=8),
        RunState(step=10, evaluated_at=10),
        RunState(step=4).awaiting_evaluation(),
    ]
    assert list(map(pace.owes_evaluation, states)) == [False, True, True, False, True]


@pytest.mark.parametrize("name", ["steps", "log_every", "evaluate_every", "patience"])
@pytest.mark.parametrize("value", [0, -5])
def test_what_is_no_number_of_updates_is_refused(name, value):
    with pytest.raises(
        UserError, match=rf"^TrainingSchedule\.{name} is {value}, expected an integer"
    ):
        TrainingSchedule(**{name: value})


def test_there_are_two_criteria():
    with pytest.raises(
        UserError, match=r"^TrainingSchedule\.criterion is 'bleu', expected 'score' or 'nll'"
    ):
        TrainingSchedule(criterion="bleu")  # type: ignore[arg-type]
