"""What a run says before its first update and after its last."""

from pathlib import Path

import pytest

from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.training.announcements import announce_end, announce_start
from t2t_repro.training.run_state import RunState, TrainingSchedule

ELSEWHERE = (
    "train: to start from this model's weights with a fresh optimizer, on other data or the same, "
    "give another --model_dir with train.init_from = 'a model'"
)


@pytest.fixture
def said(caplog):
    caplog.set_level("INFO", logger="absl")
    return lambda: [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (RunState(), []),
        (RunState(step=4), ["train: going on after step 4"]),
        (
            RunState(step=12),
            [
                "train: finished already, after step 12; to train longer, bind "
                "TrainingSchedule.steps to more than 12",
                ELSEWHERE,
            ],
        ),
        (
            RunState(step=4, stale=3, metric="TER", criterion="score"),
            [
                "train: finished already, after step 4, for want of patience: dev TER has not "
                "improved in 3 evaluations; to train longer, bind "
                "TrainingSchedule.patience to more than 3, or to None",
                ELSEWHERE,
            ],
        ),
    ],
)
def test_a_run_goes_on_or_says_how_it_could(said, state, expected):
    announce_start(ModelDirectory("a model"), TrainingSchedule(steps=10, patience=3), state, [])
    assert said() == expected


@pytest.mark.parametrize(("step", "words"), [(4, "going on with"), (12, "the run had")])
def test_another_configuration_is_named_by_what_the_run_does(said, step, words):
    directory, difference = ModelDirectory("a model"), "train.seed 1 there, 2 now"
    announce_start(directory, TrainingSchedule(steps=10), RunState(step=step), [difference])
    assert said()[1:] == [f"train: {words} another configuration: {difference}", ELSEWHERE]


def test_to_train_longer_is_to_go_on(said):
    difference = "TrainingSchedule.steps 8 there, 10 now"
    announce_start(
        ModelDirectory("a model"), TrainingSchedule(steps=10), RunState(step=8), [difference]
    )
    assert len(said()) == 2


@pytest.mark.parametrize(
    ("checkpoints", "data", "commands"),
    [
        (1, "runs/x/data", ["evaluate --model_dir='runs/x/a model'"]),
        (
            3,
            "else where",
            [
                "average --model_dir='runs/x/a model' --last=3",
                "evaluate --model_dir='runs/x/a model' --data_dir='else where'",
            ],
        ),
        (
            9,
            "runs/x/data",
            [
                "average --model_dir='runs/x/a model' --last=5",
                "evaluate --model_dir='runs/x/a model'",
            ],
        ),
    ],
)
def test_the_end_names_commands_that_can_be_pasted(
    said, tmp_path, monkeypatch, checkpoints, data, commands
):
    monkeypatch.chdir(tmp_path)
    directory = ModelDirectory("runs/x/a model")
    directory.checkpoints.mkdir(parents=True)
    # That of step 0 cannot be averaged.
    for step in range(checkpoints + 1):
        (directory.checkpoints / f"step-{step}.index").touch()
    announce_end(directory, Path(data), RunState(step=400), RunState(step=1200), 300)
    next_ones = ", then ".join(f"python -m t2t_repro.{command}" for command in commands)
    assert said() == [f"train: finished the last 800 of 1,200 steps in 5 min; next: {next_ones}"]


def test_nothing_is_finished_where_nothing_was_done(said):
    announce_end(ModelDirectory("no"), Path("no"), RunState(step=5), RunState(step=5), 1)
    assert said() == []
