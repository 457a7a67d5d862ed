"""Keras's callbacks in the train loop: how a run is told to W&B, MLflow, or one's own program."""

from collections.abc import Mapping, Sequence

import keras
import tensorflow as tf
from absl import logging

from t2t_repro.errors import UserError
from t2t_repro.training.train_step import StepResult

_NO_RATES = (
    "expected callbacks that leave it alone: bind a schedule in its place, such as "
    "adam.learning_rate = @TransformerSchedule()."
)


class Callbacks:
    """Tells Keras callbacks what happens in a run.

    on_train_begin
    on_train_batch_end   after every update: loss, nll, learning_rate, gradient_norm
    on_test_end          after every dev evaluation: nll, and the metric's name; of a mixture's
                         corpus news/nll and so on
    on_epoch_end         then too, for callbacks that wait for it: all these, those of the dev set
                         as val_nll and so on
    on_train_end         also where an error ends the run

    The number of a batch and of an epoch is that of the update, counted from 0 as in Keras. Of
    several workers, only the first one's are called. They read: what ends a run, the learning rate,
    and when checkpoints are written are not theirs to change.

    Args:
        callbacks: Keras's, or classes derived from `keras.callbacks.Callback`.
        model: that they are given, with the optimizer as its own.
        steps: the last step of the run.
        optimizer: of the run.

    Raises:
        UserError: one of them is no callback, or is there to change the learning rate.
    """

    def __init__(
        self,
        callbacks: Sequence[keras.callbacks.Callback],
        model: keras.Model | None = None,
        steps: int | None = None,
        optimizer: keras.Optimizer | None = None,
    ) -> None:
        if not isinstance(callbacks, list | tuple) or not all(
            isinstance(callback, keras.callbacks.Callback) for callback in callbacks
        ):
            raise UserError(
                f"train.callbacks is {callbacks!r}, expected a list of Keras callbacks, such as "
                "[@my_parts.MyCallback()], with brackets behind the name."
            )
        self._callbacks = callbacks
        self._model = model
        for callback in callbacks:
            if isinstance(callback, keras.callbacks.ReduceLROnPlateau):
                raise UserError(f"train.callbacks has ReduceLROnPlateau, {_NO_RATES}")
        self._optimizer = optimizer
        self._rate = self._current_rate()
        self._last: dict[str, float] = {}
        self._warned = False
        if callbacks and model is not None and optimizer is not None:
            # They look for it there, W&B's for the learning rate.
            model.compile(optimizer)
        for callback in callbacks:
            callback.set_params({"epochs": 1, "steps": steps, "verbose": 0})
            callback.set_model(model)

    def begin(self) -> None:
        """Says that training begins, or goes on."""
        if self._model is not None:
            self._model.stop_training = False
        for callback in self._callbacks:
            callback.on_train_begin()

    def update(self, step: int, result: StepResult) -> None:
        """Reports one update.

        Args:
            step: updates so far, this one included.
            result: of the update.
        """
        if not self._callbacks:
            return
        self._last = {
            name: float(getattr(result, name))
            for name in ("loss", "nll", "learning_rate", "gradient_norm")
        }
        for callback in self._callbacks:
            callback.on_train_batch_end(step - 1, dict(self._last))
        self._warn_if_asked_to_stop()

    def evaluation(self, step: int, scores: Mapping[str, float]) -> None:
        """Reports a dev evaluation after update `step`.

        Raises:
            UserError: a callback has changed the learning rate.
        """
        if not self._callbacks:
            return
        together = self._last | {f"val_{name}": score for name, score in scores.items()}
        for callback in self._callbacks:
            callback.on_test_end(dict(scores))
            callback.on_epoch_end(step - 1, dict(together))
        if (now := self._current_rate()) != self._rate:
            # The other workers, and a restart, would go on with the old one.
            raise UserError(f"a callback changed the learning rate to {now}, {_NO_RATES}")
        self._warn_if_asked_to_stop()

    def end(self) -> None:
        """Says that training has ended."""
        for callback in self._callbacks:
            callback.on_train_end()

    def _current_rate(self) -> object:
        """The optimizer's learning rate, or its schedule."""
        rate = getattr(self._optimizer, "_learning_rate", None)
        return float(tf.convert_to_tensor(rate)) if isinstance(rate, keras.Variable) else rate

    def _warn_if_asked_to_stop(self) -> None:
        if getattr(self._model, "stop_training", False) and not self._warned:
            self._warned = True
            logging.warning(
                "train: a callback has set stop_training, which ends no run here: bind "
                "TrainingSchedule.patience or TrainingSchedule.steps"
            )
