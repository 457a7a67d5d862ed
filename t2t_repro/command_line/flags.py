"""The flags that commands share, and checks of them."""

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags, logging

from t2t_repro.command_line.program import import_tensorflow
from t2t_repro.config.gin_files import value_of
from t2t_repro.errors import UserError, require_installed

if TYPE_CHECKING:
    from t2t_repro.decoding.translator import Translator

FLAGS = flags.FLAGS


class _Path(flags.ArgumentParser[str]):
    """A path on this machine; "~" is the home directory."""

    def parse(self, argument: str) -> str:
        """Returns the path, with "~" expanded.

        Raises:
            ValueError: the path is empty, a URL, or has pattern or control characters. absl
                reports it as a mistake in the flag.
        """
        # TensorFlow reads "*", "?" and "[" as a pattern. Control characters would break log lines.
        if not argument or "://" in argument or re.search(r"[*?[\]\x00-\x1f]", argument):
            raise ValueError("expected a path on this machine, without *?[] and control characters")
        # Not pathlib, which would raise for "~nobody", and drop a final "/".
        return os.path.expanduser(argument)


def define_path(name: str, help_text: str, is_required: bool = False) -> None:
    """Defines a flag for a file or directory."""
    flags.DEFINE(_Path(), name, None, help_text, required=is_required)


def define_paths(name: str, help_text: str) -> None:
    """Defines a path flag that can be given several times."""
    flags.DEFINE_multi(_Path(), flags.ArgumentSerializer[str](), name, [], help_text)


def define_experiment() -> None:
    """Defines the flags of the commands that read an experiment's gin file."""
    define_path("gin_file", "The experiment, e.g. gin/base_ende.gin.", is_required=True)
    flags.DEFINE_multi_string("gin_param", [], "A binding on top of it, e.g. 'train.seed = 2'.")
    define_path("data_dir", "For data; runs/<experiment>/data by default.")


def run_directory(name: str) -> Path:
    """Returns the path of --data_dir or --model_dir; `name` is "data_dir" or "model_dir".

    The default is runs/<experiment>/data or runs/<experiment>/model, as in runs/base_ende/data.
    """
    experiment = Path(FLAGS.gin_file).stem
    return Path(FLAGS[name].value or f"runs/{experiment}/{name.removesuffix('_dir')}")


def define_model(help_text: str) -> None:
    """Defines the flags of commands that import a model which may be on the hub.

    `help_text` is that of --model.
    """
    flags.DEFINE_string("model", None, help_text, required=True)
    define_path("model_dir", "The directory to make.", is_required=True)
    flags.DEFINE_string("revision", None, "Branch, tag or commit of the model on the hub.")


def define_trained_model(is_required: bool = True) -> None:
    """Defines the flags of the commands that use a trained model."""
    define_path("model_dir", "The model directory of a training run.", is_required)
    define_loading()


def define_loading() -> None:
    """Defines the flags that say how a trained model is loaded."""
    flags.DEFINE_multi_string("gin_param", [], "A binding on top of the run's configuration.")
    define_import()
    names = "averaged, best, latest (by default the first that exists), or checkpoints/step-<n>."
    flags.DEFINE_string("checkpoint", None, names)


def define_import() -> None:
    """Defines --import, for the user's own modules that a model needs."""
    flags.DEFINE_multi_string("import", [], "A module of yours to import, here or on PYTHONPATH.")


def define_glossary() -> None:
    """Defines --glossary, for the commands whose outputs are translations."""
    define_path("glossary", "Terms that translations should have: Glossary in docs/decoding.md.")


def define_litert(define: Callable[[str, str], None] = define_path) -> None:
    """Defines --litert, for an exported model.

    `define` is `define_path`, or `define_paths` for a command that uses several.
    """
    define("litert", "What export --format=litert wrote, for --model_dir; needs no TensorFlow.")


def define_ensemble() -> None:
    """Defines --ensemble, for the commands that can use several models."""
    define_paths("ensemble", "Another model directory with the same subwords, to score together.")


def define_split() -> None:
    """Defines the flags of the commands that can translate sentence by sentence."""
    flags.DEFINE_bool("split_sentences", False, "Translate each sentence of a line by itself.")
    code = "Such as de or zh, for --split_sentences; a code unknown to sentencex is split as en."
    flags.DEFINE_string("source_language", "en", code)


def split_language() -> str | None:
    """Returns --source_language if --split_sentences is given, else None.

    Raises:
        UserError: another flag needs whole lines.
    """
    if not FLAGS.split_sentences:
        return None
    check_alone("split_sentences", "n_best", "prefix", "alignments")
    return FLAGS.source_language


def check_alone(flag: str, *others: str) -> None:
    """Checks that other flags, if the command has them, have their default values.

    Args:
        flag: the name of the flag that is given.
        others: the names of flags that cannot be given with it.

    Raises:
        UserError: another flag is given.
    """
    defined = [FLAGS[name] for name in others if name in FLAGS]
    if given := [f"--{other.name}" for other in defined if other.value != other.default]:
        raise UserError(f"{', '.join(given)} and --{flag}: expected the one or the other.")


def check_model_flags() -> None:
    """Checks the flags that name the model, --litert or --model_dir.

    Raises:
        UserError: neither --litert nor --model_dir is given, a flag does not go with --litert,
            or LiteRT is not installed.
    """
    if FLAGS.litert:
        loading_flags = "model_dir", "checkpoint", "gin_param", "import", "ensemble"
        # A LiteRT file only translates: it takes no prefixes and no glossary, and aligns nothing.
        check_alone("litert", *loading_flags, "prefix", "alignments", "glossary")
        require_installed("ai_edge_litert", extra="litert")
    elif not FLAGS.model_dir:
        raise UserError("--model_dir is missing: see --help.")


def find_checkpoint(model_dir: str | None = None) -> str:
    """Finds the checkpoint of --checkpoint and logs its name.

    Warns if it is an average that is older than the newest checkpoint. Call it once: a running
    trainer may write a newer checkpoint between two calls.

    Args:
        model_dir: by default --model_dir.

    Returns:
        its path in the model directory, such as "best/step-2000".

    Raises:
        UserError: there is no such checkpoint.
    """
    # Late: the client has flags in common with other commands, but needs no models.
    from t2t_repro.runs.checkpoint_folder import newer_than_average
    from t2t_repro.runs.model_directory import ModelDirectory

    directory = ModelDirectory(model_dir or FLAGS.model_dir)
    checkpoint = directory.checkpoint(FLAGS.checkpoint)
    name = os.path.relpath(checkpoint, directory.path)
    logging.info("using %s of %s", name, directory.path)
    if newer := newer_than_average(directory.path, checkpoint):
        newest = os.path.relpath(newer, directory.path)
        command = f"python -m t2t_repro.average --model_dir={shlex.quote(str(directory.path))}"
        logging.warning(f"the average is older than {newest}: {command}, or --checkpoint=latest")
    return name


def load_translator(
    checkpoint: str,
    precision: str | None = None,
    model_dir: str | None = None,
    others: Sequence[Callable[..., Any]] = (),
) -> "Translator":
    """Loads the translator of the flags: the model, those of --ensemble, and the glossary.

    It decodes a batch on each core. Settings are read before TensorFlow is imported, so that
    mistakes in them are reported soon.

    Args:
        checkpoint: path from `find_checkpoint`.
        precision: "float32" or "mixed_bfloat16"; by default that of the training run.
        model_dir: by default --model_dir.
        others: further configurables that gin may name; see `loading.read_settings`.

    Raises:
        UserError: a setting or a model cannot be used.
    """
    from t2t_repro.decoding import loading
    from t2t_repro.runs.model_directory import ModelDirectory

    directory = ModelDirectory(model_dir or FLAGS.model_dir)
    members = [(directory, checkpoint)]
    # Not every command has --ensemble and --glossary.
    for path in getattr(FLAGS, "ensemble", []):
        members.append((ModelDirectory(path), find_checkpoint(path)))
    # A copy, since += would change the flag's own list.
    params = [*FLAGS.gin_param]
    if glossary := getattr(FLAGS, "glossary", None):
        params += ["Translator.grammar = @Glossary", f"Glossary.file = {glossary!r}"]
    # FLAGS.import would be a syntax error.
    settings = loading.read_settings(directory, params, getattr(FLAGS, "import"), others)
    import_tensorflow()
    from t2t_repro.decoding.batch_plan import limit_operations_to_one_core

    limit_operations_to_one_core()
    translator = loading.load(members, settings, precision)
    translator.tags.log()
    return translator


def decoding_settings(
    translator: "Translator", checkpoint: str, flag_names: Sequence[str]
) -> Mapping[str, Any]:
    """Returns what determines the output of a line, besides the line, by names for error messages.

    If a run goes on, `work_in_blocks` names the values that have changed.

    Args:
        translator: from `load_translator`.
        checkpoint: path from `find_checkpoint`.
        flag_names: the command's own flags that matter, besides its files.
    """
    import gin

    from t2t_repro.runs.records import weights_hash
    from t2t_repro.runs.weights import name_of

    glossary = value_of("Glossary", "file")
    # The weights of each model by name.
    weights = [{name_of(weight): weight for weight in model.weights} for model in translator.models]
    return {
        "--checkpoint": checkpoint,
        "the weights": [weights_hash(by_name) for by_name in weights],
        "the subwords": translator.subwords.checksum(),
        # The whole configuration: that of the model directory, with --gin_param on top.
        "--gin_param": gin.config_str(),
        # Its content, as a text that JSON can hold.
        "--glossary": Path(glossary).read_bytes().hex() if glossary else None,
        **{f"--{name}": FLAGS[name].value for name in flag_names},
    }


def litert_settings(model: Path, flag_names: Sequence[str]) -> Mapping[str, Any]:
    """Returns what determines the output of a line, as `decoding_settings` does, for a LiteRT file.

    The file stands for all that is in it, by its path and the time of its last change.
    """
    values = {f"--{name}": FLAGS[name].value for name in flag_names}
    return {"--litert": [str(model), model.stat().st_mtime]} | values


def check_new(flag: str, may_hold_files: bool = False) -> None:
    """Checks that a flag's directory is missing or empty.

    Args:
        flag: the flag's name.
        may_hold_files: allows a directory that is not empty.

    Raises:
        UserError: the directory holds files (unless it may), or is not a directory.
    """
    path = Path(str(FLAGS[flag].value))
    is_usable = path.is_dir() and (may_hold_files or not any(path.iterdir()))
    if path.exists() and not is_usable:
        raise UserError(f"--{flag}={path} exists, expected a new directory: give another.")
