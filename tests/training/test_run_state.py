"""What moves a run, and what happens when."""

import math

import pytest

from t2t_repro.errors import UserError
from t2t_repro.training.run_state import DevScores, Pace, RunState


def test_updates_and_epochs_are_counted():
    state = RunState(step=7, epoch=1, batch=2).after_update().after_update()
    assert state == RunState(step=9, epoch=1, batch=4)
    assert state.after_epoch() == RunState(step=9, epoch=2)


@pytest.mark.parametrize(
    ("nll", "score", "after"),
    [
        (2.0, 5.0, {"best_nll": 2.0, "stale": 0}),
        (4.0, 12.0, {"best_score": 12.0, "stale": 3}),
        (math.nan, math.nan, {"stale": 3}),
    ],
)
def test_nll_and_score_are_each_kept_at_their_best(nll, score, after):
    before = RunState(step=5, best_score=10.0, best_nll=3.0, stale=2)
    kept = {"step": 5, "best_score": 10.0, "best_nll": 3.0, "evaluated_at": 5}
    scores = DevScores(nll, score, "| a |")
    assert before.awaiting_evaluation().after_evaluation(scores) == RunState(**kept | after)


def test_a_run_ends_with_its_last_step_or_with_patience():
    pace = Pace(steps=10, report_every=4, evaluate_every=5, patience=2)
    assert [step for step in range(1, 11) if pace.reports(step)] == [4, 8, 10]
    assert [step for step in range(1, 11) if pace.evaluates(step)] == [5, 10]
    longer = Pace(12, evaluate_every=5)
    assert [step for step in range(1, 13) if longer.evaluates(step)] == [5, 10, 12]
    ends = [RunState(step=9), RunState(step=10), RunState(step=5, stale=2)]
    assert list(map(pace.is_over, ends)) == [False, True, True]
    assert list(map(pace.is_out_of_patience, ends)) == [False, False, True]
    assert not Pace(patience=None).is_over(RunState(stale=99))


def test_an_end_that_was_not_evaluated_and_a_put_off_evaluation_are_owed():
    pace = Pace(steps=10, evaluate_every=4)
    states = [
        RunState(step=9, evaluated_at=8),
        RunState(step=10, evaluated_at=8),
        RunState(step=12, evaluated_at=8),
        RunState(step=10, evaluated_at=10),
        RunState(step=4).awaiting_evaluation(),
    ]
    assert list(map(pace.owes_evaluation, states)) == [False, True, True, False, True]


@pytest.mark.parametrize("name", ["steps", "report_every", "evaluate_every", "patience"])
@pytest.mark.parametrize("value", [0, -5])
def test_what_is_no_number_of_updates_is_refused(name, value):
    with pytest.raises(UserError, match=rf"^Pace\.{name} is {value}, expected an integer"):
        Pace(**{name: value})
