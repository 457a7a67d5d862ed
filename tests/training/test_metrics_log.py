"""What a run reports at a terminal and to TensorBoard, after a kill too."""

import io
import sys
from contextlib import contextmanager

import pytest
import tensorflow as tf
from absl import flags, logging
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from t2t_repro.command_line.program import AboveBars
from t2t_repro.errors import UserError
from t2t_repro.training import metrics_log
from t2t_repro.training.callbacks import Callbacks
from t2t_repro.training.metrics_log import MetricsLog
from t2t_repro.training.run_state import DevScores, RunState, TrainingSchedule
from t2t_repro.training.train_step import StepResult
from tests.training.tiny import tiny_model

RESULT = StepResult(*map(tf.constant, (2.5, 2.6, 5.0, 1.0, 0.1, 0.0, 1.0)))


def curve(directory, tag):
    """(step, value) as TensorBoard shows it."""
    events = EventAccumulator(str(directory), size_guidance={"tensors": 0}).Reload()
    if tag not in events.Tags()["tensors"]:
        return []
    return [(e.step, tf.make_ndarray(e.tensor_proto).item()) for e in events.Tensors(tag)]


def log_of(directory, steps=2, log_every=1, state=RunState()):  # noqa: B008 (frozen)
    callbacks = Callbacks([], tiny_model(), None, steps)
    return MetricsLog(directory, TrainingSchedule(steps, log_every), state, callbacks)


class Terminal(io.StringIO):
    def isatty(self):
        return True


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


def test_at_a_terminal_a_bar_shows_progress_and_log_lines_stand_above_it(
    tmp_path, clock, monkeypatch
):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    handler = logging.get_absl_handler().python_handler
    before = handler.setStream(AboveBars())
    logging.get_absl_logger().addHandler(handler)
    flags.FLAGS.mark_as_parsed()
    try:
        with log_of(tmp_path, steps=1000, log_every=10) as log:
            for step in range(1, 11):
                clock.append(4.0)
                log.update(step, RESULT, tokens=100, capacity=120)
            with log.evaluating():
                clock.append(30.0)
            logging.set_verbosity(logging.INFO)
            log.evaluation(10, DevScores(2.0, 31.5, "| a |"), 30.0)
    finally:
        flags.FLAGS.unparse_flags()
        logging.get_absl_logger().removeHandler(handler)
        handler.setStream(before)
    states = terminal.getvalue().replace("\n", "\r").split("\r")
    assert any(
        "10/1000" in state and state.endswith("25 src+tgt tok/s, 1 h 6 min left")
        for state in states
    )
    (line,) = [state for state in states if "BLEU" in state]
    assert "BLEU 31.50 (30 s)" in line
    assert "%" not in line


@contextmanager
def no_room():
    """As on a full disk, no file can grow; afterwards pytest can write again, to a file too."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_one_line(tmp_path):
    log = log_of(tmp_path)
    log.text("configuration", "| a |", 0)
    with no_room(), pytest.raises(UserError, match="cannot write to"):
        log.text("configuration", "| a |", 1)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write to"):
        log_of(tmp_path / "file" / "tensorboard")
