"""The flags of the verbs that use a trained model, and the model that they say."""

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags, logging

from t2t_repro.command_line.path_flags import define_path, define_paths
from t2t_repro.command_line.quiet_start import import_tensorflow

if TYPE_CHECKING:
    from t2t_repro.decoding.translator import Translator


def define_trained_model(is_required: bool = True) -> None:
    """Defines the flags of the verbs that use a trained model; evaluate can do without one."""
    define_model_dir(is_required)
    flags.DEFINE_multi_string("gin_param", [], "A binding on top of the run's configuration.")
    define_allow_import()
    flags.DEFINE_string(
        "checkpoint",
        None,
        "averaged, best, latest or checkpoints/step-<n>; by default the first there is of "
        "averaged, best, latest.",
    )


def define_model_dir(is_required: bool = True) -> None:
    """Defines --model_dir."""
    define_path("model_dir", None, "The model directory of a training run.", is_required)


def define_allow_import() -> None:
    """Defines --allow_import, for what a model directory's configuration would run."""
    flags.DEFINE_multi_string(
        "allow_import",
        [],
        "A module of yours that the model was trained with and may run; to be given once for a "
        "model directory, unless you have trained it yourself.",
    )


def define_ensemble() -> None:
    """Defines --ensemble, for the verbs that can use several models."""
    define_paths(
        "ensemble",
        "The model directory of another model with the same subwords, which translates with it: "
        "probabilities are the mean of all. Can be given several times.",
    )


def find_checkpoint(model_dir: str | None = None) -> str:
    """Finds the checkpoint that the flags of `define_trained_model` say, and says which it is.

    To be asked once: a trainer at work may have written the next one a moment later.

    Args:
        model_dir: another one than that of --model_dir.

    Returns:
        its path, relative to the model directory.

    Raises:
        UserError: there is none.
    """
    import_tensorflow()
    from t2t_repro.runs.model_directory import ModelDirectory

    model_dir = model_dir or flags.FLAGS.model_dir
    directory = ModelDirectory(model_dir)
    checkpoint = directory.checkpoint(flags.FLAGS.checkpoint)
    name = os.path.relpath(checkpoint, directory.path)
    logging.info("using %s of %s", name, directory.path)
    if newer := directory.choice.newer_than_average(checkpoint):
        logging.warning(
            f"that average is older than {os.path.relpath(newer, directory.path)}: average again "
            f"(python -m t2t_repro.average --model_dir={shlex.quote(model_dir)}), or "
            "give --checkpoint=latest"
        )
    return name


def load_translator(
    checkpoint: str, precision: str | None = None, ensemble: Sequence[str] = ()
) -> "Translator":
    """Loads a checkpoint as the flags of `define_trained_model` say, to decode a batch a core.

    See `experiment.load_translator`.

    Args:
        checkpoint: what `find_checkpoint` found.
        precision: see `ModelDirectory.new_model`.
        ensemble: what --ensemble gave, where the verb has it.
    """
    import_tensorflow()
    from t2t_repro import experiment
    from t2t_repro.decoding.batch_plan import one_core_a_batch

    one_core_a_batch()
    given = flags.FLAGS
    others = [(path, find_checkpoint(path)) for path in ensemble]
    return experiment.load_translator(
        given.model_dir, given.gin_param, checkpoint, precision, given.allow_import, others
    )
