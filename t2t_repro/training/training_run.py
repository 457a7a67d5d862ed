"""A run of the trainer: from prepared data and an update to a trained model directory."""

import dataclasses
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
from t2t_repro.training.metrics_log import MetricsLog
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


@dataclass
class TrainingRun:
    """A run in a model directory that no other process trains in.

    Attributes:
        step: the update, with model and optimizer.
        directory: of the run; only the first of several workers writes into it.
        workers: that train together.
        settings: of the run.
        callbacks: Keras's, called at the events of the run.
        initial: the model that a new run starts from, if any.
    """

    step: TrainStep
    directory: ModelDirectory
    workers: Workers
    settings: RunSettings
    callbacks: Sequence[keras.callbacks.Callback] = ()
    initial: InitialModel | None = None

    def __post_init__(self) -> None:
        self._checkpoints = Checkpoints(
            self.directory,
            self.step.model,
            self.step.optimizer,
            self.settings.checkpoints,
            self.step.average,
            self.step.frozen,
            self.workers.is_chief,
        )
        own = self.callbacks if self.workers.is_chief else ()
        steps = self.settings.schedule.steps
        self._callbacks = Callbacks(own, self.step.model, self.step.optimizer, steps)

    def train(self, preparation: Preparation, data_dir: Path) -> RunState:
        """Trains to the end, from the newest checkpoint if there is one.

        Args:
            preparation: of the data, if they have not been prepared.
            data_dir: see `Preparation`.

        Returns:
            the state of the run at its end.

        Raises:
            UserError: a setting or a file cannot be used, or a gradient is not finite.
            SystemExit: a signal ended the run; there is a checkpoint.
        """
        step, workers, schedule = self.step, self.workers, self.settings.schedule
        data, batches = self._prepare(preparation, data_dir)
        translator = Translator([step.model], data.subwords, self.settings.translator)
        evaluation = DevEvaluation(step.model, translator, data, workers, self.settings.evaluation)
        report = batches.report()
        logging.info("data: %s", report)
        operative = gin.operative_config_str()
        state, differing = self._begin(data, report, operative)
        if schedule.has_ended(state):
            batches.close()
            return state

        start, began = state, time.monotonic()
        if not schedule.is_over(state):
            # Segmenting an epoch takes a while: here a signal ends it at once.
            batches.plan(state.epoch)
            step.compile(batches.shapes)
        tensorboard = self.directory.tensorboard if workers.is_chief else None
        log = MetricsLog(tensorboard, schedule, state, self._callbacks)
        with closing(batches), log:
            if differing or not state.step:
                log.text("configuration", gin.config.markdown(operative), state.step)
            loop = TrainLoop(step, batches, self._checkpoints, schedule, evaluation, workers, log)
            state = loop.run(state)
        if loop.stopped_by:
            # As if the signal had ended the process: schedulers start such a job again.
            raise SystemExit(128 + loop.stopped_by)
        split = "" if "test" in data.splits else " --split=dev"
        seconds = time.monotonic() - began
        log_end(self.directory, data_dir, split, start.step, state.step, seconds)
        return state

    def _prepare(self, preparation: Preparation, data_dir: Path) -> tuple[PreparedData, Batches]:
        """Prepares the data, once for all workers, and divides them into batches."""
        step, workers = self.step, self.workers
        with workers.chief_first():
            data = preparation.run(data_dir) if workers.is_chief else open_data(data_dir)
        workers.check_same("data with the checksum", data.checksum)
        # Dropout of attention weights draws for padding too: without it the draws would differ.
        is_static = step.jit_compile or self.step.model.config.attention_dropout > 0
        batches = Batches(
            data.store("train"),
            self.settings.batches,
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
        directory, workers, schedule = self.directory, self.workers, self.settings.schedule
        config = gin.config_str()
        epoch = dataclasses.asdict(report)
        differing = differing_epoch(directory.epoch_json, epoch)
        if directory.config_gin.is_file():
            differing = [*differing_bindings(read_gin(directory.config_gin), config), *differing]
        with workers.chief_first():
            if workers.is_chief:
                directory.check_same_model(self.step.model, data.subwords)
            state = self._checkpoints.restore()
            # A finished run keeps the description that it was trained with.
            if workers.is_chief and not (schedule.has_ended(state) and differing):
                self._checkpoints.tidy()
                directory.describe(self.step.model, data.subwords, config, operative)
                write_json(directory.epoch_json, epoch)
        if self.initial:
            state = self._start_from(self.initial, data)
        workers.check_same("a --model_dir at step", state.step)
        log_start(directory, schedule, state, differing)
        return state, differing

    def _start_from(self, initial: InitialModel, data: PreparedData) -> RunState:
        """Copies the initial model's weights; the first evaluation is of them."""
        ancestor = initial.give(self.step.model, data.subwords)
        self.step.average.restart()
        self.workers.check_same("a train.init_from with the weights", ancestor.weights_sha256)
        if self.workers.is_chief:
            others = read_ancestry(initial.directory.ancestry_json)
            write_ancestry(self.directory.ancestry_json, [ancestor, *others])
        return RunState().awaiting_evaluation()


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
    if is_over:
        logging.info(
            f"train: finished already, after step {state.step}; to train longer, raise "
            "TrainingSchedule.steps or TrainingSchedule.patience"
        )
    else:
        logging.info("train: going on after step %d", state.step)
    for difference in differing:
        logging.warning("train: now with another configuration: %s", difference)
    if is_over or differing:
        logging.info(
            "train: to start from this model's weights with a fresh optimizer, on the same or "
            f"other data, give another --model_dir with {directory.as_parent()}"
        )


def log_end(
    directory: ModelDirectory, data_dir: Path, split: str, start: int, end: int, seconds: float
) -> None:
    """Logs that a run is finished, and what to do next.

    Args:
        directory: of the model.
        data_dir: of its data.
        split: the flag of `evaluate` that names one of them; "" for test.
        start: the step at which this process began.
        end: the step now.
        seconds: from the one to the other.
    """
    model = f"--model_dir={shlex.quote(str(directory.path))}"
    is_usual = data_dir == directory.path.parent / "data"
    data = "" if is_usual else f" --data_dir={shlex.quote(str(data_dir))}"
    last = min(len(CheckpointFolder(directory.checkpoints).trained()), _PAPER_AVERAGES)
    average = f"python -m t2t_repro.average {model} --last={last}, then " if last > 1 else ""
    logging.info(
        f"train: finished step {end:,}; {end - start:,} updates took {in_words(seconds)}; "
        f"next: {average}python -m t2t_repro.evaluate {model}{data}{split}"
    )
