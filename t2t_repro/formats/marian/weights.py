"""The weights of Marian models in Hugging Face's form: their files, names and layout.

PyTorch stores matrices as [outputs, inputs], the transpose of ours, and the bias of the logits with
one row. Rows of embeddings are in the order of the model's own vocabulary.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import h5py
import keras
import numpy as np
from absl import logging
from numpy.typing import NDArray
from safetensors.numpy import load_file

from t2t_repro.errors import UserError
from t2t_repro.formats.marian.config import read_file
from t2t_repro.model.decoder import Decoder, DecoderLayer
from t2t_repro.model.encoder import Encoder, EncoderLayer
from t2t_repro.model.positional_encoding import concatenated_sinusoids, halved_sinusoids
from t2t_repro.model.transformer import Transformer
from t2t_repro.vocabulary import PAD_ID

Side = Literal["source", "target"]
Array = NDArray[np.float32]

SAFETENSORS, TF_WEIGHTS = "model.safetensors", "tf_model.h5"

LOGITS_BIAS = "final_logits_bias"
SHARED, SOFTMAX = "model.shared.weight", "lm_head.weight"
OWN_TABLES: dict[Side, str] = {
    "source": "model.encoder.embed_tokens.weight",
    "target": "model.decoder.embed_tokens.weight",
}
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")

_SINUSOIDS = {"halves": halved_sinusoids, "concatenated": concatenated_sinusoids}
_ROUNDING = 4e-3
"""The most by which a number below 1 differs from its bfloat16, twice."""

MAX_BYTES = 2**34
"""Of a file of weights."""

NEVER = -1000.0
"""A logit that adds nothing to a sum of exponentials in float32."""

_TYPES = {"float32", "float16", "bfloat16"}
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


class Weight(NamedTuple):
    """A weight in both forms.

    Attributes:
        name: theirs.
        variable: ours; None for a bias that our layer lacks.
        rows: the side whose vocabulary its rows belong to, if any.
    """

    name: str
    variable: keras.Variable | None
    rows: Side | None = None


def weights_of(model: Transformer) -> Iterator[Weight]:
    """Lists all weights of a model.

    Args:
        model: built, with all that Marian's models have: biases in attention and of the logits.
    """
    if model.own_source_embedding is None:
        yield Weight(SHARED, model.embedding.table, "target")
    else:
        yield Weight(OWN_TABLES["source"], model.own_source_embedding.table, "source")
        yield Weight(OWN_TABLES["target"], model.embedding.table, "target")
    if model.own_softmax is not None:
        yield Weight(SOFTMAX, model.own_softmax.table, "target")
    yield Weight(LOGITS_BIAS, model.logits_bias, "target")
    yield from layer_weights(model)


def layer_weights(model: Transformer) -> Iterator[Weight]:
    """Lists the weights of all layers; `variable` is None for biases that a model lacks."""
    for part in layer_parts(model):
        name = _PARTS.get((part.sublayer, part.name))
        if name is None:
            name = f"{_ATTENTIONS[part.sublayer]}.{_PROJECTIONS[part.name]}"
        name = f"model.{part.stack}.layers.{part.number}.{name}"
        weight, bias = part.weights()
        yield Weight(f"{name}.weight", weight)
        yield Weight(f"{name}.bias", bias)


class LayerPart(NamedTuple):
    """A layer with weights, within a layer of a stack.

    Attributes:
        stack: "encoder" or "decoder".
        number: of the layer in its stack, from 0.
        sublayer: "self_attention", "memory_attention" or "feed_forward".
        name: "query", "key", "value", "output"; "inner", "outer"; or "norm".
        layer: a Dense, or a LayerNorm.
    """

    stack: str
    number: int
    sublayer: str
    name: str
    layer: Any

    def weights(self) -> tuple[keras.Variable, keras.Variable | None]:
        """Returns the matrix or scale, and the bias, which is None where our layer has none."""
        if self.name == "norm":
            return self.layer.gamma, self.layer.beta
        return self.layer.kernel, self.layer.bias


def layer_parts(model: Transformer) -> Iterator[LayerPart]:
    """Lists what has weights in the layers of both stacks."""
    stacks: dict[str, Encoder | Decoder] = {"encoder": model.encoder, "decoder": model.decoder}
    for stack, layers in stacks.items():
        for number, layer in enumerate(layers.layers):
            for sublayer, name, part in _parts_of(layer):
                yield LayerPart(stack, number, sublayer, name, part)


def _parts_of(layer: EncoderLayer | DecoderLayer) -> Iterator[tuple[str, str, Any]]:
    attentions = [("self_attention", layer.self_attention, layer.around_self_attention)]
    if isinstance(layer, DecoderLayer):
        memory = layer.memory_attention, layer.around_memory_attention
        attentions.append(("memory_attention", *memory))
    for sublayer, attention, around in attentions:
        yield sublayer, "query", attention.query_projection
        yield sublayer, "key", attention.key_projection
        yield sublayer, "value", attention.value_projection
        yield sublayer, "output", attention.output_projection
        yield sublayer, "norm", around.norm
    yield "feed_forward", "inner", layer.feed_forward.inner
    yield "feed_forward", "outer", layer.feed_forward.outer
    yield "feed_forward", "norm", layer.around_feed_forward.norm


class WeightsFile:
    """The tensors of a file, by the names of PyTorch's model.

    Args:
        path: of a model.safetensors or tf_model.h5.

    Attributes:
        tensors: of the types that they have in the file.

    Raises:
        UserError: the file cannot be read, or holds other types than floats.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tensors = read_file(path, _read_tensors)

    def check_shapes(self, expected: Mapping[str, tuple[int, ...]]) -> None:
        """Checks that the file has tensors of these shapes.

        Raises:
            UserError: one is missing, or has another shape.
        """
        for name, shape in expected.items():
            actual = self.tensors[name].shape if name in self.tensors else "no such tensor"
            if actual != shape:
                raise UserError(
                    f"{self.path} has {actual} for {name}, expected {shape} as config.json says: "
                    "give the files of one model."
                )

    def position_kind(self, length: int, d_model: int) -> str:
        """Returns the kind of positions that a model with these weights adds.

        transformers compute "halves", unless the file has other tables.

        Raises:
            UserError: the tables are not [length, d_model], or neither "halves" nor "concatenated".
        """
        tables = {name: self.tensors[name] for name in POSITIONS if name in self.tensors}
        self.check_shapes(dict.fromkeys(tables, (length, d_model)))
        for kind, sinusoids in _SINUSOIDS.items():
            found = {"rtol": 0, "atol": _ROUNDING, "b": sinusoids(np.arange(length), d_model)}
            fits = [np.allclose(table.astype(np.float32), **found) for table in tables.values()]
            if all(fits) and (kind == "halves" or len(fits) == len(POSITIONS)):
                return kind
        raise UserError(
            f"{self.path} has {' and '.join(tables)} that are not the sinusoids of transformers or "
            "of Marian, expected these or none: a model with learned ones cannot be imported."
        )

    def share_tied(self, model: Transformer) -> None:
        """Gives a table that source, target or softmax share all its names.

        Raises:
            UserError: the file has different tables for them.
        """
        names = [OWN_TABLES["target"], *[SOFTMAX] * (model.own_softmax is None)]
        if model.own_source_embedding is None:
            names += [SHARED, OWN_TABLES["source"]]
        found = {name: self.tensors[name] for name in names if name in self.tensors}
        for table, other in pairwise(found.values()):
            if not np.array_equal(table, other):
                raise UserError(
                    f"{self.path} has different numbers in {' and '.join(found)}, expected the "
                    "same: set tie_word_embeddings in config.json to false if they should differ."
                )
        self.tensors |= {name: table for table in found.values() for name in names}


def _read_tensors(path: Path) -> dict[str, np.ndarray]:
    if (size := path.stat().st_size) > MAX_BYTES:
        raise ValueError(f"it has {size:,} bytes, at most {MAX_BYTES:,} are read")
    tensors = _read_h5(path) if path.name == TF_WEIGHTS else load_file(path)
    if other := {tensor.dtype.name for tensor in tensors.values()} - _TYPES:
        raise ValueError(f"it has tensors of {', '.join(other)}, only floats are read")
    return tensors


def _read_h5(path: Path) -> dict[str, np.ndarray]:
    """Reads what `TFMarianMTModel.save_pretrained` wrote, in PyTorch's names and layout."""
    tensors: dict[str, np.ndarray] = {}

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


def load_weights(model: Transformer, file: WeightsFile, rows: Mapping[Side, NDArray]) -> None:
    """Gives a model the weights of a file.

    Args:
        model: built, see `weights_of`.
        file: all of its weights. It may repeat tied embeddings, as PyTorch's model does.
        rows: for each side, their id of each of our ids: [ids], every one once.

    Raises:
        UserError: the file belongs to another model.
    """
    weights = [*weights_of(model)]
    known = {SHARED, SOFTMAX, *OWN_TABLES.values(), *POSITIONS, *(one.name for one in weights)}
    if others := file.tensors.keys() - known:
        raise UserError(
            f"{file.path} has {', '.join(sorted(others)[:3])}, expected the weights of a "
            "MarianMTModel with the layers of config.json: give such a model."
        )
    file.share_tied(model)
    for name, variable, side in weights:
        assert variable is not None
        shape = tuple(variable.shape)
        theirs = (1, *shape) if name == LOGITS_BIAS else shape if side else shape[::-1]
        file.check_shapes({name: theirs})
        value = file.tensors[name].astype(np.float32)
        if not np.isfinite(value).all():
            raise UserError(f"{file.path} has values that are not finite in {name}.")
        variable.assign(value.reshape(shape)[rows[side]] if side else value.T)
    if np.any(model.embedding.table[PAD_ID]):
        # Training with transformers changes it, as the softmax has the same table.
        logging.info("%s has numbers in the row of PAD; a translation begins with zeros", file.path)
