"""Fits the model's rows to the data, unless the gin file binds them, and checks its positions."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from absl import logging

from t2t_repro.errors import UserError
from t2t_repro.model.settings import TransformerSettings
from t2t_repro.model.stack import check_names
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.text.training import SubwordRecipes
from t2t_repro.training.settings import Experiment


def fit_to_data(experiment: Experiment, initial: ModelDirectory | None = None) -> Experiment:
    """Sets the subwords and embedding rows that the gin file leaves open, and checks the others.

    Args:
        experiment: settings; subwords and rows that are bound stay as they are.
        initial: a model whose subwords are used if none are bound. The tables then get at least as
            many rows as it has.

    Returns:
        the experiment with its subwords and rows set.

    Raises:
        UserError: the model has fewer rows or positions than the data need, or the name of its
            activation or norm is unknown.
    """
    model, preparation = experiment.model, experiment.preparation
    check_names(model.config)  # Of activation and norm, before the data are prepared.
    initial_sizes: Mapping[str, Any] = {}
    if initial and not (preparation.subwords or preparation.source_subwords):
        logging.info(f"data: with the subwords of {initial.path}, as prepare.subwords is not bound")
        preparation = preparation.with_subwords_of(initial.path)
        initial_sizes = initial.sizes()
    model = _with_table_rows(model, preparation.recipes, initial_sizes)
    longest, positions = preparation.max_length, model.max_length or 0
    if model.positional_encoding == "learned" and longest > positions:
        problem = f"Transformer.max_length = {positions} is below prepare.max_length = {longest}"
        raise UserError(f"{problem}: raise the first or lower the second.")
    return replace(experiment, model=model, preparation=preparation)


def _with_table_rows(
    model: TransformerSettings, recipes: SubwordRecipes, initial_sizes: Mapping[str, Any]
) -> TransformerSettings:
    """Returns the settings with the rows of tables that were not bound, and checks the others.

    Args:
        model: the settings.
        recipes: recipes of the data's subwords, each of which needs a row.
        initial_sizes: the Transformer's arguments of an initial model with these subwords, or {}.

    Raises:
        UserError: the model has fewer rows than the subwords need.
    """
    needed_rows = {"vocab_size": recipes.target.vocab_size}
    # Without either, both sides use the rows of vocab_size.
    if recipes.has_own_source_ids or model.source_vocab_size:
        needed_rows["source_vocab_size"] = recipes.source.vocab_size
    for name, needed in needed_rows.items():
        bound = getattr(model, name)
        if bound is None:
            # An initial model without source_vocab_size has vocab_size rows for both sides.
            initial = initial_sizes.get(name) or initial_sizes.get("vocab_size", 0)
            # Tags of the data may need more rows than the initial model has.
            model = replace(model, **{name: max(needed, initial)})
        elif needed > bound:
            problem = f"Transformer.{name} is {bound}, but the subword model has {needed} entries"
            raise UserError(f"{problem}: leave it unbound, or bind at least {needed}.")
    return model
