"""What a run leaves behind about its cost and quality, for the report on many runs."""

import statistics
from pathlib import Path
from typing import Any, NamedTuple

from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
from tensorflow import make_ndarray

from t2t_repro.analysis.model_shape import ModelShape
from t2t_repro.analysis.operations import training_operations
from t2t_repro.analysis.parameter_count import parameter_count
from t2t_repro.errors import UserError
from t2t_repro.evaluation.scores import Score
from t2t_repro.files import read_json
from t2t_repro.runs.checkpoint_folder import CheckpointFolder
from t2t_repro.runs.model_directory import ModelDirectory

_SPEED = "train/real_tokens_per_second"


class Evaluation(NamedTuple):
    """What `evaluate` found of a split.

    Attributes:
        checkpoint: which one, relative to the model directory, e.g. "averaged/step-100000".
        perplexity: per subword.
        scores: of every metric, in the experiment's order.
        search: that found the translations, see `decoding.search.described`; empty in evaluations
            of before that was written down.
    """

    checkpoint: str
    perplexity: float
    scores: list[Score]
    search: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Returns what `write_scores` writes."""
        return self._asdict() | {"scores": [score.as_dict() for score in self.scores]}

    def score(self, name: str) -> Score | None:
        """Returns the score of a name, or None."""
        return next((score for score in self.scores if score.name == name), None)


class Run(NamedTuple):
    """A training run, as far as it has got.

    Attributes:
        steps: updates so far.
        parameters: of the model.
        operations: of training so far, forward and backward, without padding.
        tokens_per_second: median over the run, real source and target tokens; None before the
            first report.
        dev: the last evaluation of the dev split, or None.
        test: likewise of the test split.
    """

    steps: int
    parameters: int
    operations: float
    tokens_per_second: float | None
    dev: Evaluation | None
    test: Evaluation | None


def read_run(model_dir: Path) -> Run | None:
    """Reads what a run has left behind; None where it has not begun.

    Raises:
        UserError: a file is damaged, or from before there were such files.
    """
    directory = ModelDirectory(model_dir)
    checkpoints = CheckpointFolder(directory.checkpoints).steps()
    if not checkpoints:
        return None
    steps = checkpoints[-1]
    epoch = _read(directory.epoch_json)
    try:
        shape = ModelShape.of(_read(directory.model_json))
        epochs = steps / epoch["batches"]
        length = epoch["target_tokens"] / epoch["sentences"]
        operations = training_operations(
            shape, epochs * epoch["source_tokens"], epochs * epoch["target_tokens"], length
        )
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise UserError(
            f"{directory.model_json} and {directory.epoch_json} do not describe a run ({error}): "
            "start the trainer again with the run's own command."
        ) from error
    speed = _median_speed(directory.tensorboard)
    evaluations = read_evaluations(model_dir)
    dev, test = evaluations.get("dev"), evaluations.get("test")
    return Run(steps, parameter_count(shape), operations, speed, dev, test)


def read_evaluations(model_dir: Path) -> dict[str, Evaluation]:
    """Reads the last evaluation of every split that has one, by the split's name.

    Raises:
        UserError: a file is damaged.
    """
    paths = sorted(ModelDirectory(model_dir).scores.glob("*.json"))
    return {path.stem: _read_evaluation(path) for path in paths}


def _read_evaluation(path: Path) -> Evaluation:
    found = _read(path)
    try:
        scores = [Score(**score) for score in found["scores"]]
        search = str(found.get("search", ""))
        return Evaluation(str(found["checkpoint"]), float(found["perplexity"]), scores, search)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise UserError(f"{path} holds no evaluation ({error}): run evaluate again.") from error


def _median_speed(tensorboard: Path) -> float | None:
    """Returns the median of the logged speeds: a pause does not count as slow training."""
    events = EventAccumulator(str(tensorboard), size_guidance={"tensors": 0}).Reload()
    if _SPEED not in events.Tags()["tensors"]:
        return None
    return statistics.median(float(make_ndarray(e.tensor_proto)) for e in events.Tensors(_SPEED))


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(read_json(path))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"{path} cannot be read ({error.__class__.__name__}), expected what trainer and "
            "evaluate write there: start the trainer again with the run's own command."
        ) from error
