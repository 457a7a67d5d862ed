"""Calls Keras callbacks during training, for W&B, MLflow or your own code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import keras
from absl import logging

from t2t_repro.training.train_step import StepResult


@dataclass(eq=False)
class Callbacks:
    """Calls Keras callbacks at the events of a run.

    on_train_begin
    on_train_batch_end   after every update: loss, nll, learning_rate, gradient_norm
    on_test_end          after every dev evaluation: nll, and the metric's name; of a mixture's
                         corpora news/nll and so on
    on_epoch_end         after that, with all of these; those of the dev set as val_nll and so on
    on_train_end         also where an error ends the run

    The number of a batch and of an epoch is that of the update, counted from 0 as in Keras. With
    several workers, only the first one's callbacks are called. They are there to read: a checkpoint
    does not hold their state, so they must not change the learning rate or the weights.

    Attributes:
        callbacks: Keras's, or classes derived from `keras.callbacks.Callback`.
        model: given to them, compiled with the optimizer.
        optimizer: of the run.
        steps: the last step of the run.
    """

    callbacks: Sequence[keras.callbacks.Callback]
    model: keras.Model
    optimizer: keras.Optimizer
    steps: int

    def __post_init__(self) -> None:
        self._last: dict[str, float] = {}
        if self.callbacks:
            # Callbacks read the optimizer there, W&B's for the learning rate.
            self.model.compile(self.optimizer)
        for callback in self.callbacks:
            callback.set_params({"epochs": 1, "steps": self.steps, "verbose": 0})
            callback.set_model(self.model)

    def begin(self) -> None:
        """Reports that training begins, or goes on."""
        self.model.stop_training = False
        for callback in self.callbacks:
            callback.on_train_begin()

    def update(self, step: int, result: StepResult) -> None:
        """Reports one update.

        Args:
            step: updates so far, this one included.
            result: of the update.
        """
        if not self.callbacks:
            return
        self._last = {
            name: float(getattr(result, name))
            for name in ("loss", "nll", "learning_rate", "gradient_norm")
        }
        for callback in self.callbacks:
            callback.on_train_batch_end(step - 1, dict(self._last))
        if self.model.stop_training:
            message = "a callback has set stop_training, which does not end a run: bind "
            message += "TrainingSchedule.patience or TrainingSchedule.steps"
            logging.log_first_n(logging.WARNING, message, 1)

    def evaluation(self, step: int, scores: Mapping[str, float]) -> None:
        """Reports a dev evaluation after update `step`."""
        together = self._last | {f"val_{name}": score for name, score in scores.items()}
        for callback in self.callbacks:
            callback.on_test_end(dict(scores))
            callback.on_epoch_end(step - 1, dict(together))

    def end(self) -> None:
        """Reports the end of training."""
        for callback in self.callbacks:
            callback.on_train_end()
