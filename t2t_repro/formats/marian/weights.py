"""The weights of Marian models in Hugging Face's form: their files, names and layout.

PyTorch stores matrices as [outputs, inputs], the transpose of ours, and the bias of the logits with
one row. Rows of embeddings are in the order of the model's own vocabulary.
"""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from absl import logging
from numpy.typing import NDArray
from safetensors.numpy import load_file

from t2t_repro.errors import UserError
from t2t_repro.formats.marian.fields import read_file, refuse_pointer
from t2t_repro.formats.marian.model import Weight, WeightsFile, table_weights
from t2t_repro.model.positional_encoding import concatenated_sinusoids, halved_sinusoids
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.weights import LayerWeight, layer_weights
from t2t_repro.vocabulary import PAD_ID

SAFETENSORS, TF_WEIGHTS = "model.safetensors", "tf_model.h5"

LOGITS_BIAS = "final_logits_bias"
SHARED, SOFTMAX = "model.shared.weight", "lm_head.weight"
OWN_TABLES = {
    "source": "model.encoder.embed_tokens.weight",
    "target": "model.decoder.embed_tokens.weight",
}
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")

_SINUSOIDS = {"halves": halved_sinusoids, "concatenated": concatenated_sinusoids}
_ROUNDING = 4e-3
"""The most by which a number below 1 differs from its bfloat16, twice."""

_ATTENTIONS = {"self_attention": "self_attn", "memory_attention": "encoder_attn"}
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
_PARTS = {
    ("self_attention", "norm"): "self_attn_layer_norm",
    ("memory_attention", "norm"): "encoder_attn_layer_norm",
    ("feed_forward", "norm"): "final_layer_norm",
    ("feed_forward", "inner"): "fc1",
    ("feed_forward", "outer"): "fc2",
}
"""Names of parts within a layer, by ours."""

_KERAS_NAMES = {"kernel": "weight", "gamma": "weight", "embeddings": "weight", "beta": "bias"}


def their_name(one: LayerWeight) -> str:
    """Returns the name of a layer's weight in PyTorch's model."""
    part = _PARTS.get((one.sublayer, one.part))
    part = part or f"{_ATTENTIONS[one.sublayer]}.{_PROJECTIONS[one.part]}"
    return f"model.{one.stack}.layers.{one.layer}.{part}.{_KERAS_NAMES.get(one.kind, one.kind)}"


def read_weights(directory: Path) -> WeightsFile:
    """Reads a model.safetensors or tf_model.h5, by the names of PyTorch's model.

    Raises:
        UserError: there is no such file, or it cannot be read.
    """
    for name, read in ((SAFETENSORS, load_file), (TF_WEIGHTS, _read_h5)):
        if (path := directory / name).exists():
            return WeightsFile(path, read_file(path, read))
    refuse_pointer(directory / "pytorch_model.bin")
    raise UserError(
        f"{directory} has no {SAFETENSORS} or {TF_WEIGHTS} (a pytorch_model.bin is a pickle, which "
        "can run any program): convert the model once, with pip install transformers torch "
        'sentencepiece and python -c "from transformers import MarianMTModel as M, MarianTokenizer '
        "as T; [c.from_pretrained('NAME').save_pretrained('converted') for c in (M, T)]\", where "
        "NAME is its directory or its name on the hub, and give --model=converted."
    )


def _read_h5(path: Path) -> dict[str, NDArray]:
    """Reads what `TFMarianMTModel.save_pretrained` wrote, in PyTorch's names and layout."""
    tensors: dict[str, NDArray] = {}

    def add(name: str, dataset: Any) -> None:
        if isinstance(dataset, h5py.Dataset):
            *parts, last = name.split(":")[0].split("/")
            tensors[_pytorch_name(parts, last)] = dataset[()].T if last == "kernel" else dataset[()]

    with h5py.File(path, "r") as file:
        file.visititems(add)
    return tensors


def _pytorch_name(parts: list[str], last: str) -> str:
    """Translates Keras's path of a weight, in which outer names are repeated."""
    if last == LOGITS_BIAS:
        return last
    if parts[-1].endswith("shared"):
        return SHARED
    stack = max(place for place, part in enumerate(parts) if part in ("encoder", "decoder"))
    return ".".join(["model", *parts[stack:], _KERAS_NAMES.get(last, last)])


def position_kind(file: WeightsFile, length: int, d_model: int) -> str:
    """Returns the kind of positions that a model with these weights adds.

    transformers compute "halves", unless the file has other tables.

    Raises:
        UserError: the tables are not [length, d_model], or neither "halves" nor "concatenated".
    """
    names = [name for name in POSITIONS if name in file.arrays]
    tables = [file.value(name, (length, d_model)) for name in names]
    for kind, sinusoids in _SINUSOIDS.items():
        expected = sinusoids(np.arange(length), d_model)
        fits = [np.allclose(table, expected, rtol=0, atol=_ROUNDING) for table in tables]
        if all(fits) and (kind == "halves" or len(fits) == len(POSITIONS)):
            return kind
    raise UserError(
        f"{file.path} has {' and '.join(names)} that are not the sinusoids of transformers or "
        "of Marian, expected these or none: a model with learned ones cannot be imported."
    )


def load_weights(model: Transformer, file: WeightsFile, rows: Mapping[str, NDArray]) -> None:
    """Gives a model the weights of a file.

    Args:
        model: built, with all that Marian's models have: biases in attention and of the logits.
        file: all of its weights. It may repeat tied embeddings, as PyTorch's model does.
        rows: for each side, their id of each of our ids: [ids], every one once.

    Raises:
        UserError: the file belongs to another model.
    """
    weights = [*table_weights(model, SHARED, OWN_TABLES, SOFTMAX, LOGITS_BIAS)]
    weights += [Weight(their_name(one), one.variable) for one in layer_weights(model)]
    known = {SHARED, SOFTMAX, *OWN_TABLES.values(), *POSITIONS, *(one.name for one in weights)}
    file.check_names(known)
    _share_tied(file, model)
    for name, variable, side in weights:
        shape = tuple(variable.shape)
        theirs = (1, *shape) if name == LOGITS_BIAS else shape if side else shape[::-1]
        value = file.value(name, theirs)
        variable.assign(value.reshape(shape)[rows[side]] if side else value.T)
    if np.any(model.embedding.table[PAD_ID]):
        # Training with transformers changes it, as the softmax has the same table.
        logging.info("%s has numbers in the row of PAD; a translation begins with zeros", file.path)


def _share_tied(file: WeightsFile, model: Transformer) -> None:
    """Gives a table that source, target or softmax share all its names.

    Raises:
        UserError: the file has different tables for them.
    """
    names = [OWN_TABLES["target"], *[SOFTMAX] * (model.own_softmax is None)]
    if model.own_source_embedding is None:
        names += [SHARED, OWN_TABLES["source"]]
    found = {name: file.arrays[name] for name in names if name in file.arrays}
    for table, other in pairwise(found.values()):
        if not np.array_equal(table, other):
            raise UserError(
                f"{file.path} has different numbers in {' and '.join(found)}, expected the "
                "same: set tie_word_embeddings in config.json to false if they should differ."
            )
    file.arrays.update({name: table for table in found.values() for name in names})
