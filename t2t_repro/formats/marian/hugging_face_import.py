"""Builds our `Transformer` of the files of a Marian model, as Hugging Face saves it."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from t2t_repro.errors import UserError
from t2t_repro.formats.marian.config import CONFIG, MarianConfig
from t2t_repro.formats.marian.text import MarianText
from t2t_repro.formats.marian.weights import (
    LOGITS_BIAS,
    OWN_TABLES,
    Side,
    check_shapes,
    load_weights,
)
from t2t_repro.model.transformer import OWN_SOURCE_EMBEDDING, Transformer
from t2t_repro.strangers.safetensors_file import SafetensorsFile
from t2t_repro.strangers.weights_file import WeightsFile

SAFETENSORS, TF_WEIGHTS, TORCH = "model.safetensors", "tf_model.h5", "pytorch_model.bin"
SHARDS = "model.safetensors.index.json"
"""What a model has whose weights are more than a file of safetensors is to hold: 5 GB or 50."""


def weights_file(directory: Path) -> WeightsFile:
    """Opens the weights of a model: model.safetensors or, in older ones, tf_model.h5.

    Args:
        directory: where the model lies.

    Raises:
        UserError: there is neither, or it cannot be used.
    """
    if (path := directory / SAFETENSORS).exists():
        return SafetensorsFile(path)
    if (path := directory / TF_WEIGHTS).exists():
        # HDF5's library takes a moment.
        from t2t_repro.strangers.tf_weights_file import TFWeightsFile

        return TFWeightsFile(path)
    found = "no weights"
    if (directory / TORCH).exists():
        found = f"{TORCH} alone, which is a program"
    elif (directory / SHARDS).exists():
        found = "weights in several files"
    raise UserError(
        f"{directory} has {found}, expected {SAFETENSORS} or {TF_WEIGHTS}: convert the model once, "
        f'with pip install transformers torch and python -c "from transformers import '
        f"MarianMTModel as M; M.from_pretrained('{directory}').save_pretrained('{directory}')\"."
    )


def transformer_from_marian(
    directory: Path, config: MarianConfig, text: MarianText, file: WeightsFile
) -> Transformer:
    """Builds the Transformer of a Marian model, with its weights; ids are in our order.

    Args:
        directory: where the model lies.
        config: its settings.
        text: of the same model.
        file: its weights.

    Returns:
        the model, built and loaded.

    Raises:
        UserError: the file of weights cannot be used, or files do not fit one another.
    """
    _check_sizes(config, file)
    rows: dict[Side, NDArray[np.int64]] = {
        "source": _rows(directory, text.source.ids, config.source_rows),
        "target": _rows(directory, text.target.ids, config.target_rows),
    }
    _check_special(directory, config, rows, text)
    model = Transformer(**config.model())
    model.build()
    load_weights(model, file, rows)
    return model


def _rows(directory: Path, ids: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Their row of each of ours: those of pieces, then those that no piece has."""
    if len(ids) > count:
        raise UserError(
            f"{directory} has a vocabulary of {len(ids)} pieces, but config.json has room for "
            f"{count}: give the files of one model."
        )
    return np.concatenate([ids, np.setdiff1d(np.arange(count), ids)])


def _check_sizes(config: MarianConfig, file: WeightsFile) -> None:
    """Holds what the settings describe against the file, before anything of that size is made."""
    last = f"model.decoder.layers.{config.num_layers - 1}.fc1.weight"
    if last not in file.shapes:
        raise UserError(
            f"{file.path} has no {last}, expected {config.num_layers} layers as config.json says: "
            "give the files of one model."
        )
    d_model, d_ff = config.layer.d_model, config.layer.d_ff
    expected = {last: (d_ff, d_model), LOGITS_BIAS: (1, config.target_rows)}
    if config.tied_embeddings in OWN_SOURCE_EMBEDDING:
        expected[OWN_TABLES["source"]] = (config.source_rows, d_model)
    check_shapes(expected, file)


def _check_special(
    directory: Path, config: MarianConfig, rows: dict[Side, NDArray[np.int64]], text: MarianText
) -> None:
    for side, of_side in rows.items():
        found = dict(zip(("pad_token_id", "eos_token_id"), of_side.tolist(), strict=False))
        expected = {"pad_token_id": config.pad, "eos_token_id": config.eos}
        for name, number in expected.items():
            if found[name] != number:
                raise UserError(
                    f"{directory / CONFIG} has {name} = {number}, but the vocabulary of the {side} "
                    f"has it at {found[name]}: give the files of one model."
                )
    if config.tied_embeddings in ("all", "source_target") and not text.shares_ids:
        raise UserError(
            f"{directory / CONFIG} has source and target share an embedding, but they have "
            "vocabularies of their own: give the files of one model."
        )
