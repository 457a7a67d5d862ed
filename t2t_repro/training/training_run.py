"""A run of the trainer: from prepared data and an update to a trained model directory."""

import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

import keras
import tensorflow as tf
from absl import logging

from t2t_repro.config.checks import differing_values
from t2t_repro.config.gin_files import read_gin
from t2t_repro.config.gin_text import bindings_in
from t2t_repro.data.batches import Batches, EpochReport
from t2t_repro.data.prepared import PreparedData, open_data
from t2t_repro.data.stages import prepare
from t2t_repro.decoding.translator import Translator
from t2t_repro.files import write_json
from t2t_repro.model.kernels.gpu import has_gpu
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.checkpoint_folder import CheckpointFolder
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.records import differing_epoch, read_ancestry, write_ancestry
from t2t_repro.training.checkpoints import Checkpoints
from t2t_repro.training.dev_evaluation import DevEvaluation
from t2t_repro.training.fine_tuning import InitialModel, initial_model
from t2t_repro.training.metrics_log import MetricsLog
from t2t_repro.training.model_for_data import fit_to_data
from t2t_repro.training.run_state import RunState
from t2t_repro.training.settings import Configuration, Experiment
from t2t_repro.training.train_loop import TrainLoop
from t2t_repro.training.train_step import TrainStep
from t2t_repro.training.workers import Workers, choose_strategy, find_workers

_AVERAGED = 5  # Checkpoints, for the paper's base model (section 6.1).


def train(
    experiment: Experiment,
    configuration: Callable[[], Configuration],
    model_dir: Path,
    data_dir: Path,
) -> RunState:
    """Trains a model, and prepares the data if needed.

    The run goes on from the newest checkpoint of `model_dir`, if there is one. Only the first of
    several workers prepares data and writes.

    Args:
        experiment: settings of the run.
        configuration: returns the configuration in effect so far. It is called before the model is
            built, and again afterwards.
        model_dir: see `ModelDirectory`.
        data_dir: see `Preparation`.

    Returns:
        the state of the run at its end.

    Raises:
        UserError: a setting or a file cannot be used, or a gradient is not finite.
        SystemExit: a signal ended the run, with 143 for SIGTERM, 130 for SIGINT; there is a
            checkpoint. Or another worker was lost: 143.
    """
    directory = ModelDirectory(model_dir)
    initial = initial_model(directory, experiment.train)
    # A resumed run has the subwords itself: it does not need its initial model any more.
    subwords_from = initial.directory if initial else directory
    experiment = fit_to_data(experiment, subwords_from if experiment.train.init_from else None)
    workers = find_workers()
    with workers.connected(), ExitStack() as lock:
        workers.check_same_run(directory, configuration().config)
        step = make_step(experiment, initial, workers)
        with workers.chief_first():
            if workers.is_chief:
                # Held until the end of the run: `chief_first` ends before.
                lock.enter_context(directory.held("trainer"))
        run = TrainingRun(step, directory, workers, experiment, initial)
        return run.train(data_dir, configuration)


def make_step(experiment: Experiment, initial: InitialModel | None, workers: Workers) -> TrainStep:
    """Seeds the process, and makes the model and its update on the devices of all workers.

    Args:
        experiment: settings of the run.
        initial: the model that a new run starts from, if any; only its sizes are compared here.
        workers: connected.

    Raises:
        UserError: the optimizer, the frozen parts or the initial model do not fit the model.
    """
    settings, xla = experiment.train, experiment.xla
    strategy = workers.strategy or choose_strategy(experiment.devices.cpu_replicas)
    keras.utils.set_random_seed(settings.seed)
    if settings.deterministic:
        tf.config.experimental.enable_op_determinism()
    # On a CPU XLA is slower than oneDNN.
    jit_compile = has_gpu() if xla.jit_compile is None else xla.jit_compile
    with strategy.scope():
        model = Transformer(**vars(experiment.model), dtype=settings.precision)
        if initial:
            initial.check_fits(model)
        model.build()
        optimizer, decay = settings.optimizer(), experiment.average.decay
        step = TrainStep(model, optimizer, experiment.step, settings.seed, jit_compile, decay)
    _log_size(step)
    return step


def _log_size(step: TrainStep) -> None:
    """Logs how many parameters the model has, how many of them are updated, and on what."""
    replicas = step.strategy.num_replicas_in_sync
    size = f"{step.model.count_params():,} parameters; replicas: {replicas}"
    xla = "on" if step.jit_compile else "off"
    logging.info(f"train: {size}; micro-batches per batch: {step.micro_batches}; XLA: {xla}")
    if step.settings.frozen:
        updated = sum(weight.shape.num_elements() for weight in step.updated)
        frozen = ", ".join(step.settings.frozen)
        logging.info(f"train: frozen: {frozen}; {updated:,} parameters are updated")


@dataclass
class TrainingRun:
    """A run in a model directory that no other process trains in.

    Attributes:
        step: the update, with model and optimizer.
        directory: the run's model directory; only the first of several workers writes into it.
        workers: the processes that train together.
        settings: the run's settings.
        initial: the model that a new run starts from, if any.
    """

    step: TrainStep
    directory: ModelDirectory
    workers: Workers
    settings: Experiment
    initial: InitialModel | None = None

    def __post_init__(self) -> None:
        settings, is_chief = self.settings, self.workers.is_chief
        self._checkpoints = Checkpoints(self.directory, self.step, settings.checkpoints, is_chief)
        callbacks = [*settings.train.callbacks] if is_chief else []
        if callbacks:
            # Callbacks read the optimizer of a compiled model, e.g. W&B's for the learning rate.
            self.step.model.compile(self.step.optimizer)
        self._callbacks = keras.callbacks.CallbackList(
            callbacks, model=self.step.model, epochs=1, steps=settings.schedule.steps, verbose=0
        )

    def train(self, data_dir: Path, configuration: Callable[[], Configuration]) -> RunState:
        """Prepares the data, and trains from the newest checkpoint if there is one.

        Returns and raises what the function `train` does.
        """
        step, workers, schedule = self.step, self.workers, self.settings.schedule
        data, batches = self._prepare(data_dir)
        translator = Translator([step.model], data.subwords, self.settings.translator)
        evaluation = DevEvaluation(step.model, translator, data, workers, self.settings.evaluation)
        report = batches.report()
        logging.info("data: %s", report)
        full_configuration = configuration()
        state, differences = self._begin(data, report, full_configuration)
        if schedule.has_ended(state):
            batches.close()
            return state

        first_step, began = state.step, time.monotonic()
        if not schedule.is_over(state):
            # Planning takes a while: here, before the loop, a signal ends it at once.
            batches.plan(state.epoch)
            step.compile(batches.shapes)
        tensorboard = self.directory.tensorboard if workers.is_chief else None
        log = MetricsLog(tensorboard, schedule, state, self._callbacks)
        with closing(batches), log:
            if differences or not state.step:
                log.write_text("configuration", full_configuration.operative_markdown, state.step)
            loop = TrainLoop(step, batches, self._checkpoints, schedule, evaluation, workers, log)
            state = loop.run(state)
        if loop.stopped_by:
            # The status as if the signal had killed the process: schedulers start the job again.
            raise SystemExit(128 + loop.stopped_by)
        updates = state.step - first_step
        took = timedelta(seconds=round(time.monotonic() - began))
        logging.info(f"train: finished step {state.step:,}; {updates:,} updates took {took}")
        self._log_next_commands(data_dir, "" if "test" in data.splits else " --split=dev")
        return state

    def _prepare(self, data_dir: Path) -> tuple[PreparedData, Batches]:
        """Prepares the data, once for all workers, and divides them into batches."""
        step, workers, preparation = self.step, self.workers, self.settings.preparation
        with workers.chief_first():
            data = prepare(preparation, data_dir) if workers.is_chief else open_data(data_dir)
        workers.check_same("data with the checksum", data.checksum)
        # XLA needs static shapes. Dropout of attention weights draws for padding too: without
        # padding, the draws would differ.
        is_static = step.jit_compile or step.model.config.attention_dropout > 0
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
        self, data: PreparedData, report: EpochReport, configuration: Configuration
    ) -> tuple[RunState, list[str]]:
        """Restores or starts the state of the run, and writes the directory's metadata.

        Returns:
            the state, and the differences of bindings and epoch from an earlier start.
        """
        directory, workers, schedule = self.directory, self.workers, self.settings.schedule
        # Before the files of the earlier start are overwritten.
        differences = self._differences(report, configuration.config)
        with workers.chief_first():
            if workers.is_chief:
                directory.check_same_model(self.step.model, data.subwords)
            state = self._checkpoints.restore()
            # A finished run keeps its metadata: it was not trained with this configuration.
            if workers.is_chief and not schedule.has_ended(state):
                self._checkpoints.tidy()
                directory.write_metadata(
                    self.step.model, data.subwords, configuration.config, configuration.operative
                )
                write_json(directory.epoch_json, asdict(report))
        if self.initial:
            state = self._start_from(self.initial, data)
        elif workers.is_chief and not self._checkpoints.newest:
            # The run starts from new weights; a killed start may have left the file.
            directory.ancestry_json.unlink(missing_ok=True)
        workers.check_same("a --model_dir at step", state.step)
        self._log_start(state, differences)
        return state, differences

    def _differences(self, report: EpochReport, config: str) -> list[str]:
        """Returns the differences from an earlier start: of bindings, then of the epoch.

        There are none if this is the first start.
        """
        of_epoch = differing_epoch(self.directory.epoch_json, asdict(report))
        if not self.directory.config_gin.is_file():
            return of_epoch
        earlier = bindings_in(read_gin(self.directory.config_gin))
        return differing_values(earlier, bindings_in(config)) + of_epoch

    def _start_from(self, initial: InitialModel, data: PreparedData) -> RunState:
        """Starts the run from the weights of the initial model, and writes ancestry.json.

        Returns:
            the state of a new run that first scores the dev set.
        """
        ancestor = initial.copy_weights_to(self.step.model, data.subwords)
        self.step.average.restart()
        self.workers.check_same("a train.init_from with the weights", ancestor.weights_sha256)
        if self.workers.is_chief:
            older = read_ancestry(initial.directory.ancestry_json)
            write_ancestry(self.directory.ancestry_json, [ancestor, *older])
        return RunState().awaiting_evaluation()

    def _log_start(self, state: RunState, differences: Sequence[str]) -> None:
        """Logs where an earlier run goes on or has finished, and what differs from it.

        Logs nothing about a new run.
        """
        # A run that was stopped before its first update has step 0 as well, but a checkpoint.
        if not state.step and not self._checkpoints.newest:
            return
        is_over = self.settings.schedule.is_over(state)
        if is_over:
            fix = "to train longer, raise TrainingSchedule.steps or TrainingSchedule.patience"
            logging.info(f"train: finished already, after step {state.step}; {fix}")
        else:
            logging.info("train: going on after step %d", state.step)
        for difference in differences:
            logging.warning("train: now with another configuration: %s", difference)
        if is_over or differences:
            purpose = "to start from this model's weights, on the same or other data"
            binding = self.directory.init_from_binding()
            logging.info(f"train: {purpose}, give another --model_dir with {binding}")

    def _log_next_commands(self, data_dir: Path, split: str) -> None:
        """Logs the commands to use after training.

        Args:
            data_dir: the data that `evaluate` reads.
            split: the flag by which `evaluate` gets its split, such as " --split=dev"; or "".
        """
        path = self.directory.path
        model = f"--model_dir={shlex.quote(str(path))}"
        is_default = data_dir.absolute() == path.absolute().parent / "data"
        data = "" if is_default else f" --data_dir={shlex.quote(str(data_dir))}"
        last = min(len(CheckpointFolder(self.directory.checkpoints).trained_steps()), _AVERAGED)
        average = f"python -m t2t_repro.average {model} --last={last}, then " if last > 1 else ""
        logging.info(f"next: {average}python -m t2t_repro.evaluate {model}{data}{split}")
