"""All settings of training that gin binds. This module imports neither TensorFlow nor Keras."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, Protocol

from t2t_repro.config import values
from t2t_repro.config.values import Count, Positive, Precision, Range, Rate, Seed, configurable
from t2t_repro.data.batch_shapes import BatchSettings
from t2t_repro.data.preparation import Preparation
from t2t_repro.data.prepared import PreparedData
from t2t_repro.decoding.settings import TranslatorSettings
from t2t_repro.evaluation.scores import EvaluationSettings, Metric, bleu
from t2t_repro.model.loss import CrossEntropy
from t2t_repro.model.settings import TransformerSettings
from t2t_repro.training.run_state import Images
from t2t_repro.training.schedule import TrainingSchedule

SizedBy = Callable[[int], Mapping[str, Any]]
"""From the number of training pairs to bindings, such as `small_corpus` in gin/small_corpus.py."""


class LearningRateSchedule(Protocol):
    """A `keras.optimizers.schedules.LearningRateSchedule`.

    `get_config` stands for all of it: annotations are compared by public names, not by `__call__`.
    """

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""


class Callback(Protocol):
    """A `keras.callbacks.Callback`."""

    def set_model(self, model: Any) -> None:
        """Gives the callback the model, before training."""


@configurable("TransformerSchedule")
def transformer_schedule(
    d_model: Count, warmup_steps: Count = 4000, constant: Positive = 1.0
) -> LearningRateSchedule:
    """Makes the paper's schedule (see `learning_rate.TransformerSchedule`)."""
    from t2t_repro.training.learning_rate import TransformerSchedule  # Imports Keras.

    return TransformerSchedule(d_model, warmup_steps, constant)


@configurable("InverseSquareRoot")
def inverse_square_root(peak: Positive, warmup_steps: Count = 4000) -> LearningRateSchedule:
    """Makes the schedule with a given peak (see `learning_rate.InverseSquareRoot`)."""
    from t2t_repro.training.learning_rate import InverseSquareRoot  # Imports Keras.

    return InverseSquareRoot(peak, warmup_steps)


@configurable()
def adam(
    learning_rate: Positive | LearningRateSchedule = values.REQUIRED,
    beta_1: Rate = 0.9,
    beta_2: Rate = 0.98,
    epsilon: Positive = 1e-9,
    clip_norm: Positive | None = None,
) -> Any:
    """Builds Adam with the paper's β1 = 0.9, β2 = 0.98 and ε = 1e-9.

    m ← β1 m + (1 - β1) g,  v ← β2 v + (1 - β2) g²,
    θ ← θ - rate · sqrt(1 - β2^t) / (1 - β1^t) · m / (sqrt(v) + ε)

    Args:
        learning_rate: a schedule, or a constant rate.
        beta_1: the decay of the mean of the gradients.
        beta_2: the decay of the mean of their squares.
        epsilon: added to the root of that mean.
        clip_norm: the largest global norm of the gradient, or None for no limit.

    Returns:
        a Keras optimizer, without variables yet.
    """
    from t2t_repro.training.optimizer import Adam  # Imports Keras.

    # Keras refuses an int.
    rate = float(learning_rate) if isinstance(learning_rate, int) else learning_rate
    return Adam(rate, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon, global_clipnorm=clip_norm)


@configurable("TrainStep")
@dataclass(frozen=True)
class StepSettings:
    """Settings of the update.

    Attributes:
        loss: computes the loss of the decoder's vectors; the paper's by default.
        micro_batches: how many micro-batches a global batch is cut into, at least; rounded up to a
            multiple of the number of replicas.
        frozen: names of the model's parts that the update does not change; see `updated_weights`.
    """

    loss: CrossEntropy = field(default_factory=CrossEntropy)
    micro_batches: Count = 1
    frozen: Sequence[str] = ()


@configurable("MovingAverage")
@dataclass(frozen=True)
class MovingAverageSettings:
    """Settings of the moving average.

    Attributes:
        decay: such as 0.9999; None for no average, as in the paper.
    """

    decay: Annotated[float, Range(above=0, below=1)] | None = None


@configurable("Checkpoints")
@dataclass(frozen=True)
class CheckpointSettings:
    """Settings of the checkpoints.

    Attributes:
        every_steps: updates from one checkpoint to the next.
        keep: how many are kept; averaging needs as many (paper, section 6.1: 5 and 20).
    """

    every_steps: Count = 1000
    keep: Count = 20


@configurable("DevEvaluation")
@dataclass(frozen=True)
class DevEvaluationSettings:
    """Settings of the dev evaluation.

    `TrainingSchedule.evaluate_every` says how often it takes place.

    Attributes:
        metric: a function of translations, references and sources.
        sentences: how many of the first dev sentences are translated, of a mixture those of every
            corpus; all by default.
        images: (model, data) -> a function that draws images for TensorBoard, which is called at
            every evaluation; such as `attention_images` in gin/attention_images.py.
    """

    metric: Metric = bleu
    sentences: Count | None = None
    images: Callable[[Any, PreparedData], Callable[[], Images]] | None = None


@configurable("choose_strategy")
@dataclass(frozen=True)
class DeviceSettings:
    """Settings of the devices of a single worker (see `choose_strategy`).

    Attributes:
        cpu_replicas: number of logical devices that a CPU is split into.
    """

    cpu_replicas: Annotated[int, Range(least=1, most=256)] = 1


@configurable("use_xla")
@dataclass(frozen=True)
class XlaSettings:
    """Settings of XLA.

    Attributes:
        jit_compile: whether XLA compiles the forward and backward pass; None means on GPUs only.
    """

    jit_compile: bool | None = None


@configurable("train")
@dataclass(frozen=True)
class TrainSettings:
    """Settings of training as a whole.

    Attributes:
        seed: seed of initialisation, shuffling and dropout.
        precision: "float32" or "mixed_bfloat16".
        optimizer: makes the Keras optimizer.
        deterministic: whether TensorFlow computes every sum in a fixed order (its op determinism),
            so that two runs, killed or not, have the same bits. Slower on GPUs.
        callbacks: Keras's, called at the events of the run; see `MetricsLog`.
        init_from: the model directory of a model that training starts from; see `InitialModel`.
        init_checkpoint: a checkpoint of it; see `ModelDirectory.checkpoint`.
        sized_by: chooses, from the number of training pairs, values for what is not bound; such as
            `small_corpus` in gin/small_corpus.py.
    """

    seed: Seed = 1
    precision: Precision = "float32"
    optimizer: Callable[[], Any] = adam
    deterministic: bool = False
    callbacks: Sequence[Callback] = ()
    init_from: str | None = None
    init_checkpoint: str | None = None
    sized_by: SizedBy | None = None


class Configuration(NamedTuple):
    """The bindings of gin, as texts.

    Attributes:
        config: the bindings.
        operative: the values in effect, defaults included, of all that has been built so far.
        operative_markdown: the same as Markdown.
    """

    config: str
    operative: str
    operative_markdown: str


@dataclass(frozen=True)
class Experiment:
    """The settings of a training run, each bound by gin under its own name.

    Attributes:
        preparation: settings of the data preparation.
        model: sizes of the Transformer.
        train: settings of training as a whole.
        step: settings of the update.
        average: settings of the moving average of the weights.
        schedule: when the run logs, evaluates and ends.
        batches: settings of the training set's batches.
        checkpoints: how often they are written, and how many are kept.
        evaluation: settings of the dev evaluation.
        translator: settings of the translations of the dev evaluation.
        devices: settings of the devices of a single worker.
        xla: settings of XLA, for the forward and backward pass.
        scores: settings of the command `evaluate`.
    """

    preparation: Preparation = field(default_factory=Preparation)
    model: TransformerSettings = field(default_factory=TransformerSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    step: StepSettings = field(default_factory=StepSettings)
    average: MovingAverageSettings = field(default_factory=MovingAverageSettings)
    schedule: TrainingSchedule = field(default_factory=TrainingSchedule)
    batches: BatchSettings = field(default_factory=BatchSettings)
    checkpoints: CheckpointSettings = field(default_factory=CheckpointSettings)
    evaluation: DevEvaluationSettings = field(default_factory=DevEvaluationSettings)
    translator: TranslatorSettings = field(default_factory=TranslatorSettings)
    devices: DeviceSettings = field(default_factory=DeviceSettings)
    xla: XlaSettings = field(default_factory=XlaSettings)
    scores: EvaluationSettings = field(default_factory=EvaluationSettings)
