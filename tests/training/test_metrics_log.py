"""What a run says of itself at a terminal, and of its speed everywhere."""

import io
import sys
from contextlib import contextmanager

import pytest
import tensorflow as tf
from absl import flags, logging

from t2t_repro.command_line.program import AboveBars
from t2t_repro.errors import UserError
from t2t_repro.training import metrics_log as journal
from t2t_repro.training.event_files import read_events
from t2t_repro.training.metrics_log import MetricsLog
from t2t_repro.training.run_state import DevScores, RunState, TrainingSchedule
from t2t_repro.training.train_step import StepResult
from tests.training.test_event_files import curve

RESULT = StepResult(*map(tf.constant, (2.5, 2.6, 5.0, 1.0, 0.1, 0.0, 1.0)))


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A list whose sum is the time."""
    passed = [100.0]
    monkeypatch.setattr(journal.time, "monotonic", lambda: sum(passed))
    return passed


def test_speed_is_of_several_updates_and_leaves_evaluations_out(tmp_path, clock):
    """An update is looked at after the next one, before an evaluation at once: no time between."""
    seconds = [2.0, 2.0] + [1.0] * 8 + [0.0, 2.0] + [1.0] * 8
    pace = TrainingSchedule(steps=20, log_every=1)
    with MetricsLog(tmp_path, pace, RunState()) as told:
        for step, second in enumerate(seconds, start=1):
            if step == 12:
                with told.evaluating():
                    clock.append(1000.0)
            clock.append(second)
            told.update(step, RESULT, tokens=100, capacity=120)
    speeds = dict(curve(tmp_path, "train/real_tokens_per_second"))
    assert speeds[1] == pytest.approx(50.0)
    assert max(speeds.values()) <= 100 * 10 / 9
    assert speeds[20] == pytest.approx(100.0)


def test_tensorboard_explains_a_loss_below_nll(tmp_path):
    with MetricsLog(tmp_path, TrainingSchedule(steps=2, log_every=1), RunState()) as told:
        told.update(1, RESULT, tokens=100, capacity=120)
    (path,) = tmp_path.iterdir()
    explained = {
        value.tag: value.metadata.summary_description
        for event in read_events(path)
        for value in event.summary.value
    }
    assert "It may lie below nll" in explained["train/loss"]
    assert "without label smoothing" in explained["train/nll"]


def test_at_a_terminal_a_bar_says_what_is_done_and_log_lines_leave_it_whole(
    tmp_path, clock, monkeypatch
):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    handler = logging.get_absl_handler().python_handler
    before = handler.setStream(AboveBars())
    logging.get_absl_logger().addHandler(handler)
    flags.FLAGS.mark_as_parsed()
    try:
        with MetricsLog(tmp_path, TrainingSchedule(steps=1000, log_every=10), RunState()) as told:
            for step in range(1, 11):
                clock.append(4.0)
                told.update(step, RESULT, tokens=100, capacity=120)
            with told.evaluating():
                clock.append(30.0)
            logging.set_verbosity(logging.INFO)
            told.evaluation(10, DevScores(2.0, 31.5, "| a |"), 30.0)
    finally:
        flags.FLAGS.unparse_flags()
        logging.get_absl_logger().removeHandler(handler)
        handler.setStream(before)
    states = terminal.getvalue().replace("\n", "\r").split("\r")
    assert any(
        state.endswith("10/1000 updates, loss 2.500, 25 src+tgt tok/s, 1 h 6 min left")
        for state in states
    )
    assert any(state.rstrip().endswith("updates, evaluating on the dev set") for state in states)
    (line,) = [state for state in states if "BLEU" in state]
    assert line.endswith("step 10: dev nll 2.0000, perplexity 7.389, BLEU 31.50 (30 s)")
    assert "%" not in line
    assert states[-2].endswith("1 h 6 min left")


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


def test_what_cannot_be_written_is_one_line(tmp_path):
    told = MetricsLog(tmp_path, TrainingSchedule(steps=2, log_every=1), RunState())
    told.text("configuration", "| a |", 0)
    message = r"cannot write to .* \(.*\): make room .* start again"
    with no_room(), pytest.raises(UserError, match=message):
        told.text("configuration", "| a |", 1)


def test_a_full_disk_as_a_run_goes_on_is_one_line(tmp_path):
    with MetricsLog(tmp_path, TrainingSchedule(9), RunState()) as told:
        told.text("dev/translations", "| a |", 1)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / ".events.partial").symlink_to("/dev/full")
    with pytest.raises(UserError, match=r"cannot write to .* \(.*\): make room"):
        MetricsLog(tmp_path, TrainingSchedule(9), RunState(step=1))
    assert all(path.read_bytes() == content for path, content in before.items())
