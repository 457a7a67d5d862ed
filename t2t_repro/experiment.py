"""An experiment, put together: the one place where data, model, training and decoding meet.

Command lines are thin and import this module: gin registers what the module run by `python -m`
defines a second time.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gin
import keras
import tensorflow as tf
from absl import logging

from t2t_repro.analysis.attention_maps import PairAttention
from t2t_repro.analysis.attention_plots import check_matplotlib, overview
from t2t_repro.analysis.run_record import record_epoch
from t2t_repro.configuration import configure
from t2t_repro.data import (  # noqa: F401 (for gin)
    generated,
    multi30k,
    text_files,
    tfds_corpus,
    treebank,
)
from t2t_repro.data.batches import Batches
from t2t_repro.data.prepared import SUBWORDS, PreparedData, open_data, prepare
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.evaluation.bracket_f1 import bracket_f1, strict_bracket_f1  # noqa: F401 (for gin)
from t2t_repro.evaluation.paper_bleu import paper_bleu  # noqa: F401 (for gin)
from t2t_repro.evaluation.perplexity import HeldOutLoss
from t2t_repro.evaluation.scores import Score, bleu, chrf
from t2t_repro.models.transformer import Transformer
from t2t_repro.strangers.bindings import check_harmless
from t2t_repro.training.checkpoints import Checkpoints, RunState
from t2t_repro.training.devices import choose_strategy, use_xla
from t2t_repro.training.guard_rails import check_disk, check_gpus, check_memory, check_writable
from t2t_repro.training.journal import Journal
from t2t_repro.training.learning_rate import InverseSquareRoot, TransformerSchedule  # noqa: F401
from t2t_repro.training.model_directory import CONFIG, PRECISIONS, ModelDirectory, load_weights
from t2t_repro.training.optimizer import adam
from t2t_repro.training.replay import read_batch, replay
from t2t_repro.training.train_loop import DevScores, Pace, TrainLoop
from t2t_repro.training.train_step import TrainStep
from t2t_repro.training.workers import Workers, quiet_unless_chief

Metric = Callable[[Sequence[str], Sequence[str]], Score]
"""(translations, references) -> score."""

_SAMPLES = 5

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
    "Checkpoints",
    "Pace",
    "DevEvaluation",
    "Translator",
    "BeamSearch",
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
    configure(gin_file, gin_params, TRAINING_ROOTS, needed)


def prepare_data(data_dir: Path) -> PreparedData:
    """Prepares the data of the experiment that is configured; see `prepare`."""
    return prepare(data_dir)


def default_directory(gin_file: str | Path, name: str) -> Path:
    """Where an experiment keeps its "data" or "model" unless told otherwise."""
    return Path("runs") / Path(gin_file).stem / name


@gin.configurable(denylist=["model", "data", "workers"])
class DevEvaluation:
    """Scores the dev set: nll by teacher forcing, a metric (BLEU) by beam search.

    Of several workers each takes every so-manieth sentence and batch.

    Args:
        model: the Transformer.
        data: its dev split is read.
        workers: that share the dev set.
        metric: of translations and references.
        sentences: how many of the first dev sentences are translated; all by default.
        attention_sentence: which dev sentence has its attention maps drawn at every evaluation, 1
            the first, with its reference as the target; none by default. matplotlib draws them.

    Raises:
        UserError: the attention maps cannot be drawn.
    """

    def __init__(
        self,
        model: Transformer,
        data: PreparedData,
        workers: Workers,
        metric: Metric = bleu,
        sentences: int | None = None,
        attention_sentence: int | None = None,
    ) -> None:
        source, target = data.text("dev")
        self._attention: PairAttention | None = None
        if attention_sentence is not None:
            check_matplotlib()
            pair = _nth_pair(source, target, attention_sentence)
            try:
                self._attention = PairAttention(model, data.subwords, *pair)
            except UserError as error:
                raise UserError(
                    f"DevEvaluation.attention_sentence is {attention_sentence}: {error}"
                ) from error
        self._source, self._target = source[:sentences], target[:sentences]
        self._metric = metric
        self._workers = workers
        self._loss = HeldOutLoss(model, data.store("dev"))
        self._translator = Translator(model, data.subwords)

    def share(self) -> Any:
        """Translations, nll in nats, and target tokens, of this worker's share."""
        first, every = self._workers.index, self._workers.count
        found = self._translator.translate(self._source[first::every])
        return [[best[0].text for best in found], *self._loss.sums(first, every)]

    def scores(self, shares: list[Any]) -> DevScores:
        """Scores the shares of all workers."""
        texts = [""] * len(self._source)
        for worker, (found, *_) in enumerate(shares):
            texts[worker :: len(shares)] = found
        nll, tokens = (sum(share[i] for share in shares) for i in (1, 2))
        rows = zip(self._source[:_SAMPLES], texts, self._target, strict=False)
        table = ["| source | translation | reference |", "|---|---|---|"]
        table += [f"| {' | '.join(cell.replace('|', '¦') for cell in row)} |" for row in rows]
        score = self._metric(texts, self._target)
        maps = self._attention.maps() if self._attention and self._workers.is_chief else []
        images = [(f"attention/{attention.kind}", overview(attention)) for attention in maps]
        return DevScores(nll / tokens, score.value, "\n".join(table), score.name, images)


def _nth_pair(source: Sequence[str], target: Sequence[str], number: int) -> tuple[str, str]:
    if not 1 <= number <= len(source):
        raise UserError(
            f"DevEvaluation.attention_sentence is {number}, expected 1 ... {len(source)}, one of "
            "the dev sentences."
        )
    return source[number - 1], target[number - 1]


@gin.configurable(denylist=["model_dir", "data_dir"])
def train(
    model_dir: Path,
    data_dir: Path,
    seed: int = 1,
    precision: str = "float32",
    optimizer: Callable[[], keras.Optimizer] = adam,
    deterministic: bool = False,
) -> RunState:
    """Trains a model, preparing the data first where that has not been done.

    Of several workers, the first alone prepares data and writes.
    Starts from the newest checkpoint of `model_dir` where there is one.

    Args:
        model_dir: see `ModelDirectory`.
        data_dir: see `prepare`.
        seed: of initialisation, shuffling and dropout.
        precision: "float32" or "mixed_bfloat16".
        optimizer: makes the optimizer.
        deterministic: whether TensorFlow computes every sum in a fixed order (its op determinism),
            so that two runs, killed or not, have the same bits. Slower on GPUs.

    Returns:
        the state of the run at its end.

    Raises:
        UserError: something given cannot be used, or the loss stopped being finite.
        SystemExit: a signal ended it; there is a checkpoint. 143 for SIGTERM, 130 for SIGINT.
        OpError: of TensorFlow, where another worker was lost; see `end_with_the_others`.
    """
    _check_precision(precision)
    check_gpus()
    with _user_errors():
        strategy = choose_strategy()
    workers = Workers(strategy)
    quiet_unless_chief(workers)
    with workers.chief_first():
        if workers.is_chief:
            check_writable(model_dir)
    keras.utils.set_random_seed(seed)
    if deterministic:
        tf.config.experimental.enable_op_determinism()
    with _user_errors(), strategy.scope():
        model = Transformer(dtype=precision)  # type: ignore[call-arg]  # gin gives the rest
        model.build()
        update = optimizer()
        update.build(model.trainable_variables)
        step = TrainStep(model, update, seed, use_xla())
    with _user_errors():
        # Outside the scope: the state is text, which TensorFlow cannot send to other workers.
        checkpoints = Checkpoints(model_dir, model, update, is_writer=workers.is_chief)
        pace = Pace()
    logging.info(
        "train: %s parameters, %d replicas, %d slices a batch, XLA %s",
        f"{model.count_params():,}",
        strategy.num_replicas_in_sync,
        step.slices,
        "on" if step.jit_compile else "off",
    )
    with workers.chief_first():
        data = prepare_data(data_dir) if workers.is_chief else open_data(data_dir)
    if data.subwords.size > model.vocab_size:
        raise UserError(
            f"Transformer.vocab_size is {model.vocab_size}, but the subword model has "
            f"{data.subwords.size} entries: bind at least as many rows."
        )
    with _user_errors():
        batches = Batches(data.store("train"), data.max_length, seed, step.jit_compile)
        evaluation = DevEvaluation(model, data, workers)
    logging.info("data: %s", batches.report())
    config, operative = gin.config_str(), gin.operative_config_str()
    workers.check_same("the configuration", config.splitlines())
    check_memory(model, batches.shapes, step.slices, len(workers.replicas))
    directory = ModelDirectory(model_dir)
    differing = directory.differing_bindings(config)
    with workers.chief_first():
        if workers.is_chief:
            check_disk(model_dir, model, update, checkpoints.keep)
            directory.describe(model, data.directory / SUBWORDS, config, operative)
            record_epoch(model_dir, batches.report())
        state = checkpoints.restore()
    there = {CONFIG: (model_dir / CONFIG).is_file(), "step": state.step}
    workers.check_same("a model directory that holds", there)
    if state.step:
        logging.info("train: going on after step %d", state.step)
        for difference in differing:
            logging.warning("train: going on with another configuration: %s", difference)
    loop = TrainLoop(step, batches, checkpoints, pace, evaluation, workers)
    loop.compile()
    tensorboard = model_dir / "tensorboard" if workers.is_chief else None
    with Journal(
        tensorboard, pace.steps, state.step, pace.report_every, state.awaits_evaluation
    ) as journal:
        if differing or not state.step:
            journal.text("configuration", gin.config.markdown(operative), state.step)
        state = loop.run(state, journal)
    if loop.stopped_by:
        # As if the signal had ended the process: schedulers start such a job again.
        raise SystemExit(128 + loop.stopped_by)
    return state


def replay_batch(file: Path) -> None:
    """Prints what a batch that gave no finite loss does; see `replay`.

    Args:
        file: that the trainer wrote, model_dir/nonfinite/step-<n>.npz.

    Raises:
        UserError: it is no such file.
    """
    directory = ModelDirectory(file.resolve().parent.parent)
    batch = read_batch(file)
    model = directory.new_model()
    if max(batch.source.max(), batch.target.max()) >= model.vocab_size:
        raise UserError(f"--replay={file} holds ids that are not the model's: give its own file.")
    load_weights(model, str(file.with_suffix("")))
    _configure_as_trained(directory, [])
    with _user_errors():
        seed = gin.get_bindings("train").get("seed", 1)
        optimizer = keras.optimizers.SGD(0.0)
        step = TrainStep(model, optimizer, seed, slices=len(batch.source))
    print("\n".join(replay(step, batch)))


@gin.configurable(allowlist=["metrics"])
def evaluate(
    translations: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[Metric] = (bleu, chrf),
) -> list[Score]:
    """Scores translations by the metrics that the experiment names.

    Raises:
        UserError: the two are not as many lines, or something else than metrics was bound.
    """
    mend = "bind (@bleu, @chrf) or the like."
    if not isinstance(metrics, (list, tuple)) or not all(map(callable, metrics)):
        raise UserError(f"evaluate.metrics is {metrics!r}, expected a list of metrics: {mend}")
    scores = [metric(translations, references) for metric in metrics]
    if not all(isinstance(score, Score) for score in scores):
        raise UserError(f"evaluate.metrics are not all metrics: {mend}")
    return scores


def load_translator(
    model_dir: Path,
    gin_params: Sequence[str],
    checkpoint: str | None,
    precision: str | None = None,
) -> Translator:
    """Loads a trained model for translation, with the configuration it was trained with.

    Args:
        model_dir: of the training run.
        gin_params: bindings on top of it, e.g. "BeamSearch.beam_size = 1".
        checkpoint: see `ModelDirectory.checkpoint`.
        precision: see `ModelDirectory.new_model`.

    Raises:
        UserError: something is missing or cannot be used.
    """
    directory = ModelDirectory(model_dir)
    subwords = directory.subwords()
    _configure_as_trained(directory, gin_params)
    with _user_errors():
        return Translator(directory.load_model(checkpoint, precision), subwords)


def _configure_as_trained(directory: ModelDirectory, gin_params: Sequence[str]) -> None:
    """Parses what a model directory, perhaps a stranger's, says, and bindings on top of it."""
    path = directory.path / CONFIG
    check_harmless(path, gin_params)
    # Included: the run may have bound, in a file that it included, what it made no use of.
    configure_experiment(None, [f"include {str(path)!r}", *gin_params])


def _check_precision(precision: str) -> None:
    if precision not in PRECISIONS:
        raise UserError(
            f"train.precision is {precision!r}, expected {' or '.join(map(repr, PRECISIONS))}."
        )


@contextmanager
def _user_errors() -> Iterator[None]:
    """Does nothing; to be deleted with its last use."""
    yield
