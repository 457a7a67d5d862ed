"""A run of the trainer: it goes from the data and an update to a trained model directory."""

import os
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import gin
import keras
from absl import logging

from t2t_repro.data.batches import Batches, BatchSettings, EpochReport
from t2t_repro.data.preparation import Preparation
from t2t_repro.data.prepared import PreparedData, open_data
from t2t_repro.model.kernels import gpu
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.training.announcements import announce_end, announce_start
from t2t_repro.training.callbacks import Callbacks
from t2t_repro.training.checkpoints import Checkpoints
from t2t_repro.training.compiled_memory import compiled_bytes
from t2t_repro.training.dev_evaluation import DevEvaluation
from t2t_repro.training.devices import own_replicas
from t2t_repro.training.fine_tuning import InitialModel
from t2t_repro.training.guard_rails import check_disk, check_memory
from t2t_repro.training.metrics_log import MetricsLog
from t2t_repro.training.model_for_data import check_fit
from t2t_repro.training.run_state import RunState, TrainingSchedule
from t2t_repro.training.train_loop import TrainLoop
from t2t_repro.training.train_step import TrainStep
from t2t_repro.training.workers import Workers


class TrainingRun:
    """A run in a model directory that no other process trains in.

    Args:
        step: the update, with model and optimizer.
        directory: of the run; of several workers, the first alone writes into it.
        workers: that train together.
        callbacks: Keras's, told what happens.
        parent: the model that a new run starts from.
    """

    def __init__(
        self,
        step: TrainStep,
        directory: ModelDirectory,
        workers: Workers,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        parent: InitialModel | None = None,
    ) -> None:
        self.step = step
        self.model = step.model
        self.directory = directory
        self.workers = workers
        self.parent = parent
        # The state is text, which TensorFlow cannot send to other workers.
        self.checkpoints = Checkpoints(
            directory,
            step.model,
            step.optimizer,
            step.average,
            is_writer=workers.is_chief,
            frozen=step.frozen,
        )
        self.pace = TrainingSchedule()
        told = callbacks if workers.is_chief else ()
        self.listeners = Callbacks(told, step.model, self.pace.steps, step.optimizer)

    def train(self, preparation: Preparation, data_dir: Path) -> RunState:
        """Trains to the end, from the newest checkpoint where there is one.

        Args:
            preparation: of the data, where they have not been prepared.
            data_dir: see `Preparation`.

        Returns:
            the state of the run at its end.

        Raises:
            UserError: something given cannot be used, or a gradient is not finite, or too long.
            SystemExit: a signal ended it; there is a checkpoint.
        """
        data, batches = self._prepare(preparation, data_dir)
        evaluation = DevEvaluation(self.model, data, self.workers)
        report = batches.report()
        logging.info("data: %s", report)
        operative = gin.operative_config_str()
        self._check_memory(batches)
        state, differing = self._begin(data, report, operative)
        if self._has_ended(state):
            batches.close()
            return state

        start, began = state, time.monotonic()
        if not self.pace.is_over(state):
            # An epoch that has to be segmented first takes a while: here a signal ends it at once.
            batches.plan(state.epoch)
            self._compile(batches, is_new=not state.step)
        tensorboard = self.directory.tensorboard if self.workers.is_chief else None
        with closing(batches), MetricsLog(tensorboard, self.pace, state, self.listeners) as journal:
            if differing or not state.step:
                journal.text("configuration", gin.config.markdown(operative), state.step)
            loop = TrainLoop(
                self.step, batches, self.checkpoints, self.pace, evaluation, self.workers, journal
            )
            state = loop.run(state)
        if loop.stopped_by:
            # As if the signal had ended the process: schedulers start such a job again.
            raise SystemExit(128 + loop.stopped_by)
        announce_end(self.directory, data_dir, start, state, time.monotonic() - began)
        return state

    def _prepare(self, preparation: Preparation, data_dir: Path) -> tuple[PreparedData, Batches]:
        """Prepares the data, once for all workers, and cuts them into batches."""
        step, workers = self.step, self.workers
        with workers.chief_first():
            data = preparation.run(data_dir) if workers.is_chief else open_data(data_dir)
        workers.check_same("data with the checksum", data.checksum)
        check_fit(self.model, data)
        # Dropout of attention weights draws for padding too: to cut that off would change the draw.
        is_static = step.jit_compile or self.model.config.attention_dropout > 0
        batches = Batches(
            data.store("train"),
            BatchSettings(),
            step.seed,
            step.micro_batches,
            is_static,
            mixture=preparation.mixture(data, step.seed),
            data=data,
        )
        return data, batches

    def _check_memory(self, batches: Batches) -> None:
        step = self.step
        replicas = len(own_replicas(step.strategy))
        check_memory(
            self.model, batches.shapes, step.slices_per_replica, replicas, step.jit_compile
        )

    def _begin(
        self, data: PreparedData, report: EpochReport, operative: str
    ) -> tuple[RunState, list[str]]:
        """Finds where the run stands, and describes it in its directory.

        Args:
            data: that it trains on.
            report: of what an epoch holds.
            operative: the configuration that it makes use of, as gin has it.

        Returns:
            the state, and the bindings that differ from those that the run had before.
        """
        directory, workers, pace = self.directory, self.workers, self.pace
        config = gin.config_str()
        differing = [*directory.differing_bindings(config), *directory.differing_epoch(report)]
        with workers.chief_first():
            if workers.is_chief:
                directory.check_same_model(self.model, data.subwords)
            state = self.checkpoints.restore()
            has_ended = self._has_ended(state)
            # A finished run keeps the description that it was trained with.
            if workers.is_chief and not (has_ended and differing):
                if not has_ended:
                    to_come = self.checkpoints.to_come(pace.steps - state.step)
                    check_disk(directory, self.checkpoints.variables, to_come)
                self.checkpoints.tidy()
                directory.describe(self.model, data.subwords, config, operative)
                directory.write_epoch(report)
        if self.parent:
            state = self._start_from(self.parent, data)
        found = {directory.config_gin.name: _is_listed(directory.config_gin), "step": state.step}
        workers.check_same("a model directory that holds", found)
        announce_start(directory, pace, state, differing)
        return state, differing

    def _has_ended(self, state: RunState) -> bool:
        return self.pace.is_over(state) and not self.pace.owes_evaluation(state)

    def _start_from(self, parent: InitialModel, data: PreparedData) -> RunState:
        """Takes over a parent's weights; the first evaluation is of them."""
        ancestor = parent.give(self.model, data.subwords)
        self.step.average.restart()
        self.workers.check_same("a train.init_from with the weights", ancestor.weights_sha256)
        if self.workers.is_chief:
            self.directory.write_ancestor(ancestor, parent.directory)
        return RunState().awaiting_evaluation()

    def _compile(self, batches: Batches, is_new: bool) -> None:
        """Compiles every shape before the first step, and says what it took and takes."""
        began = time.monotonic()
        compiled = self.step.compile(batches.shapes)
        if not compiled:
            return
        seconds = time.monotonic() - began
        logging.info("train: compiled %d shapes with XLA in %.1f s", compiled, seconds)
        if is_new:
            on_gpu = gpu.has_gpu()
            largest = max(
                batches.shapes, key=lambda shape: compiled_bytes(self.model, shape, on_gpu)
            )
            peak = self.step.slice_gradients.peak_bytes(largest)
            logging.info(
                "train: the largest program, %d x %d x %d, needs %.3g GB on every device, by XLA's "
                "own analysis; Adam and other slices' gradients come on top",
                *largest[:3],
                peak / 1e9,
            )


def _is_listed(path: Path) -> bool:
    """Whether a folder lists a file: NFS remembers for a while that one was missing."""
    try:
        return path.name in os.listdir(path.parent)
    except FileNotFoundError:
        return False
