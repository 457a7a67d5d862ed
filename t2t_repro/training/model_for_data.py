"""What the data decide: the model's rows and positions, and what a recipe leaves open.

The number of subwords is bound once, by the recipe of the subword model.
"""

from collections.abc import Callable, Mapping
from typing import Any

import gin
from absl import logging

from t2t_repro.config.gin_text import bindings_in
from t2t_repro.config.values import short
from t2t_repro.data.preparation import Preparation
from t2t_repro.errors import UserError
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.model_json import Precision
from t2t_repro.text.given import GivenSubwords, SubwordRecipe

SizedBy = Callable[[int], Mapping[str, Any]]
"""From the number of training pairs to bindings, such as `small_corpus` in gin/small_corpus.py."""

_FEW_PAIRS = 10_000


def bind_by_size(sized_by: SizedBy, pairs: int) -> None:
    """Binds what the number of training pairs decides and nothing else binds.

    Args:
        sized_by: chooses the bindings.
        pairs: to train on, before cleaning.
    """
    already = bindings_in(gin.config_str())
    chosen = {name: value for name, value in sized_by(pairs).items() if name not in already}
    with gin.unlock_config():
        for name, value in chosen.items():
            gin.bind_parameter(name, value)
    bound = ", ".join(f"{name} = {short(value)}" for name, value in chosen.items())
    logging.info("%s pairs to train on decide what is not bound: %s", f"{pairs:,}", bound)
    if pairs < _FEW_PAIRS:
        logging.warning(
            "%s pairs are few: a model that was trained on more text and is trained on with these "
            "is better; see docs/fine_tuning.md",
            f"{pairs:,}",
        )


def configured_preparation(initial: ModelDirectory | None = None) -> Preparation:
    """Builds the preparation of the data, before anything of them or of the model is made.

    Args:
        initial: a model whose subwords are taken unless others are bound.

    Raises:
        UserError: the configured model would have no room for the data.
    """
    subwords: dict[str, Any] = {}
    if initial and _is_followed():
        logging.info(
            f"data: with the subwords of {initial.path} (train.init_from), since "
            "prepare.subwords is not bound"
        )
        subwords = _subwords_of(initial)
    preparation = Preparation(**subwords)
    bound = gin.get_bindings("Transformer")
    needed = _rows(preparation)
    rows = needed | bound
    for name in ("vocab_size", "source_vocab_size"):
        # Without rows of its own, the source has the target's.
        count = rows.get(name) or rows["vocab_size"]
        least = needed.get(name, needed["vocab_size"])
        if least > count:
            raise UserError(
                f"Transformer.{name} is {count}, but the subword model has {least} entries: "
                "leave it out, or bind at least as many rows."
            )
    longest = bound.get("max_length") if bound.get("positional_encoding") == "learned" else None
    if longest is not None and preparation.max_length > longest:
        raise UserError(
            f"Transformer.max_length is {longest}, but the data have sentences of up to "
            f"{preparation.max_length} subwords: bind at least as many positions, or lower "
            "prepare.max_length."
        )
    return preparation


def new_model(
    preparation: Preparation, precision: Precision, initial: ModelDirectory | None = None
) -> Transformer:
    """Builds the configured model, with a row for every subword unless its rows are bound.

    Args:
        preparation: of its data.
        precision: "float32" or "mixed_bfloat16".
        initial: a model; its number of rows is taken where its subwords are.
    """
    bound = gin.get_bindings("Transformer")
    needed = _rows(preparation)
    if initial and _is_followed():
        sizes = initial.sizes()
        # More rows, where tags of the data become subwords too.
        needed = {
            name: max(count, sizes[name] or sizes["vocab_size"]) for name, count in needed.items()
        }
    rows: dict[str, Any] = {name: count for name, count in needed.items() if name not in bound}
    return Transformer(**rows, dtype=precision)


def _is_followed() -> bool:
    """Returns whether no subwords are bound, so that the initial model's are taken."""
    bound = gin.get_bindings("prepare", resolve_references=False)
    return not bound.keys() & {"subwords", "source_subwords"}


def _subwords_of(initial: ModelDirectory) -> dict[str, SubwordRecipe]:
    """Returns arguments of `Preparation` that take a model's subwords."""
    pair = initial.subwords()
    if pair.source is pair.target:
        return {"subwords": GivenSubwords(str(initial.path))}
    return {
        "subwords": GivenSubwords(str(initial.path), "target"),
        "source_subwords": GivenSubwords(str(initial.path), "source"),
    }


def _rows(preparation: Preparation) -> dict[str, int]:
    """Returns the rows that a Transformer needs, one per subword, by its arguments' names."""
    rows = {"vocab_size": preparation.subwords.vocab_size}
    if preparation.source_subwords and preparation.has_own_source_ids:
        rows["source_vocab_size"] = preparation.source_subwords.vocab_size
    return rows
