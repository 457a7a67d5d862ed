"""What the data decide: the model's rows and positions, and what a recipe leaves open.

The number of subwords is bound once, by the recipe of the subword model.
"""

from collections.abc import Callable, Mapping
from typing import Any

import gin
from absl import logging

from t2t_repro.config.gin_text import bindings_in
from t2t_repro.data.preparation import Preparation
from t2t_repro.errors import UserError
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.model_json import Precision
from t2t_repro.text.given import GivenSubwords, SubwordRecipe

SizedBy = Callable[[int], Mapping[str, Any]]
"""From the number of training pairs to bindings, such as `small_corpus`."""

_FEW_PAIRS = 10_000


@gin.configurable(denylist=["pairs"])
def small_corpus(pairs: int) -> dict[str, Any]:
    """Chooses what depends on the size of a corpus of 10,000 to 500,000 pairs, as in gin/small.gin.

    Measured for 29,000 and 68,000 pairs, see EXPERIMENTS.md; elsewhere a rule of thumb. Below
    50,000 pairs a model of this size learns its corpus by heart without much dropout. Above
    200,000 it is too small, and a wider one needs a lower rate and larger batches. Small batches
    learn more from the same number of tokens in the first hour. An epoch of 68,000 pairs has some
    1,000 updates.

    Args:
        pairs: of sentences to train on, before cleaning.

    Returns:
        bindings of the subwords, the model's sizes, dropout, the highest rate, the batches, and
        the number of updates.
    """
    is_large = pairs > 200_000
    return {
        "SubwordTraining.vocab_size": 4000 if pairs < 20_000 else 16_000 if is_large else 8000,
        "LayerConfig.d_model": 512 if is_large else 256,
        "LayerConfig.d_ff": 2048 if is_large else 1024,
        "LayerConfig.dropout": 0.3 if pairs < 50_000 else 0.1,
        "InverseSquareRoot.peak": 0.001 if is_large else 0.0015,
        "Batches.tokens_per_batch": 4096 if is_large else 2048,
        "TrainingSchedule.steps": min(max(1000 * round(pairs / 2500), 8000), 80_000),
    }


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
    bound = ", ".join(f"{name} = {value!r}" for name, value in chosen.items())
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
