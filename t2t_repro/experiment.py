"""An experiment: reads its gin file once, and builds all settings before any work.

Nothing here imports TensorFlow, so that a mistake in a gin file is reported within a second. Only
commands call this module: what is below them is given settings, and does not ask gin.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import gin
from absl import logging

from t2t_repro.config import gin_files
from t2t_repro.config.checks import check_bound
from t2t_repro.config.values import short
from t2t_repro.data import corpora
from t2t_repro.data.preparation import Preparation
from t2t_repro.data.stages import count_training_pairs
from t2t_repro.decoding import settings as decoding
from t2t_repro.evaluation import paper_bleu, scores
from t2t_repro.evaluation.scores import EvaluationSettings
from t2t_repro.parsing import bracket_f1, treebank
from t2t_repro.text.training import SubwordTraining
from t2t_repro.training.settings import Configuration, Experiment

# Modules with corpora, searches and metrics: imported so that gin knows their names.
NAMED_BY_GIN_FILES = (corpora, treebank, decoding, scores, paper_bleu, bracket_f1)

# The configurables that score translations.
EVALUATION = (EvaluationSettings, *scores.METRICS, paper_bleu.paper_bleu, *bracket_f1.METRICS)

_FEW_PAIRS = 10_000

# The configurables that `read`, or a later export, builds; gin files name all others.
_SETTINGS = (Experiment, SubwordTraining, decoding.Sampling)


def read(
    gin_file: str | Path | None,
    params: Sequence[str] = (),
    data_dir: Path = Path(),
    needed: Collection[Callable[..., Any]] = (),
) -> Experiment:
    """Reads and checks an experiment's gin file, and builds its settings.

    First, `configure` reads the file. Then `train.sized_by`, if it is bound, chooses values by the
    number of training pairs: for that, the corpus is downloaded and cleaned, unless there are
    prepared data. Missing bindings are reported next. Finally, constructors refuse values that do
    not fit together.

    Args:
        gin_file: its path, or None for bindings alone.
        params: bindings on top of it, such as "train.seed = 2".
        data_dir: see `Preparation`.
        needed: the configurables whose missing bindings are errors; by default all that training
            and a later export build.

    Raises:
        UserError: the file, a name or a value in it cannot be used, a binding is not used, or
            something is not bound.
    """
    bindings = configure(gin_file, params)
    if sized_by := gin_files.value_of("train", "sized_by"):
        check_bound(bindings, [Preparation])
        pairs = count_training_pairs(Preparation(), data_dir)
        _bind_by_size(sized_by(pairs), bindings, pairs)
    check_bound(bindings, needed or _SETTINGS)
    # gin gives the constructors their arguments.
    return Experiment()


def configure(gin_file: str | Path | None, params: Sequence[str] = ()) -> dict[str, Any]:
    """Gives a gin file's bindings to gin, and returns them by name (see `gin_files.configure`)."""
    return gin_files.configure(gin_file, params, _SETTINGS)


def configuration() -> Configuration:
    """Returns gin's bindings as texts: as read; as used, with defaults; the latter in Markdown."""
    operative = gin.operative_config_str()
    return Configuration(gin.config_str(), operative, gin.config.markdown(operative))


def _bind_by_size(chosen: Mapping[str, Any], bindings: dict[str, Any], pairs: int) -> None:
    """Binds the parameters that depend on the number of training pairs.

    Parameters that are bound stay as they are. Logs a warning if there are few pairs.

    Args:
        chosen: the values for this number of pairs, by the parameter's name.
        bindings: the bindings so far, by name; the values are added to them.
        pairs: the number of training pairs, after cleaning.
    """
    added = {name: value for name, value in chosen.items() if name not in bindings}
    for name, value in added.items():
        gin.bind_parameter(name, value)
    bindings |= added
    listed = ", ".join(f"{name} = {short(value)}" for name, value in added.items())
    logging.info("%s pairs after cleaning decide what is not bound: %s", f"{pairs:,}", listed)
    if pairs < _FEW_PAIRS:
        advice = "fine-tune a model that was trained on more text, see docs/fine_tuning.md"
        logging.warning(f"{pairs:,} pairs are few: {advice}")
