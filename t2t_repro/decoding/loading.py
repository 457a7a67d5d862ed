"""Loads a translator, and its settings, from a model directory."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_repro.config.checks import check_bound
from t2t_repro.config.gin_files import configure, import_modules, read_gin, trained_bindings
from t2t_repro.config.gin_text import bindings_in
from t2t_repro.decoding.settings import CONFIGURABLES, Sampling, TranslatorSettings
from t2t_repro.decoding.shortlist_file import ShortlistFile
from t2t_repro.errors import UserError
from t2t_repro.runs.model_directory import ModelDirectory

if TYPE_CHECKING:
    from t2t_repro.decoding.translator import Translator

# The most subwords of a sentence in training.
_LONGEST = "prepare.max_length"


def load_translator(
    model_dir: str | Path,
    params: Sequence[str] = (),
    checkpoint: str | None = None,
    precision: str | None = None,
    ensemble: Sequence[str | Path | tuple[str | Path, str | None]] = (),
    imports: Sequence[str] = (),
) -> "Translator":
    """Loads a translator from a model directory, with the model's own settings.

    Nothing in the directory is executed: its config.gin is read as data. The bindings of gin are
    replaced by these settings, for the whole process.

    Args:
        model_dir: directory of the training run.
        params: bindings of gin that replace those of the run, e.g. "BeamSearch.beam_size = 1".
        checkpoint: "averaged", "best", "latest" or such as "checkpoints/step-1000"; by default the
            first of the three that there is.
        precision: "float32" or "mixed_bfloat16"; by default that of the training run.
        ensemble: model directories of other models that translate with it, or pairs of a directory
            and its checkpoint.
        imports: modules of your own that the model or its settings need; they are imported.

    Raises:
        UserError: a file or setting is missing or cannot be used, or an ensemble has different
            subwords.
    """
    directory = ModelDirectory(model_dir)
    settings = read_settings(directory, params, imports)
    pairs = (member if isinstance(member, tuple) else (member, None) for member in ensemble)
    others = ((ModelDirectory(path), its_checkpoint) for path, its_checkpoint in pairs)
    return load([(directory, checkpoint), *others], settings, precision)


def read_settings(
    directory: ModelDirectory,
    params: Sequence[str] = (),
    imports: Sequence[str] = (),
    others: Sequence[Callable[..., Any]] = (),
) -> TranslatorSettings:
    """Reads and binds the decoding settings of a model directory, with `params` on top.

    Does not import TensorFlow, unless `imports` do.

    Args:
        directory: directory of the training run.
        params: bindings on top of its configuration.
        imports: modules of your own whose configurables it may name; they are imported.
        others: further configurables that it may name, such as metrics. `params` may bind the
            first, which the caller will call, and what it refers to.

    Raises:
        UserError: the configuration, or a binding, cannot be used.
    """
    import_modules(imports)
    replaced = bindings_in("\n".join(params), "--gin_param")
    defaults = trained_bindings(directory.config_gin, (*CONFIGURABLES, *others), replaced, imports)
    # This file also has the defaults that training used where config.gin binds nothing.
    operative = directory.operative_config_gin
    longest = bindings_in(read_gin(operative) if operative.is_file() else "").get(_LONGEST)
    if isinstance(longest, int):
        # In front: a later binding of the same parameter replaces it.
        defaults.insert(0, f"Translator.trained_length = {longest}")
    roots: list[Callable[..., Any]] = [TranslatorSettings, Sampling, *others[:1]]
    check_bound(configure(None, params, roots, defaults), roots)  # None: no file.
    return TranslatorSettings()


def load(
    members: Sequence[tuple[ModelDirectory, str | None]],
    settings: TranslatorSettings,
    precision: str | None = None,
) -> "Translator":
    """Loads a translator of one or several models, with settings that are already read.

    Args:
        members: model directory and checkpoint of each model; see `ModelDirectory.checkpoint`. The
            first one's shortlist is used.
        settings: the translator's settings.
        precision: see `ModelDirectory.new_model`.

    Raises:
        UserError: a model cannot be used, or they have different subwords.
    """
    from t2t_repro.decoding.translator import Translator  # This imports TensorFlow.

    (first, _), *others = members
    subwords = first.subwords()
    for directory, _ in others:
        if directory.subwords().contents() != subwords.contents():
            problem = f"{directory.path} has other subwords than {first.path}"
            raise UserError(f"{problem}: choose models trained on the same prepared data.")
    models = [directory.load_model(checkpoint, precision) for directory, checkpoint in members]
    if len({model.vocab_size for model in models}) > 1:
        problem = "the models of the ensemble have different Transformer.vocab_size"
        raise UserError(f"{problem}: choose models trained with the same.")
    shortlist = ShortlistFile.read(first.shortlist_npz) if first.shortlist_npz.exists() else None
    return Translator(models, subwords, settings, shortlist)
