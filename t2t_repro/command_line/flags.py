"""The flags that verbs share, and checks of them."""

import importlib.util
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags, logging

from t2t_repro.command_line.program import import_tensorflow
from t2t_repro.errors import UserError

if TYPE_CHECKING:
    from t2t_repro.decoding.translator import Translator

FLAGS = flags.FLAGS


class _Path(flags.ArgumentParser[str]):
    """A path on this machine; "~" is the home directory."""

    def parse(self, argument: str) -> str:
        # TensorFlow takes the first ones for patterns, and a path has to fit on a line of the log.
        if not argument or "://" in argument or re.search(r"[*?[\]\x00-\x1f]", argument):
            raise ValueError("expected a path on this machine, without '*', '?', '[' and ']'")
        return os.path.expanduser(argument)


def define_path(name: str, default: str | None, help_text: str, is_required: bool = False) -> None:
    """Defines a flag for a file or directory."""
    serializer = flags.ArgumentSerializer[str]()
    flags.DEFINE(_Path(), name, default, help_text, serializer=serializer, required=is_required)


def define_paths(name: str, help_text: str, is_required: bool = False) -> None:
    """Defines a flag for a file or directory that can be given several times."""
    default: list[str] | None = None if is_required else []
    serializer = flags.ArgumentSerializer[str]()
    flags.DEFINE_multi(_Path(), serializer, name, default, help_text, required=is_required)


def define_experiment() -> None:
    """Defines the flags of the verbs that read an experiment's gin file."""
    define_path("gin_file", None, "The experiment, e.g. gin/base_ende.gin.", True)
    flags.DEFINE_multi_string("gin_param", [], "A binding on top of it, e.g. 'train.seed = 2'.")
    define_path("data_dir", None, "For data; runs/<experiment>/data by default.")


def default_directory(name: str) -> Path:
    """Returns the default place of an experiment's "data" or "model"."""
    return Path("runs") / Path(FLAGS.gin_file).stem / name


def define_trained_model(is_required: bool = True) -> None:
    """Defines the flags of the verbs that use a trained model."""
    define_model_dir(is_required)
    define_loading()


def define_loading() -> None:
    """Defines the flags that say how a trained model is loaded."""
    flags.DEFINE_multi_string("gin_param", [], "A binding on top of the run's configuration.")
    define_import()
    kinds = "averaged, best, latest (by default the first that exists), or checkpoints/step-<n>."
    flags.DEFINE_string("checkpoint", None, kinds)


def define_model_dir(is_required: bool = True) -> None:
    """Defines --model_dir."""
    define_path("model_dir", None, "The model directory of a training run.", is_required)


def define_import() -> None:
    """Defines --import, for modules of the user's that a model needs."""
    flags.DEFINE_multi_string(
        "import",
        [],
        "A module of yours that the model needs; in the working directory or on PYTHONPATH.",
    )


def named_modules() -> list[str]:
    """Returns the modules that --import names; the flag's name is a word of Python's."""
    return flags.FLAGS["import"].value or []


def define_ensemble() -> None:
    """Defines --ensemble, for the verbs that can use several models."""
    define_paths(
        "ensemble",
        "The model directory of another model with the same subwords; all score together, by mean "
        "probability or as Translator.ensemble says. Can be given several times.",
    )


def define_split() -> None:
    """Defines the flags of the verbs that can translate sentence by sentence."""
    flags.DEFINE_bool("split_sentences", False, "Translate each sentence of a line by itself.")
    code = "Such as de or zh, for --split_sentences; a code unknown to sentencex is split as en."
    flags.DEFINE_string("source_language", "en", code)


def split_language() -> str | None:
    """Returns the language of --split_sentences; None without it.

    Raises:
        UserError: another flag needs whole lines.
    """
    if not FLAGS.split_sentences:
        return None
    for name in {"n_best", "prefix", "alignments"} & {*FLAGS}:
        if FLAGS[name].value != FLAGS[name].default:
            raise UserError(f"--{name} and --split_sentences: expected only one of both.")
    return FLAGS.source_language


def check_bindings() -> None:
    """Imports the modules of --import, and checks the names in --gin_param.

    Raises:
        UserError: there is no such module or name.
    """
    from t2t_repro.config.gin_files import check_before_import, import_modules
    from t2t_repro.evaluation import scores  # noqa: F401 (for gin)

    import_modules(named_modules())
    check_before_import(None, FLAGS.gin_param)


def check_experiment() -> None:
    """Checks, without TensorFlow, a gin file and the text that it names.

    Raises:
        UserError: they cannot be used.
    """
    from t2t_repro.config.checks import check_bound, configurable, reached
    from t2t_repro.config.gin_files import check_before_import, parse
    from t2t_repro.data import corpora  # noqa: F401 (for gin)
    from t2t_repro.data.preparation import Preparation, prepare_corpus
    from t2t_repro.evaluation import scores  # noqa: F401 (for gin)

    check_before_import(FLAGS.gin_file, FLAGS.gin_param)
    parse(FLAGS.gin_file, FLAGS.gin_param, skip_unknown=True)
    check_bound(["prepare"])
    is_known = all(one.is_macro or configurable(one.name) for one in reached(["prepare"]))
    if is_known and is_alone():
        prepare_corpus(Preparation().corpus, data_directory())


def is_alone() -> bool:
    """Returns whether no other process trains with this one; see `training.workers`."""
    return not os.environ.get("TF_CONFIG") and os.environ.get("SLURM_STEP_NUM_TASKS", "1") == "1"


def data_directory() -> Path:
    """Returns --data_dir, or its default."""
    return Path(FLAGS.data_dir or default_directory("data"))


def find_checkpoint(model_dir: str | None = None) -> str:
    """Finds the checkpoint of --checkpoint and logs it.

    To be called once: a running trainer may write another one a moment later.

    Args:
        model_dir: another one than --model_dir.

    Returns:
        its path, relative to the model directory.

    Raises:
        UserError: there is none.
    """
    from t2t_repro.runs.checkpoint_folder import newer_than_average
    from t2t_repro.runs.model_directory import ModelDirectory

    directory = ModelDirectory(model_dir or FLAGS.model_dir)
    checkpoint = directory.checkpoint(FLAGS.checkpoint)
    name = os.path.relpath(checkpoint, directory.path)
    logging.info("using %s of %s", name, directory.path)
    if newer := newer_than_average(directory.path, checkpoint):
        logging.warning(
            f"the average is older than {os.path.relpath(newer, directory.path)}: average again "
            f"(python -m t2t_repro.average --model_dir={shlex.quote(str(directory.path))}), or "
            "give --checkpoint=latest"
        )
    return name


def load_translator(
    checkpoint: str,
    precision: str | None = None,
    ensemble: Sequence[str] = (),
    model_dir: str | None = None,
) -> "Translator":
    """Loads the model of the flags of `define_trained_model`, to decode a batch on each core.

    Args:
        checkpoint: of `find_checkpoint`.
        precision: see `experiment.load_translator`.
        ensemble: of --ensemble, if the verb has it.
        model_dir: another one than --model_dir.
    """
    others = [(path, find_checkpoint(path)) for path in ensemble]
    path = model_dir or FLAGS.model_dir
    check_bindings()
    import_tensorflow()
    from t2t_repro.decoding import loading
    from t2t_repro.decoding.batch_plan import one_core_a_batch

    one_core_a_batch()
    translator = loading.load_translator(
        path, FLAGS.gin_param, checkpoint, precision, others, named_modules()
    )
    translator.tags.log()
    return translator


def decoding_settings(
    translator: "Translator", checkpoint: str, flag_names: Sequence[str]
) -> Mapping[str, Any]:
    """Returns all that determines a line's output, for `work_in_blocks`.

    Args:
        translator: of `load_translator`.
        checkpoint: of `find_checkpoint`.
        flag_names: the verb's own flags that matter, besides its files.
    """
    import gin

    from t2t_repro.runs.records import weights_hash
    from t2t_repro.runs.weights import name_of

    weights = ({name_of(one): one for one in model.weights} for model in translator.models)
    return {
        "--checkpoint": checkpoint,
        "the weights": list(map(weights_hash, weights)),
        "the subwords": translator.subwords.checksum(),
        "--gin_param": gin.config_str(),
        **{f"--{name}": FLAGS[name].value for name in flag_names},
    }


def check_new(flag: str, may_exist: bool = False) -> None:
    """Checks that a flag's directory can be made, and is missing or empty.

    Args:
        flag: its name.
        may_exist: whether the directory may hold something already.

    Raises:
        UserError: it is not.
    """
    path = Path(str(FLAGS[flag].value))
    if path.exists() and (not path.is_dir() or (any(path.iterdir()) and not may_exist)):
        raise UserError(f"--{flag}={path} exists, expected a new directory: give another.")
    parent = next(one for one in (path, *path.absolute().parents) if one.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise UserError(f"--{flag}={path}: {parent} cannot be written to: give another directory.")


def check_model_name() -> None:
    """Checks that --model_name can be part of a URL.

    Raises:
        UserError: it cannot.
    """
    if not re.fullmatch(r"[\w.-]+", FLAGS.model_name, re.ASCII):
        raise UserError(f"--model_name={FLAGS.model_name}: expected letters, digits, '_-.' only.")


def check_extra(extra: str, *modules: str) -> None:
    """Checks that the modules of one of setup.py's extras are installed.

    Raises:
        UserError: one of them is missing.
    """
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise UserError(f"{module} is not installed: pip install '.[{extra}]' in the checkout.")
