"""What a run reports at a terminal and to TensorBoard, after a kill too."""

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from t2t_repro.training import metrics_log
from t2t_repro.training.callbacks import Callbacks
from t2t_repro.training.metrics_log import MetricsLog
from t2t_repro.training.run_state import DevScores, RunState, TrainingSchedule
from t2t_repro.training.train_step import StepResult
from tests.training.tiny import tiny_model

RESULT = StepResult(*map(tf.constant, (2.5, 2.6, 1.0, 0.1, 0.0, 1.0)))


def curve(directory, tag):
    """(step, value) as TensorBoard shows it."""
    events = EventAccumulator(str(directory), size_guidance={"tensors": 0}).Reload()
    if tag not in events.Tags()["tensors"]:
        return []
    return [(e.step, tf.make_ndarray(e.tensor_proto).item()) for e in events.Tensors(tag)]


def log_of(directory, steps=2, log_every=1, state=RunState()):  # noqa: B008 (frozen)
    callbacks = Callbacks([], tiny_model(), None, steps)
    return MetricsLog(directory, TrainingSchedule(steps, log_every), state, callbacks)


@pytest.fixture
def clock(monkeypatch):
    """A list whose sum is the time."""
    passed = [100.0]
    monkeypatch.setattr(metrics_log.time, "monotonic", lambda: sum(passed))
    return passed


def test_speed_is_of_several_updates_and_leaves_evaluations_out(tmp_path, clock):
    """The result of an update is read after the next one, or right before an evaluation."""
    seconds = [2.0, 2.0] + [1.0] * 8 + [0.0, 2.0] + [1.0] * 8
    with log_of(tmp_path, steps=20) as log:
        for step, second in enumerate(seconds, start=1):
            if step == 12:
                with log.evaluating():
                    clock.append(1000.0)
            clock.append(second)
            log.update(step, RESULT, tokens=100, capacity=120)
    speeds = dict(curve(tmp_path, "train/real_tokens_per_second"))
    assert speeds[1] == pytest.approx(50.0)
    assert max(speeds.values()) <= 100 * 10 / 9
    assert speeds[20] == pytest.approx(100.0)


def test_a_run_that_goes_on_replaces_what_was_reported_later(tmp_path):
    for start, stop, loss in ((0, 8, 1.0), (5, 10, 2.0), (8, 11, 3.0)):
        with log_of(tmp_path, 11, state=RunState(step=start)) as log:
            for step in range(start + 1, stop + 1):
                log.update(step, RESULT._replace(loss=tf.constant(loss)), 100, 120)
            log.evaluation(stop, DevScores(loss, 30.0, f"at {stop}"), 1.0)
    expected = [(step, 1.0 + (step > 5) + (step > 8)) for step in range(1, 12)]
    assert curve(tmp_path, "train/loss") == expected
    assert curve(tmp_path, "dev/nll") == [(11, 3.0)]
