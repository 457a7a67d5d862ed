"""What a run reports at a terminal, to TensorBoard and to Keras callbacks, after a kill too."""

import keras
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from t2t_repro.training import metrics_log
from t2t_repro.training.metrics_log import MetricsLog
from t2t_repro.training.run_state import CorpusScores, DevScores, RunState
from t2t_repro.training.schedule import TrainingSchedule
from t2t_repro.training.train_step import StepResult

RESULT = StepResult(*map(tf.constant, (2.5, 2.0, 1.0, 0.25, 0.0, 1.0)))


def curve(directory, tag):
    """(step, value) as TensorBoard shows it."""
    events = EventAccumulator(str(directory), size_guidance={"tensors": 0}).Reload()
    if tag not in events.Tags()["tensors"]:
        return []
    return [(e.step, tf.make_ndarray(e.tensor_proto).item()) for e in events.Tensors(tag)]


def log_of(directory, steps=2, log_every=1):
    callbacks = keras.callbacks.CallbackList(model=keras.Model())
    return MetricsLog(directory, TrainingSchedule(steps, log_every), RunState(), callbacks)


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
            log.report_update(step, RESULT, tokens=100, capacity=120)
    speeds = dict(curve(tmp_path, "train/real_tokens_per_second"))
    assert speeds[1] == pytest.approx(50.0)
    assert max(speeds.values()) <= 100 * 10 / 9
    assert speeds[20] == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("seconds", "shown", "at_terminal"), [(86.0, 1, False), (9.0, 3, True), (0.1, 50, True)]
)
def test_the_first_line_comes_soon_however_long_an_update_takes(
    tmp_path, clock, monkeypatch, caplog, capsys, seconds, shown, at_terminal
):
    monkeypatch.setattr(metrics_log.sys.stderr, "isatty", lambda: at_terminal)
    with caplog.at_level("INFO", logger="absl"), log_of(tmp_path, 1000, log_every=50) as log:
        for step in range(1, 51):
            clock.append(seconds)
            log.report_update(step, RESULT, tokens=100, capacity=120)
    assert f"step {shown}/1000" in caplog.messages[0]
    assert f"{seconds:.2g} s/update" in caplog.messages[0]
    assert len(caplog.messages) == len({shown, 50})
    assert ("updates" in capsys.readouterr().err) == at_terminal


# Callbacks


TRAIN = {"loss": 2.5, "nll": 2.0, "learning_rate": 0.25, "gradient_norm": 1.0}


class Recording(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.calls = []

    def on_train_begin(self, logs=None):
        # W&B's and MLflow's callbacks ask the model for the optimizer.
        self.calls.append(("begin", self.params["steps"], self.model.optimizer.learning_rate))

    def on_train_batch_end(self, batch, logs=None):
        self.calls.append(("batch", batch, logs))

    def on_test_end(self, logs=None):
        self.calls.append(("test", logs))

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append(("epoch", epoch, logs))

    def on_train_end(self, logs=None):
        self.calls.append("end")


@pytest.fixture
def log(tmp_path):
    """Makes the log of a run with a callback."""

    def make(callback):
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.5))
        callbacks = keras.callbacks.CallbackList([callback], model=model, steps=9)
        schedule = TrainingSchedule(9, log_every=100)
        return MetricsLog(tmp_path, schedule, RunState(step=4), callbacks)

    return make


def test_every_event_is_reported(log):
    recording = Recording()
    corpora = [CorpusScores("news", 1.0, 20.0)]
    with log(recording) as run:
        run.report_update(5, RESULT, 90, 100)
        run.report_evaluation(5, DevScores(1.5, 30.0, "| a |", "strict BLEU", corpora=corpora), 0.1)
    dev = {"nll": 1.5, "strict_bleu": 30.0, "news/nll": 1.0, "news/strict_bleu": 20.0}
    assert recording.calls == [
        ("begin", 9, 0.5),
        ("batch", 4, TRAIN),
        ("test", dev),
        ("epoch", 4, {**TRAIN, **{f"val_{name}": score for name, score in dev.items()}}),
        "end",
    ]


def test_a_callback_does_not_end_the_run(log, caplog):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = True

    with log(Stop()) as run:
        for step in (5, 6):
            run.report_update(step, RESULT, 90, 100)
    assert caplog.text.count("stop_training") == 1
