"""Loads a translator from a model directory: data in, a Translator out."""

from collections.abc import Collection, Sequence
from pathlib import Path

import gin

from t2t_repro.config.checks import check_read, check_values
from t2t_repro.config.gin_files import decoding_bindings, import_modules, parse, read_gin
from t2t_repro.config.gin_text import bindings_in, owner_of
from t2t_repro.decoding.marian_search import MarianSearch  # noqa: F401 (for gin)
from t2t_repro.decoding.minimum_bayes_risk import MinimumBayesRisk  # noqa: F401 (for gin)
from t2t_repro.decoding.sampling import Sampling  # noqa: F401 (for gin)
from t2t_repro.decoding.translator import Translator
from t2t_repro.decoding.tree_grammar import TreeGrammar  # noqa: F401 (for gin)
from t2t_repro.errors import UserError
from t2t_repro.runs.model_directory import ModelDirectory

_LONGEST = "prepare.max_length"
_ROOTS = ("Translator", "BeamSearch", "Sampling", "Aligner", "evaluate")
"""The configurables that verbs with a trained model call by themselves."""


def load_translator(
    model_dir: str | Path,
    params: Sequence[str] = (),
    checkpoint: str | None = None,
    precision: str | None = None,
    ensemble: Sequence[str | Path | tuple[str | Path, str | None]] = (),
    imports: Sequence[str] = (),
) -> Translator:
    """Loads a trained model for translation, with the settings that it was trained with.

    Nothing in the directory is executed: its config.gin is read as data. gin's bindings are then
    those for decoding, for the whole process.

    Args:
        model_dir: of the training run.
        params: bindings on top of it, e.g. "BeamSearch.beam_size = 1".
        checkpoint: see `ModelDirectory.checkpoint`.
        precision: see `ModelDirectory.new_model`.
        ensemble: model directories of others that translate with it, or pairs of a directory and
            its checkpoint.
        imports: modules of your own that the model or its settings need; they are imported.

    Raises:
        UserError: something is missing or cannot be used, or an ensemble has different subwords.
    """
    import_modules(imports)
    directory = ModelDirectory(model_dir)
    subwords = directory.subwords()
    configure_as_trained(directory, params, imports)
    models = []
    others = [one if isinstance(one, tuple) else (one, None) for one in ensemble]
    for path, name in ((model_dir, checkpoint), *others):
        member = ModelDirectory(path)
        if member.subwords().contents() != subwords.contents():
            raise UserError(
                f"{path} was trained with other subwords than {model_dir}, expected the same: an "
                "ensemble is of models that were trained on the same prepared data."
            )
        models.append(member.load_model(name, precision))
    return Translator(models, subwords)


def configure_as_trained(
    directory: ModelDirectory, params: Sequence[str], imports: Sequence[str] = ()
) -> None:
    """Binds what a model directory says of decoding and evaluation, and bindings on top of it.

    Args:
        directory: of the training run.
        params: bindings on top of its configuration.
        imports: modules that have been imported, whose configurables it may name.

    Raises:
        UserError: the configuration, or a binding, cannot be used.
    """
    replaced = bindings_in("\n".join(params), "--gin_param")
    defaults = decoding_bindings(directory.config_gin, replaced, imports)
    in_effect = directory.operative_config_gin
    longest = bindings_in(read_gin(in_effect) if in_effect.is_file() else "").get(_LONGEST)
    if isinstance(longest, int):
        defaults.insert(0, f"Translator.trained_length = {longest}")
    own = parse(None, params, defaults)
    check_values()
    _check_search(own)
    check_read(own, _ROOTS)


def _check_search(own: Collection[str]) -> None:
    """Checks that `BeamSearch` is not bound in vain, in a directory that searches as Marian.

    Args:
        own: names of the caller's bindings.

    Raises:
        UserError: it is.
    """
    search = bindings_in(gin.config_str()).get("Translator.search")
    for name in own:
        if search == "@MarianSearch()" and owner_of(name) == "BeamSearch":
            raise UserError(
                f"{name} is bound, but the search is {search}: bind MarianSearch."
                f"{name.rpartition('.')[2]}, or Translator.search = @BeamSearch() too."
            )
