"""An experiment, put together: the one place where data, model, training and decoding meet.

Command lines are thin and import this module: gin registers what the module run by `python -m`
defines a second time.
"""

import copy
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from os.path import expanduser
from pathlib import Path
from typing import Annotated, Any

import gin
import keras
import tensorflow as tf

from t2t_repro.attention.pictures import attention_images  # noqa: F401 (for gin)
from t2t_repro.config.gin_files import configure
from t2t_repro.config.values import AtMost, Seed, Several, Text, validated
from t2t_repro.data import corpora  # noqa: F401 (for gin)
from t2t_repro.data.prepared import PreparedData
from t2t_repro.decoding.minimum_bayes_risk import MinimumBayesRisk  # noqa: F401 (for gin)
from t2t_repro.decoding.sampling import Sampling  # noqa: F401 (for gin)
from t2t_repro.decoding.translator import Translator  # noqa: F401 (for gin)
from t2t_repro.errors import UserError
from t2t_repro.evaluation.paper_bleu import paper_bleu  # noqa: F401 (for gin)
from t2t_repro.evaluation.scores import Metric, Score, bleu, chrf
from t2t_repro.parsing.bracket_f1 import bracket_f1, strict_bracket_f1  # noqa: F401 (for gin)
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.model_json import Precision
from t2t_repro.text.bpe_dropout import SubwordDropout  # noqa: F401 (for gin)
from t2t_repro.training.devices import choose_strategy, use_xla
from t2t_repro.training.fine_tuning import initial_model
from t2t_repro.training.guard_rails import check_writable
from t2t_repro.training.learning_rate import InverseSquareRoot, TransformerSchedule  # noqa: F401
from t2t_repro.training.model_for_data import configured_preparation, new_model
from t2t_repro.training.moving_average import MovingAverageSettings
from t2t_repro.training.optimizer import adam
from t2t_repro.training.run_state import RunState
from t2t_repro.training.train_step import StepSettings, TrainStep
from t2t_repro.training.training_run import RunSettings, TrainingRun, log_model
from t2t_repro.training.workers import Workers, find_workers

TRAINING_ROOTS = (
    "train",
    "prepare",
    "Cleaning",
    "SubwordTraining",
    "Batches",
    "Transformer",
    "LayerConfig",
    "TrainStep",
    "CrossEntropy",
    "MovingAverage",
    "Checkpoints",
    "TrainingSchedule",
    "DevEvaluation",
    "Translator",
    "BeamSearch",
    "Sampling",
    "Aligner",
    "choose_strategy",
    "use_xla",
    "evaluate",
)
"""What a run calls by itself, and `evaluate`, which reads the same file afterwards.

A list, since what a binding is for has to be known before anything is called; what these have as
values and defaults, such as a corpus or `adam`, is found from them.
"""


def configure_experiment(
    gin_file: str | Path | None, gin_params: Sequence[str], needed: Collection[str] = ()
) -> None:
    """Parses the gin file of an experiment, or bindings alone; see `configure`."""
    configure(gin_file, gin_params, TRAINING_ROOTS, needed, ["Transformer.vocab_size"])


def prepare_data(data_dir: Path) -> PreparedData:
    """Prepares the data of the experiment that is configured; see `Preparation`."""
    parent = _bound_of_train("init_from")
    return configured_preparation(parent and ModelDirectory(expanduser(parent))).run(data_dir)


def _bound_of_train(parameter: str, default: Any = None) -> Any:
    """Returns what is bound to a parameter of `train`, without making its other arguments."""
    bound = gin.get_bindings("train", resolve_references=False)
    # As gin would give it: it may be a macro.
    return copy.deepcopy(bound.get(parameter, default))


@gin.configurable(denylist=["model_dir", "data_dir"])
@validated
def train(
    model_dir: Path,
    data_dir: Path,
    seed: Seed = 1,
    precision: Precision = "float32",
    optimizer: Callable[[], keras.Optimizer] = adam,
    deterministic: bool = False,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    init_from: Text | None = None,
    init_checkpoint: Text | None = None,
) -> RunState:
    """Trains a model, preparing the data first where that has not been done.

    Of several workers, the first alone prepares data and writes.
    Goes on from the newest checkpoint of `model_dir` where there is one.

    Args:
        model_dir: see `ModelDirectory`.
        data_dir: see `Preparation`.
        seed: of initialisation, shuffling and dropout.
        precision: "float32" or "mixed_bfloat16".
        optimizer: makes the optimizer.
        deterministic: whether TensorFlow computes every sum in a fixed order (its op determinism),
            so that two runs, killed or not, have the same bits. Slower on GPUs.
        callbacks: Keras's, told what happens; see `Callbacks`.
        init_from: the model directory of a model that training starts from; see `InitialModel`.
        init_checkpoint: which checkpoint of it; see `ModelDirectory.checkpoint`.

    Returns:
        the state of the run at its end.

    Raises:
        UserError: something given cannot be used, or a gradient is not finite, or too long.
        SystemExit: a signal ended it; there is a checkpoint. 143 for SIGTERM, 130 for SIGINT.
            Or another worker was lost: 143.
    """
    directory = ModelDirectory(model_dir)
    initial = initial_model(directory, init_from, init_checkpoint)
    # A run that goes on does not need its initial model any more.
    start = (initial.directory if initial else directory) if init_from else None
    preparation = configured_preparation(start)
    workers = find_workers()
    with workers.connected():
        with workers.chief_first():
            if workers.is_chief:
                check_writable(directory.path)
        workers.check_same_run(directory)
        if init_from:
            identity = initial.identity() if initial else {}
            workers.check_same("a train.init_from with", identity)
        strategy = workers.strategy or choose_strategy()

        # The model and its update.
        keras.utils.set_random_seed(seed)
        if deterministic:
            tf.config.experimental.enable_op_determinism()
        with strategy.scope():
            model = new_model(preparation, precision, start)
            if initial:
                initial.check_fits(model)
            model.build()
            step = TrainStep(
                model, optimizer(), StepSettings(), seed, use_xla(), MovingAverageSettings()
            )
        log_model(step)
        with _alone_in(directory, workers):
            run = TrainingRun(step, directory, workers, RunSettings(), callbacks, initial)
            return run.train(preparation, data_dir)


@contextmanager
def _alone_in(directory: ModelDirectory, workers: Workers) -> Iterator[None]:
    """Holds the model directory, of several workers for all of them.

    Raises:
        UserError: on every worker, if other processes train in it.
    """
    with ExitStack() as held:
        with workers.chief_first():
            if workers.is_chief:
                held.enter_context(directory.held("trainer"))
        yield


@gin.configurable(allowlist=["metrics"])
def evaluate(
    translations: Sequence[str],
    references: Sequence[str],
    sources: Sequence[str],
    metrics: Annotated[Several[Metric], AtMost(100)] = (bleu, chrf),
) -> list[Score]:
    """Scores translations by the metrics that the experiment names.

    Raises:
        UserError: the two are not as many lines, or something else than metrics was bound.
    """
    scores = [metric(translations, references, sources) for metric in metrics]
    if not all(isinstance(score, Score) for score in scores):
        raise UserError("evaluate.metrics are not all metrics: bind (@bleu, @chrf) or the like.")
    return scores
