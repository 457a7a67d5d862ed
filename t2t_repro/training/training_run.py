"""A run of the trainer: from prepared data and an update to a trained model directory."""

import dataclasses
import os
import shlex
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import gin
import keras
from absl import logging

from t2t_repro.config.checks import differing_bindings
from t2t_repro.config.gin_files import read_gin
from t2t_repro.data.batches import Batches, BatchSettings, EpochReport
from t2t_repro.data.preparation import Preparation
from t2t_repro.data.prepared import PreparedData, open_data
from t2t_repro.decoding.translator import Translator, TranslatorSettings
from t2t_repro.files import write_json
from t2t_repro.progress import in_words
from t2t_repro.runs.checkpoint_folder import CheckpointFolder
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.records import differing_epoch, read_ancestry, write_ancestry
from t2t_repro.training.callbacks import Callbacks
from t2t_repro.training.checkpoints import Checkpoints, CheckpointSettings
from t2t_repro.training.dev_evaluation import DevEvaluation, DevEvaluationSettings
from t2t_repro.training.fine_tuning import InitialModel
from t2t_repro.training.guard_rails import check_disk
from t2t_repro.training.metrics_log import MetricsLog
from t2t_repro.training.model_for_data import check_fit
from t2t_repro.training.run_state import RunState, TrainingSchedule
from t2t_repro.training.train_loop import TrainLoop
from t2t_repro.training.train_step import TrainStep
from t2t_repro.training.workers import Workers

_PAPER_AVERAGES = 5  # Checkpoints of the base model (section 6.1).


@dataclass(frozen=True)
class RunSettings:
    """Settings of a run, each bound by gin under its own name.

    Attributes:
        schedule: when the run logs, evaluates and ends.
        batches: of the training set.
        checkpoints: how often, and how many.
        evaluation: of the dev set.
        translator: of the dev evaluation.
    """

    schedule: TrainingSchedule = field(default_factory=TrainingSchedule)
    batches: BatchSettings = field(default_factory=BatchSettings)
    checkpoints: CheckpointSettings = field(default_factory=CheckpointSettings)
    evaluation: DevEvaluationSettings = field(default_factory=DevEvaluationSettings)
    translator: TranslatorSettings = field(default_factory=TranslatorSettings)


class TrainingRun:
    """A run in a model directory that no other process trains in.

    Args:
        step: the update, with model and optimizer.
        directory: of the run; only the first of several workers writes into it.
        workers: that train together.
        settings: of the run.
        callbacks: Keras's, called at the events of the run.
        initial: the model that a new run starts from, if any.
    """

    def __init__(
        self,
        step: TrainStep,
        directory: ModelDirectory,
        workers: Workers,
        settings: RunSettings,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        initial: InitialModel | None = None,
    ) -> None:
        self._step = step
        self._model = step.model
        self._directory = directory
        self._workers = workers
        self._settings = settings
        self._schedule = settings.schedule
        self._initial = initial
        self._checkpoints = Checkpoints(
            directory,
            step.model,
            step.optimizer,
            settings.checkpoints,
            step.average,
            step.frozen,
            workers.is_chief,
        )
        own = callbacks if workers.is_chief else ()
        self._callbacks = Callbacks(own, step.model, step.optimizer, self._schedule.steps)

    def train(self, preparation: Preparation, data_dir: Path) -> RunState:
        """Trains to the end, from the newest checkpoint if there is one.

        Args:
            preparation: of the data, if they have not been prepared.
            data_dir: see `Preparation`.

        Returns:
            the state of the run at its end.

        Raises:
            UserError: a setting or a file cannot be used, or a gradient is not finite or too long.
            SystemExit: a signal ended the run; there is a checkpoint.
        """
        data, batches = self._prepare(preparation, data_dir)
        translator = Translator([self._model], data.subwords, self._settings.translator)
        evaluation = DevEvaluation(
            self._model, translator, data, self._workers, self._settings.evaluation
        )
        report = batches.report()
        logging.info("data: %s", report)
        operative = gin.operative_config_str()
        state, differing = self._begin(data, report, operative)
        if self._schedule.has_ended(state):
            batches.close()
            return state

        start, began = state, time.monotonic()
        if not self._schedule.is_over(state):
            # Segmenting an epoch takes a while: here a signal ends it at once.
            batches.plan(state.epoch)
            self._step.compile(batches.shapes)
        tensorboard = self._directory.tensorboard if self._workers.is_chief else None
        log = MetricsLog(tensorboard, self._schedule, state, self._callbacks)
        with closing(batches), log:
            if differing or not state.step:
                log.text("configuration", gin.config.markdown(operative), state.step)
            loop = TrainLoop(
                self._step,
                batches,
                self._checkpoints,
                self._schedule,
                evaluation,
                self._workers,
                log,
            )
            state = loop.run(state)
        if loop.stopped_by:
            # As if the signal had ended the process: schedulers start such a job again.
            raise SystemExit(128 + loop.stopped_by)
        log_end(self._directory, data_dir, start, state, time.monotonic() - began)
        return state

    def _prepare(self, preparation: Preparation, data_dir: Path) -> tuple[PreparedData, Batches]:
        """Prepares the data, once for all workers, and divides them into batches."""
        step, workers = self._step, self._workers
        with workers.chief_first():
            data = preparation.run(data_dir) if workers.is_chief else open_data(data_dir)
        workers.check_same("data with the checksum", data.checksum)
        check_fit(self._model, data)
        # Dropout of attention weights draws for padding too: without it the draws would differ.
        is_static = step.jit_compile or self._model.config.attention_dropout > 0
        batches = Batches(
            data.store("train"),
            self._settings.batches,
            step.seed,
            step.micro_batches,
            is_static,
            mixture=preparation.mixture(data, step.seed),
            data=data,
        )
        return data, batches

    def _begin(
        self, data: PreparedData, report: EpochReport, operative: str
    ) -> tuple[RunState, list[str]]:
        """Finds the state of the run, and describes the run in its directory.

        Args:
            data: that it trains on.
            report: on the first epoch.
            operative: gin's operative configuration.

        Returns:
            the state, and the bindings that differ from those of the run so far.
        """
        directory, workers = self._directory, self._workers
        config = gin.config_str()
        epoch = dataclasses.asdict(report)
        differing = differing_epoch(directory.epoch_json, epoch)
        if directory.config_gin.is_file():
            differing = [*differing_bindings(read_gin(directory.config_gin), config), *differing]
        with workers.chief_first():
            if workers.is_chief:
                directory.check_same_model(self._model, data.subwords)
            state = self._checkpoints.restore()
            has_ended = self._schedule.has_ended(state)
            # A finished run keeps the description that it was trained with.
            if workers.is_chief and not (has_ended and differing):
                if not has_ended:
                    to_come = self._checkpoints.to_come(self._schedule.steps - state.step)
                    check_disk(directory.path, self._checkpoints.variables, to_come)
                self._checkpoints.tidy()
                directory.describe(self._model, data.subwords, config, operative)
                write_json(directory.epoch_json, epoch)
        if self._initial:
            state = self._start_from(self._initial, data)
        seen = {directory.config_gin.name: _is_listed(directory.config_gin), "step": state.step}
        workers.check_same("a model directory that holds", seen)
        log_start(directory, self._schedule, state, differing)
        return state, differing

    def _start_from(self, initial: InitialModel, data: PreparedData) -> RunState:
        """Copies the initial model's weights; the first evaluation is of them."""
        ancestor = initial.give(self._model, data.subwords)
        self._step.average.restart()
        self._workers.check_same("a train.init_from with the weights", ancestor.weights_sha256)
        if self._workers.is_chief:
            others = read_ancestry(initial.directory.ancestry_json)
            write_ancestry(self._directory.ancestry_json, [ancestor, *others])
        return RunState().awaiting_evaluation()


def _is_listed(path: Path) -> bool:
    """Returns whether a folder lists a file: NFS caches that a file was missing."""
    try:
        return path.name in os.listdir(path.parent)
    except FileNotFoundError:
        return False


def log_model(step: TrainStep) -> None:
    """Logs the size of a model, what of it is updated, and the number of devices."""
    logging.info(
        f"train: {step.model.count_params():,} parameters; replicas: "
        f"{step.strategy.num_replicas_in_sync}; micro-batches per batch: {step.micro_batches}; "
        f"XLA: {'on' if step.jit_compile else 'off'}"
    )
    if step.frozen:
        left = sum(weight.shape.num_elements() for weight in step.updated)
        logging.info(f"train: frozen: {', '.join(step.frozen)}; {left:,} parameters are updated")


def log_start(
    directory: ModelDirectory, schedule: TrainingSchedule, state: RunState, differing: Sequence[str]
) -> None:
    """Logs where a run goes on, or why it does not.

    Args:
        directory: of the model.
        schedule: of the run.
        state: of the run.
        differing: the bindings that differ from those of the run so far.
    """
    # A run that was stopped before its first update has a checkpoint of step 0.
    if not state.step and not CheckpointFolder(directory.checkpoints).expected():
        return
    is_over = schedule.is_over(state)
    if not is_over:
        logging.info("train: going on after step %d", state.step)
    else:
        longer = f"TrainingSchedule.steps to more than {state.step}"
        if schedule.is_out_of_patience(state):
            longer = f"TrainingSchedule.patience to more than {state.stale}, or to None"
        logging.info(
            f"train: finished already, after step {state.step}; to train longer, bind {longer}"
        )
    for difference in differing:
        doing = "the run had" if is_over else "going on with"
        logging.warning("train: %s another configuration: %s", doing, difference)
    if is_over or differing:
        logging.info(
            "train: to start from this model's weights with a fresh optimizer, on the same or "
            f"other data, give another --model_dir with {directory.as_parent()}"
        )


def log_end(
    directory: ModelDirectory, data_dir: Path, start: RunState, end: RunState, seconds: float
) -> None:
    """Logs that a run is finished, and what to do next.

    Args:
        directory: of the model.
        data_dir: of its data.
        start: the state when this process began.
        end: the state now.
        seconds: from the one to the other.
    """
    updates = end.step - start.step
    if not updates:
        return
    logging.info(
        f"train: finished step {end.step:,}; {updates:,} updates took {in_words(seconds)}; next: "
        f"{', then '.join(_next_commands(directory, data_dir))}"
    )


def _next_commands(directory: ModelDirectory, data_dir: Path) -> list[str]:
    model = f"--model_dir={shlex.quote(str(directory.path))}"
    is_usual = data_dir == directory.path.parent / "data"
    data = "" if is_usual else f" --data_dir={shlex.quote(str(data_dir))}"
    evaluate = f"python -m t2t_repro.evaluate {model}{data}"
    last = min(len(CheckpointFolder(directory.checkpoints).trained()), _PAPER_AVERAGES)
    if last < 2:
        return [evaluate]
    return [f"python -m t2t_repro.average {model} --last={last}", evaluate]
