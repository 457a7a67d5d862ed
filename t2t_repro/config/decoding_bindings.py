"""The bindings of a model directory's config.gin that translation and evaluation use.

The file is read as data, since anyone may have written it: it is parsed and not acted on. What
remains are literals, and the names of searches, penalties, ensembles, utilities and metrics.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

from t2t_repro.config.checks import configurable
from t2t_repro.config.gin_files import read_gin
from t2t_repro.config.gin_text import Reference, bindings_in, modules_in, owner_of, references_in
from t2t_repro.errors import UserError

_ROOMS = (
    "t2t_repro.decoding",
    "t2t_repro.evaluation",
    "t2t_repro.model.ensemble",
    "t2t_repro.parsing.bracket_f1",
)
_EVALUATE = "evaluate"
_MOST_CHARACTERS = 2**20


def decoding_bindings(
    config_gin: Path, replaced: Collection[str] = (), imports: Sequence[str] = ()
) -> list[str]:
    """Returns the bindings of the configurables that decode or score, as lines of gin.

    A macro in the place of a value is replaced by what it stands for.

    Args:
        config_gin: of a model directory.
        replaced: names of parameters that the caller binds.
        imports: modules that the caller has imported, whose configurables may be used too.

    Raises:
        UserError: the file cannot be parsed, or refers to what is not among these configurables.
    """
    text = read_gin(config_gin)
    bound = bindings_in(text, str(config_gin))
    trusted = (*_ROOMS, *(name.partition(".")[0] for name in imports))
    kept: list[str] = []
    for name, value in bound.items():
        if name in replaced or not _is_of(owner_of(name), trusted):
            continue
        if isinstance(value, Reference) and value.is_macro:
            value = bound.get(value[1:], value)
        for reference in references_in(value):
            if reference.is_macro or not _is_of(reference.selector, trusted):
                raise UserError(
                    f"{config_gin} binds {name} = {value!r}, but {reference} is not known here: "
                    f"bind another one with --gin_param{import_hint(text)}."
                )
        kept.append(f"{name} = {value!r}")
        # A macro can be long, and stand in many places.
        if len(kept[-1]) * len(kept) > _MOST_CHARACTERS:
            raise UserError(f"{config_gin}: {name} is too long; put back the training run's file.")
    return kept


def import_hint(text: str) -> str:
    """Returns how to import the modules that a configuration names, if it names any."""
    flags = " ".join(f"--import={name}" for name in modules_in(text))
    return f", or, if you trust the training run's own modules, give {flags}" if flags else ""


def _is_of(selector: str, modules: Collection[str]) -> bool:
    """Returns whether a name is that of a configurable in one of the modules."""
    if (owner := configurable(selector)) is None:
        return False
    module = f"{owner.__module__}."
    return selector == _EVALUATE or any(module.startswith(f"{one}.") for one in modules)
