"""The model that is configured for its data: rows for subwords, positions for sentences.

The number of subwords is said once, by the recipe of the subword model.
"""

from typing import Any

import gin
from absl import logging

from t2t_repro.data.preparation import Preparation
from t2t_repro.data.prepared import PreparedData
from t2t_repro.errors import UserError
from t2t_repro.model.transformer import OWN_SOURCE_EMBEDDING, Transformer
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.model_json import Precision
from t2t_repro.text.given import GivenSubwords
from t2t_repro.text.subword_model import SubwordRecipe


def configured_preparation(origin: ModelDirectory | None = None) -> Preparation:
    """How the data are prepared, before anything of them or of the model is made.

    Args:
        origin: a model whose subwords are taken unless others are bound.

    Raises:
        UserError: the model that is configured would have no room for them.
    """
    subwords: dict[str, Any] = {}
    if origin and _is_followed():
        logging.info(
            f"data: with the subwords of {origin.path} (train.init_from), no others being bound as "
            "prepare.subwords"
        )
        subwords = _subwords_of(origin)
    preparation = Preparation(**subwords)
    bound = gin.get_bindings("Transformer")
    tied = bound.get("tied_embeddings", "all")
    if preparation.has_own_source_ids and tied not in OWN_SOURCE_EMBEDDING:
        raise UserError(
            "prepare.source_subwords gives the source a vocabulary of its own, but "
            f"Transformer.tied_embeddings = {tied!r} has it share the target's embedding: bind "
            f"Transformer.tied_embeddings = {' or '.join(map(repr, OWN_SOURCE_EMBEDDING))}."
        )
    needed = _rows(preparation)
    rows = needed | bound
    for name in ("vocab_size", "source_vocab_size"):
        # As the Transformer has it: one of the source's own, or the target's.
        found = rows.get(name) or rows["vocab_size"]
        _check_rows(name, found, needed.get(name, needed["vocab_size"]))
    is_learned = bound.get("positional_encoding") == "learned"
    _check_positions(bound.get("max_length") if is_learned else None, preparation.max_length)
    return preparation


def new_model(
    preparation: Preparation, precision: Precision, origin: ModelDirectory | None = None
) -> Transformer:
    """The model that is configured, with a row for every subword unless its rows are bound.

    Args:
        preparation: of its data.
        precision: "float32" or "mixed_bfloat16".
        origin: a model; where its subwords are taken, so is the number of its rows.
    """
    bound = gin.get_bindings("Transformer")
    needed = _rows(preparation)
    if origin and _is_followed():
        sizes = origin.sizes()
        there = {"vocab_size": sizes["vocab_size"], "source_vocab_size": sizes["source_vocab_size"]}
        # More, where tags of the data become subwords too.
        needed = {
            name: max(count, there[name] or there["vocab_size"]) for name, count in needed.items()
        }
    rows: dict[str, Any] = {name: count for name, count in needed.items() if name not in bound}
    return Transformer(**rows, dtype=precision)


def check_fit(model: Transformer, data: PreparedData) -> None:
    """Checks that a model has a row for every subword and, if it learns them, all positions.

    Raises:
        UserError: it has not.
    """
    _check_rows("vocab_size", model.vocab_size, data.subwords.target.size)
    _check_rows("source_vocab_size", model.source_vocab_size, data.subwords.source.size)
    _check_positions(model.longest, data.max_length)


def _is_followed() -> bool:
    """Whether no subwords are bound, so that those of a model that there is are taken."""
    bound = gin.get_bindings("prepare", resolve_references=False)
    return not bound.keys() & {"subwords", "source_subwords"}


def _subwords_of(origin: ModelDirectory) -> dict[str, SubwordRecipe]:
    """How data are prepared with the subwords of a model.

    Raises:
        UserError: there are none, or not those that the model was trained with.
    """
    pair = origin.subwords()
    if pair.source is pair.target:
        return {"subwords": GivenSubwords(str(origin.path))}
    return {
        "subwords": GivenSubwords(str(origin.path), "target"),
        "source_subwords": GivenSubwords(str(origin.path), "source"),
    }


def _rows(preparation: Preparation) -> dict[str, int]:
    """How many rows a Transformer needs, by the names of its arguments: one for every subword."""
    rows = {"vocab_size": preparation.subwords.vocab_size}
    if preparation.source_subwords and preparation.has_own_source_ids:
        rows["source_vocab_size"] = preparation.source_subwords.vocab_size
    return rows


def _check_rows(name: str, rows: int, subwords: int) -> None:
    if subwords > rows:
        raise UserError(
            f"Transformer.{name} is {rows}, but the subword model has {subwords} entries: "
            "leave it out, or bind at least as many rows."
        )


def _check_positions(longest: int | None, max_length: int) -> None:
    if longest is not None and max_length > longest:
        raise UserError(
            f"Transformer.max_length is {longest}, but the data have sentences of up to "
            f"{max_length} subwords: bind at least as many positions, or lower prepare.max_length."
        )
