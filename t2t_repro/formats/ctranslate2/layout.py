"""Names of CTranslate2's weights, which export and import share.

CTranslate2 stores matrices as [outputs, inputs], the transpose of ours. Projections of the same
input are one matrix there, one below the other.
"""

from typing import NamedTuple

from t2t_repro.runs.weights import LayerWeight

MODEL, CONFIG = "model.bin", "config.json"

SOURCE, TARGET = "encoder/embeddings_0/weight", "decoder/embeddings/weight"
SOFTMAX, LOGITS_BIAS = "decoder/projection/weight", "decoder/projection/bias"
POSITIONS = {
    "encoder/position_encodings/encodings": "positional_encoding/table",
    "decoder/position_encodings/encodings": "target_positional_encoding/table",
}
"""Names of the tables of positions, and ours."""

ACTIVATIONS = {
    "relu": 0, "silu": 2, "swish": 2, "gelu": 3, "tanh": 5, "sigmoid": 6,
}  # fmt: skip
"""Numbers of CTranslate2's activations, by Keras's names; 1 and 4 approximate the gelu."""

_SUBLAYERS = {
    "": ("", ()),
    "self_attention": ("self_attention", (("query", "key", "value"), ("output",))),
    "memory_attention": ("attention", (("query",), ("key", "value"), ("output",))),
    "feed_forward": ("ffn", (("inner",), ("outer",))),
}
"""Names of sub-layers there, and the parts of each of their matrices, by our names."""


class Place(NamedTuple):
    """The place of a weight in CTranslate2's.

    Attributes:
        name: of the tensor.
        number: of the part that it is, from 0.
        parts: the number of parts, one below the other.
    """

    name: str
    number: int = 0
    parts: int = 1


def place_of(weight: LayerWeight) -> Place:
    """Returns the place of a layer's weight."""
    kind = "weight" if weight.kind == "kernel" else weight.kind
    for number, parts in enumerate(_SUBLAYERS[weight.sublayer][1]):
        if weight.part in parts:
            name = f"{_scope(weight)}/linear_{number}/{kind}"
            return Place(name, parts.index(weight.part), len(parts))
    return Place(f"{_scope(weight)}/layer_norm/{kind}")


def scale_of(weight: LayerWeight) -> str:
    """Returns the name of what the queries of a weight's sub-layer are multiplied by."""
    return f"{_scope(weight)}/queries_scale"


def _scope(weight: LayerWeight) -> str:
    name = _SUBLAYERS[weight.sublayer][0]
    return f"{weight.stack}/layer_{weight.layer}/{name}" if name else weight.stack
