"""The events of a run that Keras callbacks see."""

import keras
import pytest
import tensorflow as tf

from t2t_repro.training.callbacks import Callbacks
from t2t_repro.training.metrics_log import MetricsLog
from t2t_repro.training.run_state import CorpusScores, DevScores, RunState, TrainingSchedule
from t2t_repro.training.train_step import StepResult
from tests.training.tiny import tiny_model

RESULT = StepResult(*map(tf.constant, (2.5, 2.0, 1.0, 0.25, 0.0, 1.0)))
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
        callbacks = Callbacks([callback], tiny_model(), keras.optimizers.SGD(0.5), 9)
        schedule = TrainingSchedule(9, log_every=100)
        return MetricsLog(tmp_path, schedule, RunState(step=4), callbacks)

    return make


def test_every_event_is_reported(log):
    recording = Recording()
    corpora = [CorpusScores("news", 1.0, 20.0)]
    with log(recording) as run:
        run.update(5, RESULT, 90, 100)
        run.evaluation(5, DevScores(1.5, 30.0, "| a |", "strict BLEU", corpora=corpora), 0.1)
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
            run.update(step, RESULT, 90, 100)
    assert caplog.text.count("stop_training") == 1
