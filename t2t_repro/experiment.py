"""An experiment: all settings, built from gin before any work; training and evaluation with them.

Command lines import this module, since gin would register a second time what `python -m` runs.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from os.path import expanduser
from pathlib import Path

import gin
import keras
import tensorflow as tf

# What only gin files name.
from t2t_repro.config.checks import check_bound
from t2t_repro.config.gin_files import configure, value_of
from t2t_repro.config.values import Seed, validated
from t2t_repro.data import corpora  # noqa: F401
from t2t_repro.data.preparation import count_training_pairs
from t2t_repro.data.prepared import PreparedData
from t2t_repro.decoding.marian_search import MarianSearch  # noqa: F401
from t2t_repro.decoding.minimum_bayes_risk import MinimumBayesRisk  # noqa: F401
from t2t_repro.decoding.sampling import Sampling  # noqa: F401
from t2t_repro.decoding.tree_grammar import TreeGrammar  # noqa: F401
from t2t_repro.errors import UserError
from t2t_repro.evaluation.paper_bleu import paper_bleu  # noqa: F401
from t2t_repro.evaluation.scores import Metric, Score, bleu, chrf
from t2t_repro.parsing.bracket_f1 import bracket_f1, strict_bracket_f1  # noqa: F401
from t2t_repro.parsing.treebank import TreebankCorpus  # noqa: F401
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.model_json import Precision
from t2t_repro.training.devices import choose_strategy, use_xla
from t2t_repro.training.fine_tuning import initial_model
from t2t_repro.training.learning_rate import InverseSquareRoot, TransformerSchedule  # noqa: F401
from t2t_repro.training.model_for_data import (
    SizedBy,
    bind_by_size,
    configured_preparation,
    new_model,
)
from t2t_repro.training.moving_average import MovingAverageSettings
from t2t_repro.training.optimizer import adam
from t2t_repro.training.run_state import RunState
from t2t_repro.training.train_step import StepSettings, TrainStep
from t2t_repro.training.training_run import RunSettings, TrainingRun, log_model
from t2t_repro.training.workers import find_workers

CALLED = (
    "train", "prepare", "Cleaning", "SubwordTraining", "Batches", "Transformer", "LayerConfig",
    "TrainStep", "CrossEntropy", "MovingAverage", "Checkpoints", "TrainingSchedule",
    "DevEvaluation", "Translator", "BeamSearch", "Sampling", "Aligner", "choose_strategy",
    "use_xla", "evaluate",
)  # fmt: skip
"""The configurables that training, or a later evaluation, calls; gin files name all others."""


@gin.configurable("train")
@validated
@dataclass(frozen=True)
class TrainSettings:
    """Settings of training as a whole.

    Attributes:
        seed: of initialisation, shuffling and dropout.
        precision: "float32" or "mixed_bfloat16".
        optimizer: makes the optimizer.
        deterministic: whether TensorFlow computes every sum in a fixed order (its op determinism),
            so that two runs, killed or not, have the same bits. Slower on GPUs.
        callbacks: Keras's, called at the events of the run; see `Callbacks`.
        init_from: the model directory of a model that training starts from; see `InitialModel`.
        init_checkpoint: a checkpoint of it; see `ModelDirectory.checkpoint`.
        sized_by: chooses, from the number of training pairs, values for what is not bound; such as
            `small_corpus` in gin/small_corpus.py.
    """

    seed: Seed = 1
    precision: Precision = "float32"
    optimizer: Callable[[], keras.Optimizer] = adam
    deterministic: bool = False
    callbacks: Sequence[keras.callbacks.Callback] = ()
    init_from: str | None = None
    init_checkpoint: str | None = None
    sized_by: SizedBy | None = None


@dataclass(frozen=True)
class Experiment:
    """The settings of a training run, each bound by gin under its own name.

    Attributes:
        train: of training as a whole.
        step: of the update.
        average: of the moving average of the weights.
        run: of batches, checkpoints, schedule and evaluation.
    """

    train: TrainSettings = field(default_factory=TrainSettings)
    step: StepSettings = field(default_factory=StepSettings)
    average: MovingAverageSettings = field(default_factory=MovingAverageSettings)
    run: RunSettings = field(default_factory=RunSettings)


def read(
    gin_file: str | Path | None, params: Sequence[str] = (), data_dir: Path = Path()
) -> Experiment:
    """Parses the gin file of an experiment, and builds its settings.

    Args:
        gin_file: its path, or None for bindings alone.
        params: bindings on top of it, such as "train.seed = 2".
        data_dir: see `Preparation`.

    Raises:
        UserError: the file cannot be used, or a value; see `configure`.
    """
    configure_experiment(gin_file, params, CALLED, data_dir)
    return Experiment()


def configure_experiment(
    gin_file: str | Path | None,
    params: Sequence[str],
    needed: Collection[str] = (),
    data_dir: Path | None = None,
) -> None:
    """Parses the gin file of an experiment, or bindings alone.

    Args:
        gin_file: its path, or None for bindings alone.
        params: bindings on top of it.
        needed: names of the configurables that must have all that they need; see `check_bound`.
        data_dir: see `Preparation`; without it, `train.sized_by` chooses nothing.

    Raises:
        UserError: see `configure` and `check_bound`.
    """
    configure(gin_file, params, CALLED)
    # The data determine the number of rows.
    given = ["Transformer.vocab_size"]
    if data_dir and (sized_by := value_of("train", "sized_by")):
        check_bound(["prepare"], given)
        bind_by_size(sized_by, count_training_pairs(value_of("prepare", "corpus"), data_dir))
    check_bound(needed, given)


def prepare_data(data_dir: Path) -> PreparedData:
    """Prepares the data of the configured experiment; see `Preparation`."""
    initial = value_of("train", "init_from")
    return configured_preparation(initial and ModelDirectory(expanduser(initial))).run(data_dir)


def train(experiment: Experiment, model_dir: Path, data_dir: Path) -> RunState:
    """Trains a model; first prepares the data, unless they are prepared.

    The run goes on from the newest checkpoint of `model_dir`, if there is one. Only the first of
    several workers prepares data and writes.

    Args:
        experiment: see `read`.
        model_dir: see `ModelDirectory`.
        data_dir: see `Preparation`.

    Returns:
        the state of the run at its end.

    Raises:
        UserError: a setting or a file cannot be used, or a gradient is not finite.
        SystemExit: a signal ended the run, with 143 for SIGTERM, 130 for SIGINT; there is a
            checkpoint. Or another worker was lost: 143.
    """
    settings = experiment.train
    directory = ModelDirectory(model_dir)
    initial = initial_model(directory, settings.init_from, settings.init_checkpoint)
    # A run that goes on does not need its initial model any more.
    start = (initial.directory if initial else directory) if settings.init_from else None
    preparation = configured_preparation(start)
    workers = find_workers()
    with workers.connected():
        workers.check_same_run(directory)
        strategy = workers.strategy or choose_strategy()

        # The model and its update.
        keras.utils.set_random_seed(settings.seed)
        if settings.deterministic:
            tf.config.experimental.enable_op_determinism()
        with strategy.scope():
            model = new_model(preparation, settings.precision, start)
            if initial:
                initial.check_fits(model)
            model.build()
            optimizer = settings.optimizer()
            step = TrainStep(
                model, optimizer, experiment.step, settings.seed, use_xla(), experiment.average
            )
        log_model(step)
        with ExitStack() as held:
            with workers.chief_first():
                if workers.is_chief:
                    held.enter_context(directory.held("trainer"))
            run = TrainingRun(step, directory, workers, experiment.run, settings.callbacks, initial)
            return run.train(preparation, data_dir)


@gin.configurable(allowlist=["metrics"])
def evaluate(
    translations: Sequence[str],
    references: Sequence[str | Sequence[str]],
    sources: Sequence[str],
    metrics: Sequence[Metric] = (bleu, chrf),
) -> list[Score]:
    """Scores translations by the metrics of the experiment.

    Args:
        translations: N texts.
        references: N reference translations, or N tuples of several.
        sources: N source texts.
        metrics: as gin binds them.

    Raises:
        UserError: a metric cannot score them, or is not a metric.
    """
    scores = [metric(translations, references, sources) for metric in metrics]
    if not all(isinstance(score, Score) for score in scores):
        raise UserError("evaluate.metrics are not all metrics: bind (@bleu, @chrf) or the like.")
    return scores
