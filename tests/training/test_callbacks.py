"""What Keras callbacks are told of a run."""

import keras
import pytest
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.training.callbacks import Callbacks
from t2t_repro.training.metrics_log import MetricsLog
from t2t_repro.training.run_state import CorpusScores, DevScores, RunState, TrainingSchedule
from t2t_repro.training.train_step import StepResult
from tests.training.tiny import tiny_model, tiny_step

RESULT = StepResult(*map(tf.constant, (2.5, 2.0, 5.0, 1.0, 0.25, 0.0, 1.0)))
TRAIN = {"loss": 2.5, "nll": 2.0, "learning_rate": 0.25, "gradient_norm": 1.0}


class Told(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.calls = []

    def on_train_begin(self, logs=None):
        self.calls.append(("begin", self.params["steps"], self.model.count_params()))

    def on_train_batch_end(self, batch, logs=None):
        self.calls.append(("batch", batch, logs))

    def on_test_end(self, logs=None):
        self.calls.append(("test", logs))

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append(("epoch", epoch, logs))

    def on_train_end(self, logs=None):
        self.calls.append("end")


def test_what_callbacks_are_told(tmp_path):
    model, told = tiny_model(), Told()
    listeners = Callbacks([told], model, 9)
    with MetricsLog(
        tmp_path, TrainingSchedule(9, log_every=100), RunState(step=4), listeners
    ) as journal:
        journal.update(5, RESULT, 90, 100)
        journal.evaluation(5, DevScores(1.5, 30.0, "| a |", "strict BLEU"), 0.1)
    assert told.calls == [
        ("begin", 9, model.count_params()),
        ("batch", 4, TRAIN),
        ("test", {"nll": 1.5, "strict_bleu": 30.0}),
        ("epoch", 4, {**TRAIN, "val_nll": 1.5, "val_strict_bleu": 30.0}),
        "end",
    ]


def test_callbacks_find_the_optimizer_where_keras_has_it(tmp_path):
    """W&B's and MLflow's ask the model for it."""
    step, found = tiny_step(), []

    class Asks(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            optimizer = self.model.optimizer
            found.append((int(optimizer.iterations), float(optimizer.learning_rate)))

    before = [variable.path for variable in step.model.variables]
    listeners = Callbacks([Asks()], step.model, 9, step.optimizer)
    with MetricsLog(tmp_path, TrainingSchedule(9), RunState(), listeners) as journal:
        journal.update(1, RESULT, 90, 100)
    assert found == [(0, float(step.optimizer.learning_rate))]
    assert [variable.path for variable in step.model.variables] == before


def test_callbacks_are_told_of_every_corpus(tmp_path):
    told = Told()
    corpora = [CorpusScores("news", 1.0, 20.0)]
    scores = DevScores(1.5, 30.0, "| a |", corpora=corpora)
    with MetricsLog(
        tmp_path, TrainingSchedule(9), RunState(), Callbacks([told], tiny_model(), 9)
    ) as journal:
        journal.evaluation(5, scores, 0.1)
    assert told.calls[1] == ("test", {"nll": 1.5, "bleu": 30.0, "news/nll": 1.0, "news/bleu": 20.0})


def test_the_end_is_told_where_an_error_ends_the_run(tmp_path):
    told = Told()

    def fail():
        with MetricsLog(
            tmp_path, TrainingSchedule(9), RunState(), Callbacks([told], tiny_model(), 9)
        ):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert told.calls[-1] == "end"


def test_a_callback_does_not_end_the_run(caplog):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = True

    listeners = Callbacks([Stop()], tiny_model(), 9)
    listeners.begin()
    for step in (1, 2):
        listeners.update(step, RESULT)
    assert (
        caplog.text.count(
            "set stop_training, which ends no run here: bind TrainingSchedule.patience"
        )
        == 1
    )


def test_a_callback_does_not_change_the_learning_rate():
    """Other workers would go on with another one."""

    class Halves(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.optimizer.learning_rate = float(self.model.optimizer.learning_rate) / 2

    listeners = Callbacks([Halves()], tiny_model(), 9, keras.optimizers.SGD(0.5))
    listeners.begin()
    listeners.evaluation(1, {"nll": 2.0})
    listeners.update(2, RESULT)
    with pytest.raises(UserError, match=r"changed the learning rate to 0.25, expected callbacks"):
        listeners.evaluation(2, {"nll": 2.0})
    plateau = keras.callbacks.ReduceLROnPlateau("val_nll", mode="min")
    with pytest.raises(UserError, match=r"has ReduceLROnPlateau, expected callbacks that leave"):
        Callbacks([plateau], tiny_model(), 9, keras.optimizers.SGD(0.5))


@pytest.mark.parametrize("callbacks", [Told, [Told], "x", [lambda: None], None])
def test_what_is_no_callback(callbacks):
    with pytest.raises(UserError, match=r"train.callbacks is .*, expected a list of Keras callb"):
        Callbacks(callbacks)
